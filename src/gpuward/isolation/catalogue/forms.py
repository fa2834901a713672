"""What each file of the code book must look like: its columns, and how a line becomes a row. Reading is not here."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpuward.isolation.catalogue import cells
from gpuward.isolation.catalogue.rows import (
    ActionRow,
    BitMeaning,
    Category,
    Immediate,
    Investigation,
    LevelWord,
    LinkSeverity,
    Need,
    NvlinkRow,
    OtherRow,
    Pattern,
    PhraseRow,
    PolicyRow,
    Profile,
    Recovery,
    RecoveryRow,
    Register,
    RegisterRow,
    Scope,
    Severity,
    SwitchScope,
    SxidRow,
    XidRow,
)
from gpuward.model.level import LEVELS, FaultClass

Row = TypeVar("Row")
Values = Mapping[str, Any]
Mistake = tuple[str, str]
"""The column, and what is wrong and allowed there."""


def _nothing(_: Values) -> Iterator[Mistake]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Form(Generic[Row]):
    """What a file must look like.

    `columns` in their order with the reader of each, `make` a row from values and its number (from 1), `keys` of a row
    no two rows may share (the mistake is told at `key_column`), `check` what must hold between the cells of a line.
    """

    columns: Mapping[str, cells.Cell]
    make: Callable[[Values, int], Row]
    key_column: str
    keys: Callable[[Row], Iterable[object]]
    check: Callable[[Values], Iterator[Mistake]] = _nothing


def _patterns(values: Values) -> Iterator[Mistake]:
    """Check mask and value columns against each other and against the drawn bits."""
    for drawn, mask, value in (
        ("intrinfo_bits_v1", "v1_mask", "v1_value"),
        ("intrinfo_bits_v2", "v2_mask", "v2_value"),
        ("action2_bits_v2", "action2_v2_mask", "action2_v2_value"),
    ):
        pattern = _pattern(values, mask, value)
        if (values[mask] is None) != (values[value] is None):
            yield value, f"stands without {mask} or the reverse; give both or none"
        elif pattern is not None and pattern.value & ~pattern.mask:
            yield mask, f"0x{pattern.mask:08X} does not contain its value 0x{pattern.value:08X}; widen the mask"
        elif pattern != values[drawn]:
            yield drawn, f"disagrees with {mask} and {value}; make them equal"
    if (values["action2"] is None) != (values["action2_bits_v2"] is None):
        yield "action2", "stands without its bits or the reverse; give both or none"


def _pattern(values: Values, mask: str, value: str) -> Pattern | None:
    if values[mask] is None or values[value] is None:
        return None
    return Pattern(values[mask], values[value])


def _levels(values: Values) -> Mapping[str, LevelWord]:
    return {profile.value: values[profile.value] for profile in Profile}


_recovery = cells.word(Recovery)
_PROFILES: Mapping[str, cells.Cell] = {profile.value: cells.word(LevelWord) for profile in Profile}

XID: Form[XidRow] = Form(
    columns={
        "code": cells.code,
        "mnemonic": cells.free,
        "title": cells.filled,
        "category": cells.word(Category),
        "severity": cells.word(Severity),
        "immediate_action": cells.word(Immediate),
        "investigatory_action": cells.word(Investigation),
        "needs": cells.word(Need),
        "possible_causes": cells.free,
        "applies_to": cells.free,
        "obsolete": cells.flag,
        "notes": cells.free,
        "source": cells.source,
    },
    make=lambda values, _: XidRow(**values),
    key_column="code",
    keys=lambda row: (row.code,),
)
SXID: Form[SxidRow] = Form(
    columns={
        "code": cells.code,
        "title": cells.filled,
        "fatal": cells.flag,
        "action": cells.filled,
        "scope": cells.word(SwitchScope),
        "notes": cells.free,
        "source": cells.source,
    },
    make=lambda values, _: SxidRow(**values),
    key_column="code",
    keys=lambda row: (row.code,),
)
NVLINK: Form[NvlinkRow] = Form(
    columns={
        "xid": cells.code,
        "unit_v1_lt_R575": cells.filled,
        "unit_v2_ge_R575": cells.filled,
        "intrinfo_bits_v1": cells.drawn,
        "intrinfo_bits_v2": cells.drawn,
        "v1_mask": cells.optional_hexadecimal,
        "v1_value": cells.optional_hexadecimal,
        "v2_mask": cells.optional_hexadecimal,
        "v2_value": cells.optional_hexadecimal,
        "error_status": cells.statuses,
        "severity": cells.word(LinkSeverity),
        "recovery": _recovery,
        "action2": cells.optional(_recovery),
        "action2_bits_v1": cells.drawn,
        "action2_bits_v2": cells.drawn,
        "action2_v2_mask": cells.optional_hexadecimal,
        "action2_v2_value": cells.optional_hexadecimal,
        "investigate": cells.word(Investigation),
        "origin": cells.filled,
        "local_effect": cells.free,
        "remote_effect": cells.free,
        "notes": cells.free,
        "source": cells.source,
    },
    make=lambda values, number: NvlinkRow(
        number=number,
        xid=values["xid"],
        unit_v1=values["unit_v1_lt_R575"],
        unit_v2=values["unit_v2_ge_R575"],
        v1=values["intrinfo_bits_v1"],
        v2=values["intrinfo_bits_v2"],
        error_status=values["error_status"],
        severity=values["severity"],
        recovery=values["recovery"],
        promoted_recovery=values["action2"],
        promoted_v1=values["action2_bits_v1"],
        promoted_v2=values["action2_bits_v2"],
        investigate=values["investigate"],
        origin=values["origin"],
        local_effect=values["local_effect"],
        remote_effect=values["remote_effect"],
        notes=values["notes"],
        source=values["source"],
    ),
    key_column="xid",
    keys=lambda row: ((row.xid, row.unit_v2, row.v2, row.error_status),),
    check=_patterns,
)
POLICY: Form[PolicyRow] = Form(
    columns={
        "code": cells.code,
        **_PROFILES,
        "class": cells.word(FaultClass),
        "nvidia_note": cells.free,
        "reason": cells.filled,
        "source": cells.source,
    },
    make=lambda values, _: PolicyRow(
        code=values["code"],
        levels=_levels(values),
        fault_class=values["class"],
        nvidia_note=values["nvidia_note"],
        reason=values["reason"],
        source=values["source"],
    ),
    key_column="code",
    keys=lambda row: (row.code,),
)
OTHER: Form[OtherRow] = Form(
    columns={
        "kind": cells.filled,
        "scope": cells.word(Scope),
        **_PROFILES,
        "class": cells.word(FaultClass),
        "taint_value": cells.free,
        "acts": cells.free,
        "reason": cells.filled,
        "source": cells.source,
    },
    make=lambda values, _: OtherRow(
        kind=values["kind"],
        scope=values["scope"],
        levels=_levels(values),
        fault_class=values["class"],
        taint_value=values["taint_value"],
        acts=values["acts"],
        reason=values["reason"],
        source=values["source"],
    ),
    key_column="kind",
    keys=lambda row: (row.kind,),
)
REGISTER: Form[RegisterRow] = Form(
    columns={
        "register": cells.among({str(int(register)): register for register in Register}),
        "bit": cells.number(cells.BITS - 1),
        "meaning": cells.word(BitMeaning),
        "benign": cells.flag,
        "sentence": cells.filled,
        "source": cells.source,
    },
    make=lambda values, _: RegisterRow(**values),
    key_column="bit",
    keys=lambda row: ((row.register, row.bit),),
)
ACTION: Form[ActionRow] = Form(
    columns={
        "word": cells.action_word,
        "sentence": cells.filled,
        "once_free": cells.filled,
        "acts": cells.flag,
        "source": cells.source,
    },
    make=lambda values, _: ActionRow(**values),
    key_column="word",
    keys=lambda row: (row.word,),
)
RECOVERY: Form[RecoveryRow] = Form(
    columns={
        "value": cells.optional_code,
        "labels": cells.labels,
        "level": cells.among(LEVELS),
        "sentence": cells.filled,
        "source": cells.source,
    },
    make=lambda values, _: RecoveryRow(**values),
    key_column="labels",
    keys=lambda row: tuple(label.casefold() for label in row.labels),
)
PHRASE: Form[PhraseRow] = Form(
    columns={"fault": cells.filled, "phrase": cells.filled, "source": cells.source},
    make=lambda values, _: PhraseRow(**values),
    key_column="fault",
    keys=lambda row: (row.fault,),
)
