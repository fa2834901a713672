"""Whether a file has the shape of a kubeconfig, told in sentences with file, field and remedy, and never a value of it.

The library that reads it takes the shape for granted. What it makes of a kubeconfig of the right shape is its own.
"""

import base64
import binascii
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuward.ports import Refused

MOST_BYTES = 16 * 1024 * 1024
"""No kubeconfig is as large; reading more would only take memory."""
_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""The lists of a kubeconfig, and under which key of an entry what it is about stands."""
_FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}
_BEFORE_FILES = frozenset({"exec", "auth-provider"})
"""What gives a token where a file would, too; a token that is written down goes after the file, as with kubectl."""
_CONTENTS = {"clusters": ("certificate-authority-data",), "users": ("client-certificate-data", "client-key-data")}


@dataclass(frozen=True, slots=True)
class _Entry:
    """What one name of a list stands for, and where it is written."""

    where: str
    folder: Path
    says: Mapping[str, Any]
    is_there: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """Files that are a kubeconfig together, the empty ones left out, and the context that is meant in it."""

    files: tuple[Path, ...]
    context: str
    token_file: Path | None
    """The file that the token of this context is in, None where it comes from elsewhere."""


def check_shape(files: Sequence[Path], context: str | None = None) -> Shape:
    """Return what the files are together; of several the first one that sets a thing wins, as it is with kubectl.

    Raises Refused with a sentence when they are no kubeconfig that can be used.
    """
    known: dict[str, dict[str, _Entry]] = {key: {} for key in _LISTS}
    current, named = context, " and ".join(map(str, files))
    read = {file: whole for file in files if (whole := _read(file)) is not None}
    if not read:
        raise Refused(f"{named} is empty; name a kubeconfig, or write one")
    for file, whole in read.items():
        current = current or whole.get("current-context")
        for key, inner in _LISTS.items():
            for name, entry in _entries(file, whole, key, inner):
                known[key].setdefault(name, entry)
    if not isinstance(current, str) or not current:
        raise Refused(f"{named} names no current-context: choose one with `kubectl config use-context`")
    user = _checked_user(known, current, named)
    return Shape(tuple(read), current, _token_file(user))


def _token_file(user: _Entry | None) -> Path | None:
    named = user.says.get("tokenFile") if user is not None and _BEFORE_FILES.isdisjoint(user.says) else None
    return user.folder / str(named) if user is not None and named else None


def _checked_user(known: Mapping[str, Mapping[str, _Entry]], current: str, named: str) -> _Entry | None:
    """Return who logs in, None where the context names nobody. Raises Refused."""
    chosen = known["contexts"].get(current)
    if chosen is None:
        raise Refused(f"{named}: current-context is {current}, and contexts has none of that name; choose another")
    found: dict[str, _Entry] = {}
    for key in ("clusters", "users"):
        inner = _LISTS[key]
        name = chosen.says.get(inner)
        if key == "users" and name in {None, ""}:
            continue
        entry = known[key].get(name) if isinstance(name, str) else None
        if entry is None:
            said = f"names the {inner} {name}, and {key} has none of that name" if name else f"names no {inner}"
            raise Refused(f"{chosen.where} {said}; name one that is there")
        _check_entry(key, entry)
        found[key] = entry
    server = found["clusters"].says["server"]
    if not chosen.says.get("user") and server.startswith("https://"):
        raise Refused(f"{chosen.where} names no user, and {server} must know who asks; name one that is there")
    return found.get("users")


def _check_entry(key: str, entry: _Entry) -> None:
    says = entry.says
    if not entry.is_there:
        raise Refused(f"{entry.where} is empty: say there how to log in, such as by a token, or {{}} for not at all")
    if key == "clusters":
        _check_cluster(entry)
    for field in _FILES[key]:
        path = says.get(field)
        if path and not (isinstance(path, str) and (entry.folder / path).is_file()):
            raise Refused(f"{entry.where}.{field} names {path}, and there is no such file; mend the path")
    for field in _CONTENTS[key]:
        if says.get(field) and not _is_base64(says[field]):
            raise Refused(f"{entry.where}.{field} is no base64: put the certificate in anew")
    program = says.get("exec")
    if program is not None and not (isinstance(program, Mapping) and isinstance(program.get("command"), str)):
        raise Refused(f"{entry.where}.exec must say a command that gives the token; mend it")


def _check_cluster(entry: _Entry) -> None:
    server, proxy = entry.says.get("server"), entry.says.get("proxy-url")
    remedy = "say where the API server is, such as https://10.0.0.1:6443"
    if not server:
        raise Refused(f"{entry.where}.server is missing: {remedy}")
    if not _is_address(server):
        raise Refused(f"{entry.where}.server is no address of a server that begins with https://: {remedy}")
    if "@" in urlsplit(server).netloc:
        raise Refused(f"{entry.where}.server has a password in it, which would be shown: {remedy}")
    if proxy and not _is_address(proxy):
        raise Refused(f"{entry.where}.proxy-url is no address that begins with http://; no other proxies are known")
    if not isinstance(entry.says.get("tls-server-name") or "", str):
        raise Refused(f"{entry.where}.tls-server-name is no name; write it as text")


def _is_address(text: Any) -> bool:
    """Return whether a request can be sent there. The library takes anything, and what sends it fails late."""
    if not isinstance(text, str) or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port, (parts.hostname or "").encode("idna")  # each raises ValueError for what is none
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname)


def _read(file: Path) -> Mapping[str, Any] | None:
    """Return what a file holds, None for an empty one. A pipe is not waited for, and a folder or a device is none."""
    import yaml  # noqa: PLC0415  only who uses a kubeconfig needs it

    try:
        kind, size = file.stat().st_mode, file.stat().st_size
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "no file that can be read again, such as a pipe or a device"
            raise Refused(f"{file} is {what}: name a kubeconfig, a plain file")
        if size > MOST_BYTES:
            raise Refused(f"{file} is too large for a kubeconfig; name another")
        whole = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise Refused(f"{file} cannot be read ({error.strerror}); see its rights") from error
    except UnicodeError as error:
        raise Refused(f"{file} is no text in UTF-8, so it is no kubeconfig; name another") from error
    except RecursionError as error:
        raise Refused(f"{file} is nested too deep for a kubeconfig; name another") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise Refused(f"{file} is no YAML{where}, so it is no kubeconfig; mend it") from error
    if whole is not None and not isinstance(whole, Mapping):
        raise Refused(f"{file} holds {_kind_of(whole)} and not the fields of a kubeconfig; name another")
    return whole


def _entries(file: Path, whole: Mapping[str, Any], key: str, inner: str) -> Iterator[tuple[str, _Entry]]:
    found = whole.get(key)
    if found is not None and not isinstance(found, list):
        raise Refused(f"{file}: {key} must be a list and is {_kind_of(found)}; mend it")
    for number, one in enumerate(found or [], 1):
        name = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(one, Mapping) or not isinstance(name, str):
            raise Refused(f"{file}: entry {number} of {key} has no name that is text; mend it")
        says = one.get(inner)
        if says is not None and not isinstance(says, Mapping):
            raise Refused(f"{file}: {inner} of {name} in {key} must be fields and is {_kind_of(says)}; mend it")
        where = f"{file}: {name} in {key}, {inner}"
        yield name, _Entry(where, file.absolute().parent, says or {}, is_there=says is not None)


def _kind_of(value: Any) -> str:
    return {list: "a list", dict: "fields", str: "text", bool: "a yes or no", int: "a number", float: "a number"}.get(
        type(value), "something else"
    )


def _is_base64(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False
