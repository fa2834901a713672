"""What a name, a label and a taint may look like (RFC 1123, apimachinery's validation). What they mean is not here."""

import re
from functools import lru_cache

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN = 253


@lru_cache(maxsize=65536)
def is_label_key(text: str) -> bool:
    """Return whether this is a qualified name: up to 63 characters, perhaps after a DNS name and a slash."""
    prefix, slash, name = text.rpartition("/")
    return _NAME_PART.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


@lru_cache(maxsize=65536)
def is_label_value(text: str) -> bool:
    """Return whether this may be the value of a label or a taint: empty, or up to 63 characters."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Return whether this may name most objects: a DNS name of up to 253 characters."""
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_dns_label(text: str) -> bool:
    """Return whether this may name a namespace: up to 63 characters and no dot."""
    return _DNS_LABEL.fullmatch(text) is not None
