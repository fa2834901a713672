"""What the API server answers when it does not do what is asked, in the errors of the port. When is elsewhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuward.model.resource import Resource
from gpuward.ports import Conflict, EdgeError, Refused, Unreachable

INVALID = (422, "Invalid")
BAD = (400, "BadRequest")
NOT_FOUND = (404, "NotFound")
_CAUSES: Mapping[str, str] = {
    "Required value": "FieldValueRequired",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Invalid value": "FieldValueInvalid",
}
"""The cause that a Status names (apimachinery's field errors), by the word in the sentence for people."""


class Spoken(EdgeError):
    """An error of the port that knows how the server says it: its code and reason, and the details of its Status."""

    def __init__(self, sentence: str, code: tuple[int, str], **details: Any) -> None:
        super().__init__(sentence)
        self.code = code
        self.details = details


class SpokenRefused(Spoken, Refused):
    """It is refused."""


class SpokenConflict(Spoken, Conflict):
    """It is a conflict."""


class SpokenUnreachable(Spoken, Unreachable):
    """The server itself is ill."""


def cause(complaint: str) -> dict[str, str]:
    """Return a complaint such as `spec.gpu: Invalid value: 16: must be ...` as a cause of a Status."""
    field, _, said = complaint.partition(": ")
    reason = next((reason for word, reason in _CAUSES.items() if said.startswith(word)), "FieldValueInvalid")
    return {"reason": reason, "message": said, "field": field}


def not_found(resource: Resource, name: str) -> Conflict:
    """404."""
    sentence = f'{_plural(resource)} "{name}" not found: read what is there again'
    return SpokenConflict(sentence, NOT_FOUND, name=name, kind=resource.plural)


def exists(resource: Resource, name: str) -> Conflict:
    """409 of a CREATE."""
    return SpokenConflict(f'{_plural(resource)} "{name}" already exists: read it', (409, "AlreadyExists"), name=name)


def modified(resource: Resource, name: str) -> Conflict:
    """409 of a version or a uid that is no longer so."""
    return Conflict(f'{_plural(resource)} "{name}" has been modified or made anew: read it again')


def does_not_apply(resource: Resource, name: str, why: object) -> Conflict:
    """422 of a JSON patch that supposes what is not so."""
    sentence = f'the patch of {_plural(resource)} "{name}" does not apply, {why}: read the object again'
    return SpokenConflict(sentence, INVALID)


def too_old(resource: Resource, version: str) -> Conflict:
    """410."""
    sentence = f"version {version} of {_plural(resource)} is too old to go on from: list them again"
    return SpokenConflict(sentence, (410, "Expired"))


def invalid(resource: Resource, name: str, *complaints: str) -> Refused:
    """422 of what an object may not be."""
    sentence = f'{resource.kind} "{name}" is invalid: {"; ".join(complaints)}'
    return SpokenRefused(sentence, INVALID, **_about(resource, name, complaints))


def duplicate(resource: Resource, name: str, *complaints: str) -> Conflict:
    """422 of a patch that adds what is there already, put by somebody else meanwhile."""
    sentence = f'{resource.kind} "{name}" is invalid: {"; ".join(complaints)}: read it again'
    return SpokenConflict(sentence, INVALID, **_about(resource, name, complaints))


def bad(resource: Resource, why: object) -> Refused:
    """400."""
    return SpokenRefused(f"the request for {_plural(resource)} is not understood: {why}", BAD)


def not_served(resource: Resource, subresource: str) -> Refused:
    """404 of what is no object."""
    sentence = f"the server has no {subresource} of {_plural(resource)}: see what this version of it serves"
    return SpokenRefused(sentence, NOT_FOUND)


def broken(resource: Resource, why: str) -> Unreachable:
    """500."""
    sentence = f"the server cannot answer about {_plural(resource)}: {why}; try again later"
    return SpokenUnreachable(sentence, (500, "InternalError"))


def forbidden(resource: Resource, name: str, why: str) -> Refused:
    """403."""
    return Refused(f'{_plural(resource)} "{name}" is forbidden: {why}')


def _about(resource: Resource, name: str, complaints: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "group": resource.group, "kind": resource.kind, "causes": [cause(one) for one in complaints]}


def _plural(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
