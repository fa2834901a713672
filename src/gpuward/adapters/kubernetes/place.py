"""Where things are on an API server: the paths of objects and lists. Names are checked so far as a path needs it."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from gpuward.model.resource import Resource
from gpuward.ports import Refused

_NOT_A_SEGMENT = (".", "..")


def path_of(resource: Resource, namespace: str | None, *more: str) -> str:
    """Return the path of the objects of a kind, or below it. Raises Refused for a name that would lead astray."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = ("namespaces", namespace) if resource.namespaced and namespace else ()
    return "/".join((root, *map(_segment, (*inside, resource.plural, *more))))


def object_path(resource: Resource, name: str, *, namespace: str | None, subresource: str = "") -> str:
    """Return the path of one object. Raises Refused without a name: that path would be all of them."""
    if not name:
        raise Refused(f"a {resource.kind} without a name cannot be asked for; name it")
    return path_of(resource, needed(resource, namespace), name, *filter(None, (subresource,)))


def needed(resource: Resource, namespace: str | None) -> str | None:
    """Return the namespace. Raises Refused where the kind needs one and there is none."""
    if resource.namespaced and not namespace:
        raise Refused(f"a {resource.kind} is in a namespace; name that")
    return namespace


def query(options: Mapping[str, str | int]) -> str:
    """Return the query with the options that are not empty, the question mark included."""
    given = {key: value for key, value in options.items() if value != ""}
    return f"?{urlencode(given, errors='replace')}" if given else ""


def title(resource: Resource, name: str, *, namespace: str | None) -> str:
    """Return how people are told which object is meant, such as `Pod train/worker-0`."""
    where = f"{namespace}/" if resource.namespaced and namespace else ""
    return shown(f"{resource.kind} {where}{name}")


def shown(text: str, longest: int = 300) -> str:
    """Return text of anybody's making as one line that can be shown."""
    line = " ".join(text.split())
    safe = line if line.isprintable() else "".join(char if char.isprintable() else "?" for char in line)
    return safe if len(safe) <= longest else f"{safe[: longest - 1]}…"


def _segment(text: str) -> str:
    if text in _NOT_A_SEGMENT or "/" in text or "%" in text or not text.isprintable():
        raise Refused(f"{shown(text)!r} is no name that an object can have")
    return quote(text, safe=":", errors="replace")
