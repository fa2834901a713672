"""`NVRM: Xid (…): …` taken apart. What a code means is not here, nor are the driver's other lines (nvrm)."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpuward.isolation.kernel.details import Detail, detail, hexadecimal, pick, rows_for, yes
from gpuward.isolation.kernel.finding import Finding
from gpuward.model.gpu import Mig, read_pci
from gpuward.model.record import RecordKind

OPENING = "NVRM: Xid"
WORD = "Xid"

_XID = re.compile(
    r"NVRM: Xid[ \t]*\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})(?: GPU-I:(?P<gi>\d{1,4}))?(?: GPU-CI:(?P<ci>\d{1,4}))?\):"
    r"[ \t]*(?P<code>\d{1,6})(?!\w)[ \t]*,?[ \t]*(?P<rest>.*)",
    re.ASCII | re.DOTALL,
)
_PID = re.compile(r"pid=(?:'?(?P<pid>\d{1,10})'?|'?<[^>,]{1,20}>'?) *(?:, *|$)", re.ASCII)
_NAME = "name="
_NOBODY = frozenset({"", "<unknown>", "'<unknown>'", "<n/a>"})
_LONGEST_NAME = 15
"""The kernel keeps 15 characters of a process name (TASK_COMM_LEN is 16, with the end mark)."""
_MESSAGE_OPENING = re.compile(
    r"(?:Ch|Channel|Channel ID|channel|ChID) (?:0x)?[0-9a-fA-F]"
    r"|(?:Graphics|Compute|GPU|GSP|NVLink|Timeout|MMU|Row|Contained|Uncontained|Excessive|High|Class|An) ?\w*[ :]"
    r"|\w+(?:/\w+)? +(?:Fatal|Nonfatal|Non-fatal)\b"
    r"|(?:CMDre|CCMDs|COCOD|Head|PE[0-9a-f]{4}|GDDR|HBM\d?|L\d ->|DBE|ECC)\b"
    r"|[0-9a-f]{4,8}[ (]",
    re.ASCII,
)
"""How the driver's own texts begin, as seen with codes 1 to 175."""

_NVLINK_CODES = frozenset(range(144, 151))
_NVLINK = re.compile(
    r"(?P<unit>\w[\w/ ]{0,60}?) +(?P<severity>Fatal|Non-?fatal)\b(?: +(?P<xc>XC\d+))?(?: +i(?P<i>\d{1,4}))?"
    r"(?: +Link +(?P<link>-?\d{1,4}))?(?: *\((?P<words>[0-9a-fA-Fx ,]*)\))?",
    re.ASCII,
)
_SEVERITIES = {"Fatal": "fatal", "Nonfatal": "non-fatal", "Non-fatal": "non-fatal"}


def _registers(printed: str) -> list[int]:
    return [int(word, 16) for word in re.findall(r"(?:0x)?[0-9a-fA-F]{1,8}", printed)]


def _memory(printed: str) -> str:
    return "sram" if printed == "SRAM" else "framebuffer"


_DETAILS = (
    detail(
        "h", r"\b(?:Ch|ChI[Dd]|[Cc]hannel|Channel ID) (?:0x)?(?P<channel>[0-9a-fA-F]{1,8})\b", {"channel": hexadecimal}
    ),
    detail(
        "(GPC ",
        r"\(GPC (?P<gpc>\d{1,4}), TPC (?P<tpc>\d{1,4})(?:, SM (?P<sm>\d{1,4}))?\)",
        {"gpc": int, "tpc": int, "sm": int},
    ),
    detail("ENGINE ", r"ENGINE (?P<engine>\w+)"),
    detail("faulted @ ", r"faulted @ (?P<address>0x[0-9a-fA-F_]+)"),
    detail("of type ", r"of type (?P<fault_type>\w+)(?: (?P<access>ACCESS_\w+))?"),
    detail("ontained: ", r"ontained: (?P<unit>[^.(]*[^.( ])"),
    detail("RST: ", r"\bRST: (?P<rst>Yes|No), D-RST: (?P<d_rst>Yes|No)", {"rst": yes, "d_rst": yes}),
    detail("", r"\b(?P<memory>framebuffer|SRAM|DRAM)\b", {"memory": _memory}, 48),
    detail("RPC", r"function \d{1,6} \((?P<rpc_function>\w+)\)"),
    detail("Timeout after ", r"Timeout after (?P<timeout_seconds>\d{1,9})s", {"timeout_seconds": int}),
    detail("ow", r"[Rr]ow\b[^(]{0,30}\((?P<row>0x[0-9a-fA-F]+)\)", None, 63, 64),
    detail("on link ", r"on link (?P<link>\d{1,4})", {"link": int}, 74),
    detail("on link ", r"on link \d{1,4} ?\((?P<registers>[0-9a-fA-Fx, ]+)\)", {"registers": _registers}, 74),
    detail("caused by previous Xid ", r"caused by previous Xid (?P<caused_by_xid>\d{1,6})", {"caused_by_xid": int}),
    detail(
        "recovery action changed",
        r"changed from (?P<recovery_from>0x[0-9a-fA-F]+) \((?P<recovery_from_label>[^)]*)\)"
        r" to (?P<recovery_to>0x[0-9a-fA-F]+) \((?P<recovery_to_label>[^)]*)\)",
        None,
        154,
    ),
)


