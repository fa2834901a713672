"""The block of the network fabric that a node is in: the first label that it wears counts, and rows have sources."""

import pytest

from gpuward.isolation.fabric import FABRIC, FABRIC_KEYS, block_of
from gpuward.settings.pools import MOST_LABELS


@pytest.mark.parametrize(
    ("labels", "keys", "block"),
    [
        ({}, FABRIC_KEYS, ""),
        ({"a": "1", "b": "2"}, ("b", "a"), "2"),
        ({"a": "1"}, ("b", "a"), "1"),
        ({"a": "", "b": "2"}, ("a", "b"), "2"),
        ({"a": "1"}, (), ""),
        ({"topology.k8s.aws/network-node-layer-3": "nn-1"}, FABRIC_KEYS, "nn-1"),
        ({"network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/spine": "s2"}, FABRIC_KEYS, "s1"),
    ],
)
def test_the_first_label_that_says_something_counts(labels: dict[str, str], keys: tuple[str, ...], block: str) -> None:
    assert block_of(labels, keys) == block


def test_each_row_is_of_another_label_and_has_a_source() -> None:
    assert len(set(FABRIC_KEYS)) == len(FABRIC_KEYS) <= MOST_LABELS
    for row in FABRIC:
        assert row.source.startswith("https://"), row.key
        assert row.of, row.key
        assert row.what, row.key
