"""Log text made fit to read and to show: colours, control characters, line breaks. What it says is not here."""

import re

from gpuward.isolation.kernel.frame import Frame

_LONGEST_SHOWN = 4096
_LONGEST_BODY = 4096
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab, line and paragraph ends, marks that turn the writing direction, and bytes not UTF-8."""
_KMSG_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_SYSLOG_LINE_END = "#012"
"""How rsyslog writes the line breaks within a message."""
_PREFIX = "NVRM:"


def clean_line(text: str) -> str:
    """Return the line without its end, colours, and the NUL bytes that a crash leaves before it."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return text.strip("\r\n\0")


def shown(text: str) -> str:
    """Return the line as people may see it: cut at 4096 characters, each control character (but tab) a `?`."""
    text = text[:_LONGEST_SHOWN]
    return text if text.isprintable() else _UNSHOWABLE.sub("?", text)


def clean_body(frame: Frame) -> str:
    """Return the body as the driver wrote it: escapes undone, its lines joined, nothing unshowable left."""
    body = frame.body[:_LONGEST_BODY]
    if "\\" in body and frame.name == "kmsg":
        body = _unescaped(body)
    if _SYSLOG_LINE_END in body or "\n" in body:
        body = _joined(body.replace(_SYSLOG_LINE_END, "\n"))
    return body if body.isprintable() else _UNSHOWABLE.sub("?", _COLOUR.sub("", body))


def _unescaped(body: str) -> str:
    r"""Undo `\xHH`, the form /dev/kmsg gives every byte that is not printable ASCII (Documentation/ABI dev-kmsg)."""
    raw = _KMSG_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), body.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "replace")


def _joined(body: str) -> str:
    """Return the lines of one message as one, the driver's own prefix only at its start."""
    first, *later = (line.strip() for line in body.split("\n"))
    return " ".join([first, *(line.removeprefix(_PREFIX).strip() for line in later if line)])
