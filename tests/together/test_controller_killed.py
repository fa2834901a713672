"""Real controllers on the real API server, killed at every write of a whole life: it ends as one without a kill.

Whoever leads is killed when the server has done its write and before it hears so; before most of the writes, drawn by
chance, also before the server has it.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuward.isolation.tainting import escaped
from gpuward.model.objects.owned import NOTICE
from tests.install.site import Site
from tests.kit.between import Between, Write
from tests.kit.ward import until
from tests.together.crew import Crew, crew
from tests.together.life import SETTINGS, SICK, Life, life

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.xdist_group("controllers")]
FEWEST = 50
STUCK_SECONDS = 60.0
"""So long nobody is killed and nothing is over, at most: a busy machine needs some seconds from one to the next."""
ONCE = (
    "v1alpha1/gpucases",
    "gpu.infra.status/hardware-fault on SICK",
    "gpuward.io/reserved-for on SPARE",
    "gpuward.io/standby on SICK",
    "gpuward.io/notice on runs-TOLD",
    "runs-TOLD/eviction",
    "runs-OTHER/eviction",
    "drain",
    "reset",
)
"""What is done once in a life."""
_TIME_TO_SAVE = "save_seconds = 6"
"""Longer than the next one takes to lead, or none would live to tell the job in time."""


@dataclass
class Reaper:
    """Kills who leads at each write, while it is at work."""

    crew: Crew
    kills: list[Write] = field(default_factory=list)
    is_at_work: bool = True
    _is_second: bool = False
    _dice: random.Random = field(default_factory=lambda: random.Random(48))  # noqa: S311  which writes, and no secret

    def before(self, write: Write) -> bool:
        """Say whether a write goes on to the server; what one sent that was killed does not."""
        with self.crew.lock:
            if write.who not in self.crew.living:
                return False
            if not self.is_at_work or self._is_second or self._dice.random() < 1 / 3:
                return True
            self._kill(write)
            self._is_second = True
            return False

    def after(self, write: Write) -> None:
        """Kill who sent what is done."""
        with self.crew.lock:
            self._is_second = False
            if self.is_at_work and write.who in self.crew.living:
                self._kill(write)

    def _kill(self, write: Write) -> None:
        self.kills.append(write)
        self.crew.take(write.who).kill()


@dataclass(frozen=True, slots=True)
class Ended:
    """What a life came to: what is left, what was told, and how often what must be done once was done."""

    left: dict[str, Any]
    events: Counter[str]
    done: dict[str, int]
    kills: int


def lived(site: Site, folder: Path, *, kills: bool) -> Ended:
    """Live a whole life, until nothing is left to do."""
    settings = SETTINGS.replace("save_seconds = 1", _TIME_TO_SAVE)
    with (
        life(site, folder) as one,
        Between(site.plane).standing() as between,
        crew(site, between, folder, mode="repair", settings=settings) as made,
    ):
        reaper = Reaper(made, is_at_work=kills)
        between.before, between.after = reaper.before, reaper.after
        one.sick.machine.inject(SICK, 48)
        seen, since = 0, time.monotonic()
        while not one.is_over():
            if len(reaper.kills) > seen:
                seen, since = len(reaper.kills), time.monotonic()
            assert time.monotonic() - since < STUCK_SECONDS, f"it hangs after {seen} kills: {one.left()}"
            time.sleep(0.1)
        with made.lock:
            reaper.is_at_work = False
        until(lambda: "GPUReturned Node SICK" in one.events(), "the end is told")
        return Ended(one.left(), one.events(), one.anonymous(once(one, between)), len(reaper.kills))


def once(one: Life, between: Between) -> dict[str, int]:
    """Return how often the server did what must be done once: what is created, evicted and marked, and each order."""
    done: Counter[str] = Counter()
    orders: dict[str, set[str]] = {}
    for write in between.done:
        name = write.path.rpartition("/")[2]
        if write.method == "POST":
            done["/".join(write.path.split("/")[-2:])] += 1
            continue
        for operation in json.loads(write.body):
            done.update(f"{mark} on {name}" for mark in marks(operation))
            if operation["path"] == "/spec" and name == one.sick.name:
                for order in operation["value"].get("orders", ()):
                    orders.setdefault(order["what"], set()).add(order["id"])
    return dict(done) | {what: len(ids) for what, ids in orders.items()}


def marks(operation: Mapping[str, Any]) -> Iterator[str]:
    """Return what an operation puts on an object: the keys of taints and tolerations, and the notice."""
    value = operation.get("value")
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and "key" in one:
            yield str(one["key"])
    if operation["path"].endswith(escaped(NOTICE)) or (isinstance(value, dict) and NOTICE in value):
        yield NOTICE


def test_killed_at_every_write_it_ends_as_ever(site: Site, tmp_path: Path) -> None:
    calm = lived(site, tmp_path / "calm", kills=False)
    assert calm.left["case"]["state"] == "closed"
    assert calm.left["gpus"][SICK]["resets"] == 1
    assert {mark: count for mark, count in calm.done.items() if mark in ONCE} == dict.fromkeys(ONCE, 1)
    hard = lived(site, tmp_path / "hard", kills=True)
    assert hard.kills >= FEWEST
    assert hard.done == calm.done
    assert hard.events == calm.events
    assert hard.left == calm.left