def read_xid(body: str) -> Finding:
    """Return what an Xid line says; one without a number or an address in brackets is malformed."""
    match = _XID.match(body)
    pci = None if match is None else read_pci(match["pci"])
    if match is None or pci is None:
        return Finding(RecordKind.XID_MALFORMED)
    _, gi, ci, printed_code, rest = match.groups()
    code = int(printed_code)
    pid, process, message = _who(rest)
    severity, link, details = _facts(code, message)
    return Finding(
        RecordKind.XID,
        code=code,
        pci=pci,
        pid=pid,
        process=process,
        mig=_mig(gi, ci),
        severity=severity,
        link=link,
        details=details,
    )


@lru_cache(maxsize=512)
def _facts(code: int, message: str) -> tuple[str | None, int | None, Mapping[str, Any]]:
    """Return severity, link and details of a message; kept, because a storm says the same again and again."""
    details: dict[str, Any] = {"message": message}
    pick(_rows(code), message, details)
    severity = _nvlink(message, details) if code in _NVLINK_CODES else None
    return severity, details.pop("link", None), details


def _mig(gi: str | None, ci: str | None) -> Mig | None:
    if gi is None and ci is None:
        return None
    return Mig(None if gi is None else int(gi), None if ci is None else int(ci))


def is_cut(body: str) -> bool:
    """Return True for an Xid line whose rest stands on the next line: it ends with a comma or in an open bracket."""
    return body.endswith((",", ", ")) or body.rfind("(") > body.rfind(")")


@lru_cache(maxsize=1024)
def _rows(code: int) -> tuple[Detail, ...]:
    return rows_for(_DETAILS, code)


def _who(rest: str) -> tuple[int | None, str | None, str]:
    """Return pid, process name and message of what follows the code; any of the first two may be left out."""
    pid = None
    match = _PID.match(rest)
    if match is not None:
        pid = None if match["pid"] is None else int(match["pid"])
        rest = rest[match.end() :]
    if not rest.startswith(_NAME):
        return pid, None, rest.strip()
    name, message = _split_name(rest[len(_NAME) :])
    return pid, None if name in _NOBODY else name, message.strip()


def _split_name(text: str) -> tuple[str, str]:
    """Return the process name and the message behind it.

    A name may hold commas and spaces. It ends at a comma that a blank or the end follows. Of the ends within 15
    characters the last one counts behind which a known message begins; without such a message a text that as a whole
    fits into 15 characters is all name; else the first comma ends the name.
    """
    ends = _ends(text)
    if len(ends) == 1 and len(text) > _LONGEST_NAME:  # what nearly every line is
        return text[: ends[0]], text[ends[0] + 1 :]
    for end in reversed(ends):
        if _MESSAGE_OPENING.match(text[end + 1 :].lstrip()):
            return text[:end], text[end + 1 :]
    if len(text.rstrip(" ,")) <= _LONGEST_NAME:
        return text.rstrip(" ,"), ""
    return text[: ends[0]], text[ends[0] + 1 :]


def _ends(text: str) -> list[int]:
    """Return where the name may end: the first comma, however far, and each later one within 15 characters."""
    ends: list[int] = []
    at = text.find(",")
    while at != -1 and (at <= _LONGEST_NAME or not ends):
        if text[at + 1 : at + 2] in {"", " "}:
            ends.append(at)
        at = text.find(",", at + 1)
    return ends or [len(text.rstrip())]


def _nvlink(message: str, details: dict[str, Any]) -> str | None:
    """Add the parts of an NVLink 5 text (codes 144 to 150) to `details`; return the severity in our spelling."""
    match = _NVLINK.match(message)
    if match is None:
        return None
    link = None if match["link"] is None else int(match["link"])
    details["nvlink"] = {
        "unit": match["unit"],
        "severity": match["severity"],
        "xc": match["xc"],
        "i": None if match["i"] is None else int(match["i"]),
        "link": link,
        "words": _words(match["words"]),
    }
    details["link"] = link
    return _SEVERITIES[match["severity"]]


def _words(printed: str | None) -> list[str] | None:
    """Return the words with 0x in front, as newer drivers print them; None when they are cut or missing."""
    words = [] if printed is None else printed.replace(",", " ").split()
    return [word if word.startswith("0x") else f"0x{word}" for word in words] or None
