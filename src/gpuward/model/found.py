"""Parts of an object of the cluster as it is found: what is missing or of another form is taken for absent."""

import re
from collections.abc import Mapping
from typing import Any

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = rf"{LABEL}(\.{LABEL})*"
"""The form of the name of an object (RFC 1123)."""
LONGEST_NAME = 253
_NAME = re.compile(NAME)


def part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the part that is a mapping, an empty one where there is none."""
    under = found.get(name)
    return under if isinstance(under, (dict, Mapping)) else {}


def parts(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a part that is a list."""
    under = found.get(name)
    return [one for one in under if isinstance(one, (dict, Mapping))] if isinstance(under, (list, tuple)) else []


def texts(found: Mapping[str, Any]) -> dict[str, str]:
    """Return keys and values as texts."""
    return {str(key): str(value) for key, value in found.items()}


def is_name(text: str) -> bool:
    """Return whether an object may be called so (RFC 1123)."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None
