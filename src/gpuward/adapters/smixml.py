"""The text of `nvidia-smi -q -x` as a NodeReading, drivers 325 to 610. The program itself is not run here.

What is not a plain value (N/A, [N/A], ERR!, Unknown Error, GPU is lost, Insufficient Permissions, a notice of
deprecation) is unknown, never zero or healthy.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from gpuward.model.gpu import PciAddress, read_pci
from gpuward.model.node import EccCounts, GpuReading, NodeReading, Pcie, Remap
from gpuward.ports import Refused, Unreachable

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ROAD = "nvidia-smi"
LOST = "gpu is lost"
"""What every value of a GPU that no longer answers can read, and the one error line instead of all output."""

_ROOT = "nvidia_smi_log"
_END = f"</{_ROOT}>"
_LONGEST_VALUE = 128
_PIECE = 16 * 1024
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+", re.ASCII)
_UNKNOWN = frozenset(
    {
        "",
        "n/a",
        "err!",
        "unknown",
        "unknown error",
        "not supported",
        "unavailable",
        "insufficient permissions",
        "requested functionality has been deprecated",
        LOST,
    }
)
_ABSENT = frozenset({"", "n/a", "not supported"})
"""This card has no such counter. The other words of _UNKNOWN mean that it could not be read."""
_YES_NO = {
    "yes": True,
    "enabled": True,
    "on": True,
    "active": True,
    "no": False,
    "disabled": False,
    "off": False,
    "not active": False,
}
_ECC_GENERATIONS = (
    ("double_bit/total",),
    ("dram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded"),
    ("dram_uncorrectable", "sram_uncorrectable"),
    ("double_bit/device_memory", "double_bit/register_file", "double_bit/l1_cache", "double_bit/l2_cache"),
)
"""The names of the uncorrectable counters, newest meaning first where two generations share a name. To Volta (and
325 to 4xx drivers) single_bit and double_bit with a total; from Turing dram and sram; from 535 sram is split in parity
and SEC-DED. The last row is for a block without its total."""
_DRIVER = ("kmd_version", "driver_version")
"""61x drivers print a notice of deprecation in the old place."""
_CUDA = ("cuda_umd_version", "cuda_version")
_OLD_RECOVERY = (
    ("gpu_reset_status/reset_required", "Reset"),
    ("gpu_reset_status/drain_and_reset_recommended", "Drain and Reset"),
)
"""What 5xx drivers told before gpu_recovery_action, the stronger word first. Their No says nothing of a reboot."""


def read_smi_xml(text: str) -> NodeReading:
    """Return what the document says.

    `index` is the place in the document, unknown when fewer blocks are there than the head counts. Links are not in
    this document. Raises Unreachable when it is cut or garbled, Refused when it is another document.
    """
    gpus: list[GpuReading] = []
    count = 0
    root = None
    for block, depth in _blocks(_document(text)):
        root = block if depth == 0 else root
        if depth == 1 and block.tag == "gpu":
            if address := _address(block):
                gpus.append(_gpu(block, address.pci, index=count))
            count += 1
            block.clear()  # the document of one server of 8 GPUs would be 3 MB in memory
    if root is None or root.tag != _ROOT:
        found = "nothing" if root is None else f"a document <{root.tag[:40]}>"
        raise Refused(f"nvidia-smi printed {found}, not <{_ROOT}>; see what is installed")
    attached = _number(root, "attached_gpus")
    whole = attached is None or attached <= count
    return NodeReading(
        road=ROAD,
        driver_version=_version(root, _DRIVER),
        cuda_version=_version(root, _CUDA),
        gpus=tuple(gpus if whole else (replace(one, index=None) for one in gpus)),
    )


def _document(text: str) -> str:
    """Return the document without the warnings that are printed before or after it. Raises Refused for entities."""
    if _END in text:
        text = text[max(0, text.find("<")) : text.rfind(_END) + len(_END)]
    if "<!ENTITY" in text:
        raise Refused("the document of nvidia-smi declares entities; see what is installed under that name")
    return text


def _blocks(document: str) -> Iterator[tuple["Element", int]]:
    """Yield each element as it ends, with how deep it stands; the last one is the whole. Raises Unreachable."""
    from xml.etree.ElementTree import ParseError, XMLPullParser  # noqa: PLC0415  an agent that has NVML needs it seldom

    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    depth = 0
    try:
        for begin in range(0, len(document) + _PIECE, _PIECE):
            if begin < len(document):
                parser.feed(document[begin : begin + _PIECE])
            else:
                parser.close()
            for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                depth += 1 if event == "start" else -1
                if event == "end":
                    yield element, depth
    except ParseError as error:
        raise Unreachable(f"the document of nvidia-smi is cut or garbled ({error}); read it again") from error


def _address(block: "Element") -> PciAddress | None:
    printed = block.get("id") or _value(block, "pci/pci_bus_id") or ""
    return read_pci(printed.strip())


def _gpu(block: "Element", pci: str, *, index: int | None) -> GpuReading:
    link = "pci/pci_gpu_link_info"
    return GpuReading(
        index=index,
        pci=pci,
        uuid=_value(block, "uuid"),
        minor=_number(block, "minor_number"),
        model=_value(block, "product_name"),
        persistence=_yes_no(block, "persistence_mode"),
        display_active=_yes_no(block, "display_active"),
        mig=_yes_no(block, "mig_mode/current_mig"),
        ecc=EccCounts(volatile=_ecc(block, "volatile"), aggregate=_ecc(block, "aggregate")),
        remap=Remap(
            pending=_yes_no(block, "remapped_rows/remapped_row_pending"),
            failed=_yes_no(block, "remapped_rows/remapped_row_failure"),
        ),
        recovery_action=_recovery(block),
        links=(),
        pcie=Pcie(
            generation=_number(block, f"{link}/pcie_gen/current_link_gen"),
            generation_max=_number(block, f"{link}/pcie_gen/max_link_gen"),
            width=_number(block, f"{link}/link_widths/current_link_width"),
            width_max=_number(block, f"{link}/link_widths/max_link_width"),
        ),
        lost=any(_plain(text) == LOST for text in block.itertext()),
    )


def _recovery(block: "Element") -> str | None:
    if block.find("gpu_recovery_action") is not None:
        return _value(block, "gpu_recovery_action")
    return next((label for path, label in _OLD_RECOVERY if _yes_no(block, path)), None)


def _ecc(block: "Element", since: str) -> int | None:
    """Add up the uncorrectable counters; counters that cannot be read leave it unknown unless the rest is not zero."""
    for names in _ECC_GENERATIONS:
        texts = [_text(block, f"ecc_errors/{since}/{name}") for name in names]
        if any(text is None for text in texts):
            continue
        counts = [int(text) for text in texts if text is not None and _NUMBER.fullmatch(text)]
        unread = any(text is not None and not _NUMBER.fullmatch(text) and _plain(text) not in _ABSENT for text in texts)
        return sum(counts) if counts and (not unread or sum(counts)) else None
    return None


def _version(root: "Element", names: tuple[str, ...]) -> str | None:
    found = (_VERSION.match(_text(root, name) or "") for name in names)
    return next((match[0] for match in found if match), None)


def _plain(text: str) -> str:
    """Return the word in lower case without the brackets that some versions put around what is not a value."""
    return text.strip().removeprefix("[").removesuffix("]").rstrip(".").lower()


def _text(element: "Element", path: str) -> str | None:
    found = element.find(path)
    return None if found is None else (found.text or "").strip()


def _value(element: "Element", path: str) -> str | None:
    text = _text(element, path)
    return None if text is None or _plain(text) in _UNKNOWN else text[:_LONGEST_VALUE]


def _yes_no(element: "Element", path: str) -> bool | None:
    return _YES_NO.get(_plain(_text(element, path) or ""))


def _number(element: "Element", path: str) -> int | None:
    """Return a count such as `5`, or lanes such as `16x`."""
    text = _text(element, path) or ""
    digits = text.removesuffix("x")
    return int(digits) if _NUMBER.fullmatch(digits) else None
