"""The kubelet's answer, read from its bytes: what we want of it, all that we do not, and what is no such message."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.podresources_wire import WireError, read_grants
from tests.kit.kubelet import answer, claim, container, devices, field, number_field, pod

GPU = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
MIG = "MIG-0a0a0a0a-0000-5000-8000-0123456789ab"


def grants(*pods: bytes) -> list[tuple[str, str, str, str, list[str]]]:
    """Return what is read of an answer with these pods."""
    found = read_grants(answer(*pods), "nvidia.com/")
    return [(one["namespace"], one["pod"], one["container"], one["resource"], one["devices"]) for one in found]


def test_every_device_is_read_with_its_pod_container_and_resource() -> None:
    train = container("train", devices("nvidia.com/gpu", GPU, "GPU-2", numa=1), devices("nvidia.com/mig-1g.10gb", MIG))
    serve = container("serve", devices("nvidia.com/gpu.shared", f"{GPU}::3"))
    assert grants(pod("ml", "train-0", container("side"), train), pod("web", "serve-0", serve)) == [
        ("ml", "train-0", "train", "nvidia.com/gpu", [GPU, "GPU-2"]),
        ("ml", "train-0", "train", "nvidia.com/mig-1g.10gb", [MIG]),
        ("web", "serve-0", "serve", "nvidia.com/gpu.shared", [f"{GPU}::3"]),
    ]


def test_other_vendors_and_claims_disturb_nothing() -> None:
    mixed = container("c", devices("rdma/ib", "mlx5_0"), devices("nvidia.com/gpu", GPU), claims=[claim("gpu-0")])
    assert grants(pod("ml", "train-0", mixed), pod("ml", "claimed-0", container("c", claims=[claim("gpu-1")]))) == [
        ("ml", "train-0", "c", "nvidia.com/gpu", [GPU])
    ]


def test_what_later_versions_add_is_passed_over() -> None:
    later = number_field(77, 2**63) + field(78, b"\xff\x00") + b"\xfd\x04" + b"8" * 4 + b"\xf9\x04" + b"8" * 8
    given_later = devices("nvidia.com/gpu", GPU) + later
    assert grants(pod("ml", "train-0", container("c", given_later) + later) + later) == [
        ("ml", "train-0", "c", "nvidia.com/gpu", [GPU])
    ]


def test_a_name_of_another_form_is_none_and_of_two_the_last_counts() -> None:
    odd = (
        number_field(1, 5)
        + pod("ml", "first")
        + field(1, "last")
        + field(3, container("c", devices("nvidia.com/gpu", GPU)))
    )
    assert grants(odd) == [("ml", "last", "c", "nvidia.com/gpu", [GPU])]


def test_an_empty_answer_has_no_pods() -> None:
    assert read_grants(b"", "nvidia.com/") == []


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a",  # a length is missing
        b"\x0a\x05abc",  # it is longer than what is there
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a number without end
        b"\x09\x01",  # a fixed number that is cut
        b"\x0b",  # a group, which no version of this message has
        b"\x02\x00",  # a field without a number
        field(1, pod("ml", "x", container("c", field(1, b"\xff\xfe")))),  # a text that is none
    ],
)
def test_what_is_no_such_message_is_told_apart(message: bytes) -> None:
    with pytest.raises(WireError):
        read_grants(message, "nvidia.com/")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    with contextlib.suppress(WireError):
        json.dumps(read_grants(message, ""))


@given(st.data())
def test_a_cut_or_changed_answer_is_read_or_refused(data: st.DataObject) -> None:
    whole = answer(
        pod("ml", "train-0", container("c", devices("nvidia.com/gpu", GPU, numa=0), claims=[claim("gpu-0")]))
    )
    cut = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    if cut:
        cut[data.draw(st.integers(0, len(cut) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        json.dumps(read_grants(bytes(cut), ""))


_NAMES = st.text(max_size=12)
_GIVEN = st.lists(st.tuples(_NAMES, _NAMES, _NAMES, _NAMES, st.lists(_NAMES, min_size=1, max_size=4)), max_size=6)


@given(_GIVEN)
def test_what_is_written_is_read(told: list[tuple[str, str, str, str, list[str]]]) -> None:
    pods = [pod(space, name, container(one, devices(of, *ids))) for space, name, one, of, ids in told]
    found = read_grants(answer(*pods), "")
    assert [tuple(one.values()) for one in found] == told
