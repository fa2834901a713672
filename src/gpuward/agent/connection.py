"""A node's way to its API server: calls, whether any is answered, and how long to wait. What is asked is not here."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gpuward.agent.lone import Contact
from gpuward.agent.post import Complaint, Post
from gpuward.ports import Clock, Cluster, EdgeError, Unreachable

_T = TypeVar("_T")
Sleep = Callable[[float], Awaitable[None]]
"""Lets so many seconds pass on the clock."""


@dataclass(frozen=True, slots=True)
class Paces:
    """How often what is done, in seconds."""

    lease_seconds: int = 60
    """How long the node's Lease counts; it is renewed three times within that."""
    status_seconds: float = 1.0
    leader_seconds: float = 60.0
    worried_seconds: float = 5.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    jitter: float = 0.2


USUAL = Paces()


@dataclass(frozen=True, slots=True)
class Place:
    """Whose agent it is, and the namespace of gpuward's own Leases."""

    node: str
    namespace: str


class Connection:
    """The calls of one agent. `dice` is for jitter alone: a thousand agents must not ask at the same moment."""

    def __init__(
        self, cluster: Cluster, post: Post, clock: Clock, *, sleep: Sleep, dice: random.Random, paces: Paces = USUAL
    ) -> None:
        self.cluster = cluster
        self.post = post
        self.clock = clock
        self.paces = paces
        self.sleep = sleep
        self._dice = dice
        self._complained: set[str] = set()
        self.contact = Contact()
        """As it was last told to the node."""

    async def asked(self, call: Awaitable[_T]) -> _T:
        """Return what a call returns, and note whether the server answers at all: a refusal is an answer too."""
        begun = self.clock.monotonic()
        try:
            answer = await call
        except Unreachable:
            self.note_silence(begun)
            raise
        except EdgeError:
            self.note_answer()
            raise
        self.note_answer()
        return answer

    def note_answer(self) -> None:
        """Note that the server answers."""
        self.note(replace(self.contact, lost_since=None))

    def note_silence(self, since: float) -> None:
        """Note that a call which began at `since` got no answer."""
        if self.contact.lost_since is None:
            self.note(replace(self.contact, lost_since=since))

    def note(self, contact: Contact) -> None:
        """Tell the node what has changed."""
        if contact != self.contact:
            self.contact = contact
            self.post.tell(contact)

    def complain(self, sentence: str) -> None:
        """Tell a person, once: what stays so is not said again."""
        if sentence not in self._complained:
            self._complained.add(sentence)
            self.post.tell(Complaint(sentence))

    def back_off(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row."""
        doubled = self.paces.first_wait_seconds * 2.0 ** min(failures - 1, 10)
        return self.jittered(min(doubled, self.paces.longest_wait_seconds))

    def jittered(self, seconds: float) -> float:
        """Return a little more or less."""
        return seconds * self._dice.uniform(1.0 - self.paces.jitter, 1.0 + self.paces.jitter)

    async def until(self, event: asyncio.Event, seconds: float | None) -> None:
        """Wait for an event, for so long at most where a time is given."""
        waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(event.wait())}
        if seconds is not None:
            waits.add(asyncio.ensure_future(self.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
