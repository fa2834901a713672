"""What an API server answers, and which of the three errors that is. Nothing is sent here.

What it really answers was tried against version 1.36, and the tests of this package ask it again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.adapters.kubernetes.place import shown
from gpuward.ports import Conflict, EdgeError, Object, Refused, Unreachable

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
_LONGEST_WORDS = 600
_OTHER_UID = re.compile(r"UID in (the )?precondition", re.ASCII)
_DUPLICATE = "FieldValueDuplicate"
_STATUS = "Status"
NOT_KNOWN = "; whether it was done is not known"
"""What every error says of a write that may have been done."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: for people what is done and to what; for the server method, path with query, and body."""

    verb: str
    what: str
    method: str
    path: str
    body: Any = None
    content: str = JSON

    @property
    def doing(self) -> str:
        """How people are told of it."""
        return f"{self.verb} {self.what}"

    @property
    def is_repeatable(self) -> bool:
        """Whether to send it twice is as good as once, as HTTP has it: where nobody knows whether it was done."""
        return self.method in {"GET", "DELETE"}

    @property
    def changes(self) -> bool:
        """Whether anything is another after it was done."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `retry_after` is how many seconds the server asks to wait, None when it does not say."""

    code: int
    body: bytes
    retry_after: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether it was done."""
        return 200 <= self.code < 300  # noqa: PLR2004  HTTP's own

    def document(self, ask: Ask, *, kind: str = "") -> Object:
        """Return the object of a good answer, one of this kind if one is named.

        Raises Unreachable when it is none: somebody between has answered, who may have passed a write on, or the answer
        was cut. The next one may be whole.
        """
        try:
            found = _read(self.body)
        except ValueError as error:
            raise strange(ask, "is not JSON") from error
        if not isinstance(found, dict):
            raise strange(ask, "is no object")
        if kind and (found.get("kind") != kind or not isinstance(found.get("metadata"), dict)):
            raise strange(ask, f"is no {kind}")
        return found

    def see_done(self, ask: Ask) -> None:
        """See that a good answer says that it was done, as a Status or with the object. Raises Unreachable if not."""
        found = self.document(ask)
        if not _text(found.get("kind")) or (found["kind"] == _STATUS and found.get("status") == "Failure"):
            raise strange(ask, "does not say that it was done")

    def status(self) -> "Status":
        """Return what an answer that is not good says."""
        try:
            found = _read(self.body)
        except ValueError:
            found = None
        if isinstance(found, dict) and found.get("kind") == _STATUS:
            return read_status(found, self.code)
        return Status(code=self.code, message=shown(self.body.decode("utf-8", "replace"), _LONGEST_WORDS))


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a refusal."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Status:
    """A Status object (meta/v1). `names` says whether it tells which object it is about."""

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    names: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether the object is not there; a kind that is not served answers 404 as well, and names nothing."""
        return self.code == 404 and self.names  # noqa: PLR2004  HTTP's own

    @property
    def is_other_uid(self) -> bool:
        """Whether the object there now is another one of the same name."""
        return self.code == 409 and _OTHER_UID.search(self.message) is not None  # noqa: PLR2004  HTTP's own

    @property
    def words(self) -> str:
        """The server's own words."""
        return self.message or self.reason or "nothing more"


def read_status(found: Mapping[str, Any], code: int) -> Status:
    """Read a Status object; whatever is not as it should be is absent. `code` is the answer's, if it has one."""
    details = found.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    own = found.get("code")
    return Status(
        code=code or (own if isinstance(own, int) else 500),
        reason=_text(found.get("reason")),
        message=_text(found.get("message")),
        causes=tuple(
            Cause(_text(one.get("reason")), _text(one.get("message")))
            for one in (causes if isinstance(causes, list) else ())
            if isinstance(one, dict)
        ),
        names=bool(details.get("name")),
    )


@dataclass(frozen=True, slots=True)
class Meaning:
    """Which error an answer is, and what can be done about it."""

    error: type[EdgeError]
    remedy: str


_REFUSED = Meaning(Refused, "see what this version of the server takes")
_GONE = Meaning(Conflict, "read it again")
_OLD = Meaning(Conflict, "list again")
_LATER = Meaning(Unreachable, "try again later")
_MEANINGS = {
    400: _REFUSED,
    401: Meaning(Refused, "see whether the token or certificate is still good"),
    403: Meaning(Refused, "see the RBAC rules of this user, and the admission policies"),
    404: Meaning(Refused, "see whether this kind is installed, and whether the URL is an API server's"),
    408: _LATER,
    409: _GONE,
    410: _OLD,
    413: Meaning(Refused, "it is too large"),
    422: Meaning(Refused, "mend what it names"),
    425: _LATER,
    429: _LATER,
}
"""By the code of HTTP; others of the server's own are `_LATER`, all the rest `_REFUSED`."""


def error_of(ask: Ask, status: Status) -> EdgeError:
    """Return the error that an answer is, with the server's words."""
    meaning = _meaning(ask, status)
    fate = NOT_KNOWN if status.code >= 500 and not ask.is_repeatable else ""  # noqa: PLR2004
    reason = f" {status.reason}" if status.reason else ""
    said = shown(status.words, _LONGEST_WORDS)
    return meaning.error(
        f"cannot {ask.doing}: the API server answers {status.code}{reason}: {said}{fate}; {meaning.remedy}"
    )


def strange(ask: Ask, how: str) -> Unreachable:
    """Return the error that a good answer is which an API server would not give."""
    fate = NOT_KNOWN if ask.changes else ""
    return Unreachable(
        f"cannot {ask.doing}: the answer {how}{fate}; try again later, or see whether the URL is an API server's"
    )


def _meaning(ask: Ask, status: Status) -> Meaning:
    if status.is_missing or _is_stale_patch(ask, status):
        return _GONE
    server = _LATER if status.code >= 500 else _REFUSED  # noqa: PLR2004  HTTP's own
    return _MEANINGS.get(status.code, server)


def _is_stale_patch(ask: Ask, status: Status) -> bool:
    """Say whether a JSON patch rests on what is no longer so.

    A `test` that failed and a path that is not there both answer 422 Invalid without a cause; an entry that somebody
    else has put meanwhile, such as a taint of the same key and effect, is a duplicate. Every other cause is validation.
    """
    return (
        status.code == 422  # noqa: PLR2004  HTTP's own
        and ask.content == JSON_PATCH
        and all(cause.reason == _DUPLICATE for cause in status.causes)
    )


def _read(body: bytes) -> Any:
    """Return what JSON says. Raises ValueError for what is none, and for what is nested deeper than anybody means."""
    try:
        return json.loads(body)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""
