"""What a try on an idle card showed of a model and driver: whether a reset by our way is proven there.

A try is `gpuward qualify`; what it believes and how it looks stands in BELIEFS. No card is asked here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Belief:
    """One thing that we believe of the driver. `needed`: a reset by our way is not safe, or not proven, without it."""

    id: str
    sentence: str
    source: str
    look: str
    """How it is looked at."""
    needed: bool = False


_MANUAL = "nvidia-smi manual"
BELIEFS: tuple[Belief, ...] = (
    Belief(
        "drain-by-address",
        "drain takes a PCI address; given an index it finds nothing.",
        f"{_MANUAL} and public scripts",
        "`drain -p INDEX -q`, which changes nothing, tells no state",
    ),
    Belief(
        "drain-persistence",
        "A GPU whose persistence mode is on cannot be drained.",
        _MANUAL,
        "`drain -m 1` before persistence mode is turned off",
    ),
    Belief(
        "persistence-takes",
        "When -pm says that it succeeded, the mode is as asked.",
        "gpuward judgement",
        "`-pm 0`, then the mode is read",
        needed=True,
    ),
    Belief(
        "drain-takes",
        "When drain -m 1 says that it succeeded, the tool says draining.",
        "gpuward judgement",
        "`drain -m 1`, then `drain -q`",
        needed=True,
    ),
    Belief(
        "drain-hides",
        "A drained GPU is hidden from every program started later: from nvidia-smi -L, -q and -q -x, and from NVML.",
        "nvidia-smi manual and NVML reference; two public reports of 550 drivers",
        "each of them is asked while it is drained",
    ),
    Belief(
        "drain-files",
        "The device file of a drained GPU and its entry in /proc stay.",
        "gpuward judgement: who holds a drained GPU is found by its device file",
        "both are looked for while it is drained",
        needed=True,
    ),
    Belief(
        "drain-again",
        "Draining a GPU that is drained already is refused: it is in use.",
        "gpuward judgement; no public output seen",
        "a second `drain -m 1`",
    ),
    Belief(
        "reset-not-drained",
        "A drained GPU cannot be reset, for the tool does not find it.",
        "gpuward judgement",
        "`--gpu-reset` while it is drained and nothing holds it",
    ),
    Belief(
        "drain-lifts",
        "After drain -m 0 the GPU is shown again, with the same UUID.",
        _MANUAL,
        "`drain -m 0`, then all GPUs are read",
        needed=True,
    ),
    Belief(
        "reset-idle",
        "An idle GPU without persistence mode, drained no more, can be reset, and the same UUID answers.",
        "nvidia-smi manual; NVSentinel design 020",
        "`--gpu-reset`, then all GPUs are read",
        needed=True,
    ),
    Belief(
        "reset-takes",
        "After a reset volatile counts are zero, no row remap is pending, and no recovery action is asked for.",
        "NVIDIA GPU memory error management and nvidia-smi manual",
        "all GPUs are read after it",
        needed=True,
    ),
    Belief(
        "reset-links",
        "After a reset NVLinks and PCIe lanes are as before it.",
        "gpuward judgement: links train again by themselves",
        "all GPUs are read until it is so, half a minute at most",
        needed=True,
    ),
    Belief(
        "reset-persistence-stays",
        "A reset leaves persistence mode off where it was off.",
        "gpuward judgement",
        "the mode is read after it",
    ),
    Belief(
        "persistence-returns",
        "After a reset persistence mode can be put back to what it was.",
        "NVSentinel pull request 1692",
        "`-pm 1`, then the mode is read",
        needed=True,
    ),
)
"""In the order in which they are looked at."""
BY_ID: Mapping[str, Belief] = {belief.id: belief for belief in BELIEFS}


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a belief: true, false, or not known (None), and why."""

    belief: str
    holds: bool | None
    why: str = ""


def proves(findings: Iterable[Finding]) -> bool:
    """Return whether all that a safe reset needs was found true."""
    true = {one.belief for one in findings if one.holds}
    return all(belief.id in true for belief in BELIEFS if belief.needed)


@dataclass(frozen=True, slots=True)
class Qualification:
    """One try: of which model and driver, on which card, when (Unix seconds), and what was found."""

    model: str
    driver: str
    at: float
    uuid: str | None
    findings: tuple[Finding, ...]

    @property
    def qualified(self) -> bool:
        """Return whether a reset by our way is proven."""
        return proves(self.findings)

    def packed(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "model": self.model,
            "driver": self.driver,
            "at": self.at,
            "uuid": self.uuid,
            "qualified": self.qualified,
            "beliefs": [{"id": one.belief, "holds": one.holds, "why": one.why} for one in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Qualified:
    """The models and drivers, by their names, on which a reset was proven."""

    proven: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def knows(self, model: str | None, driver: str | None) -> bool:
        """Return whether a reset was proven on this model with this driver; what has no name was never tried."""
        return (model, driver) in self.proven


def read_qualified(saved: Mapping[str, Any] | None) -> Qualified:
    """Return what is proven by what was saved. What does not read as a proof proves nothing."""
    return Qualified(frozenset(_name(one) for one in _kept(saved) if one.get("qualified") is True and _holds(one)))


def with_qualification(saved: Mapping[str, Any] | None, new: Qualification) -> dict[str, Any]:
    """Return what is to be saved: the new one instead of an older one of the same model and driver."""
    older = [one for one in _kept(saved) if _name(one) != (new.model, new.driver)]
    return {"qualifications": [*older, new.packed()]}


def _kept(saved: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    kept = (saved or {}).get("qualifications")
    return [one for one in kept if isinstance(one, Mapping)] if isinstance(kept, list) else []


def _name(one: Mapping[str, Any]) -> tuple[str, str]:
    return str(one.get("model")), str(one.get("driver"))


def _holds(one: Mapping[str, Any]) -> bool:
    """Return whether every belief that this version needs was true: an older one may have needed less."""
    beliefs = one.get("beliefs")
    listed = [each for each in beliefs if isinstance(each, Mapping)] if isinstance(beliefs, list) else []
    return proves(Finding(str(each.get("id")), each.get("holds") is True) for each in listed)
