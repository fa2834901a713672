"""Whether nodes may be rebooted for a GPU that a reset does not help, and how: read from the settings document."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuward.isolation.rebooting import MOST_A_DAY
from gpuward.settings.columns import ENABLED, SECONDS, Column
from gpuward.settings.reading import Reading

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RebootTerms:
    """Whether nodes may be rebooted, and how. Seconds."""

    enabled: bool = False
    image: str = ""
    most_a_day: int = 1
    deadline_seconds: float = 900.0
    """How long a node may take until it answers on another boot."""
    template_file: str = ""
    """A file with a Job of the user's own; empty: the built-in one."""
    template: Mapping[str, Any] | None = None
    """What that file holds."""


OF_REBOOT = {
    "enabled": ENABLED,
    "image": Column(
        lambda value: isinstance(value, str) and _IMAGE.fullmatch(value) is not None,
        "must be an image such as registry.example.com/gpuward:0.1",
    ),
    "most_a_day": Column(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_A_DAY,
        f"must be a whole number, 1 to {MOST_A_DAY}",
    ),
    "deadline_seconds": SECONDS,
    "template_file": Column(lambda value: isinstance(value, str) and bool(value), "must be the path of a file"),
}


def reboot_of(reading: Reading, table: Mapping[str, Any]) -> RebootTerms:
    """Return what a document says of reboots; what is wrong is noted in `reading`."""
    terms = replace(RebootTerms(), **reading.columns(table, ("reboot",), OF_REBOOT))
    if terms.enabled and not (terms.image or terms.template_file):
        reading.wrong(("reboot", "enabled"), "needs an image, or a template_file: who reboots the node")
    return terms
