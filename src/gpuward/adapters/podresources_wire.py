"""The few fields of the kubelet's answer to `List` that we read, from their protobuf bytes. Nothing is asked here.

By the numbers of k8s.io/kubelet, pkg/apis/podresources/v1/api.proto. What else stands there, such as CPUs, memory and
claims of dynamic resource allocation, or comes with later versions, is passed over.
"""

from collections.abc import Iterator
from typing import Any

_POD_RESOURCES = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES = 1, 2
_DEVICES_RESOURCE, _DEVICES_IDS = 1, 2

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_LONGEST_VARINT = 10
_SEVEN_BITS, _MORE = 0x7F, 0x80


class WireError(ValueError):
    """These bytes are not a message of this form."""


def read_grants(message: bytes, vendor: str) -> list[dict[str, Any]]:
    """Return what each container has of resources whose name begins with `vendor`, as JSON values.

    Raises WireError.
    """
    grants = []
    for pod in _messages(message, _POD_RESOURCES):
        name, namespace = _text(pod, _POD_NAME), _text(pod, _POD_NAMESPACE)
        for container in _messages(pod, _POD_CONTAINERS):
            for devices in _messages(container, _CONTAINER_DEVICES):
                resource = _text(devices, _DEVICES_RESOURCE)
                ids = [_decoded(one) for one in _messages(devices, _DEVICES_IDS)]
                if resource.startswith(vendor) and ids:
                    grants.append(
                        {
                            "namespace": namespace,
                            "pod": name,
                            "container": _text(container, _CONTAINER_NAME),
                            "resource": resource,
                            "devices": ids,
                        }
                    )
    return grants


def _text(message: bytes, number: int) -> str:
    """Return a field of text, empty when it is not there; of several the last counts, as protobuf has it."""
    found = b""
    for found in _messages(message, number):  # noqa: B007  the last one is wanted
        pass
    return _decoded(found)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise WireError("a text in it is not UTF-8") from error


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the fields of a number that have a length; one of another form under that number is unknown to us."""
    for number, value in _fields(message):
        if number == wanted and value is not None:
            yield value


def _fields(message: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number of each field, with its bytes when it has a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, form = key >> 3, key & 0x07
        value = None
        if form == _VARINT:
            _, at = _varint(message, at)
        elif form == _LENGTH:
            length, at = _varint(message, at)
            value = message[at : at + length]
            at += length
        elif form in _FIXED:
            at += _FIXED[form]
        else:
            raise WireError(f"a field of it has the unknown form {form}")
        if at > len(message) or number == 0:
            raise WireError("it is cut or garbled")
        yield number, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and where the next thing begins."""
    number = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        number |= (byte & _SEVEN_BITS) << (7 * place)
        if not byte & _MORE:
            return number, at + place + 1
    raise WireError("it is cut or garbled")
