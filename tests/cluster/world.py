"""What the conformance tests of the port Cluster arrange around it, on a real API server and on the pretend one alike.

A world is of one test. `pretend_world.py` and `real_world.py` each have `open_world`, an asynchronous context manager.
All but the cluster itself is synchronous: arranging takes no part in what is tested.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gpuward.model.resource import Resource
from gpuward.ports import Cluster

PAGE = 50
"""Objects in a page, where a world's cluster reads page by page."""
SILENCE_SECONDS = 4.0
"""How long a world's watch may be silent until it is seen whether the server still answers."""


class World(Protocol):
    """A cluster, and the few things that tests do around it."""

    @property
    def cluster(self) -> Cluster:
        """The cluster as one sees it who may do everything."""

    @property
    def forbidden(self) -> Cluster:
        """The same cluster as one sees it who is known and may do nothing."""

    def name(self, word: str) -> str:
        """Return a name that no other test uses."""

    def namespace(self, word: str = "work") -> str:
        """Make a namespace and return its name."""

    def define(self, resource: Resource) -> None:
        """See that a kind of ours is served, with a status subresource.

        Its `spec.gpu` is a whole number from 0 to 15, all else in spec and status is free.
        """

    def pod(self, namespace: str, word: str, *, labels: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Make a pod that runs on a node and is ready, its own grace 30 s, and return it. It ends when it is told."""

    def budget(self, namespace: str, word: str, *, labels: Mapping[str, str], allowed: int) -> str:
        """Make a PodDisruptionBudget over pods with these labels that allows so many evictions now; return its name."""

    def forgotten(self, resource: Resource) -> str:
        """Return a version so old that the cluster no longer knows what happened to this kind after it."""

    def frozen(self) -> AbstractContextManager[None]:
        """Let the server take requests and answer none while the body runs; then it goes on where it stood."""

    def away(self) -> AbstractContextManager[None]:
        """Let there be no server while the body runs; then it is there again, with all its objects."""
