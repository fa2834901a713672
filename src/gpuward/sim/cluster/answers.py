"""What the API server answers when it does not do what is asked, in the errors of the port. When is elsewhere."""

from gpuward.model.resource import Resource
from gpuward.ports import Conflict, Refused, Unreachable


def not_found(resource: Resource, name: str) -> Conflict:
    """404."""
    return Conflict(f'{_plural(resource)} "{name}" not found: read what is there again')


def exists(resource: Resource, name: str) -> Conflict:
    """409 of a CREATE."""
    return Conflict(f'{_plural(resource)} "{name}" already exists: read it')


def modified(resource: Resource, name: str) -> Conflict:
    """409 of a version or a uid that is no longer so."""
    return Conflict(f'{_plural(resource)} "{name}" has been modified or made anew: read it again')


def does_not_apply(resource: Resource, name: str, why: object) -> Conflict:
    """422 of a JSON patch that supposes what is not so."""
    return Conflict(f'the patch of {_plural(resource)} "{name}" does not apply, {why}: read the object again')


def too_old(resource: Resource, version: str) -> Conflict:
    """410."""
    return Conflict(f"version {version} of {_plural(resource)} is too old to go on from: list them again")


def invalid(resource: Resource, name: str, why: str) -> Refused:
    """422 of what an object may not be."""
    return Refused(f'{resource.kind} "{name}" is invalid: {why}')


def duplicate(resource: Resource, name: str, why: str) -> Conflict:
    """422 of a patch that adds what is there already, put by somebody else meanwhile."""
    return Conflict(f'{resource.kind} "{name}" is invalid: {why}: read it again')


def bad(resource: Resource, why: object) -> Refused:
    """400."""
    return Refused(f"the request for {_plural(resource)} is not understood: {why}")


def not_served(resource: Resource, subresource: str) -> Refused:
    """404 of what is no object."""
    return Refused(f"the server has no {subresource} of {_plural(resource)}: see what this version of it serves")


def broken(resource: Resource, why: str) -> Unreachable:
    """500."""
    return Unreachable(f"the server cannot answer about {_plural(resource)}: {why}; try again later")


def forbidden(resource: Resource, name: str, why: str) -> Refused:
    """403."""
    return Refused(f'{_plural(resource)} "{name}" is forbidden: {why}')


def _plural(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
