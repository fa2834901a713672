"""Several controllers as real processes, of which one leads: another one starts for each that is taken away."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from gpuward.cli.manifests.installation import CONTROLLER
from tests.install.site import Site
from tests.kit.between import Between
from tests.kit.nursery import Child, Nursery, nursery

LEASE_SECONDS = 1
"""The shortest that there is: so soon another leads."""
_AT_ONCE = 2


@dataclass
class Crew:
    """Those that are there, by the number under which each comes to the server."""

    between: Between
    folder: Path
    token: str
    words: tuple[str, ...]
    _place: Nursery
    living: dict[int, Child] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _numbers: Iterator[int] = field(default_factory=count)

    def take(self, who: int) -> Child:
        """Take one off, for the caller to kill or stop, and let another begin."""
        with self.lock:
            taken = self.living.pop(who)
            assert taken.lives(), f"controller {who} ended by itself"
            self.start()
            return taken

    def start(self) -> None:
        """Let one more begin."""
        with self.lock:
            who = next(self._numbers)
            config = self.folder / f"{who}.kubeconfig"
            config.write_text(self.between.kubeconfig(who, self.token), "utf-8")
            self.living[who] = self._place.bear([*self.words, "--kubeconfig", str(config)])


@contextmanager
def crew(site: Site, between: Between, folder: Path, *, mode: str, settings: str = "") -> Iterator[Crew]:
    """Have some of them at all times while the body runs; what they say is in the file controllers.log."""
    chosen = folder / "controller.toml"
    chosen.write_text(settings, "utf-8")
    words = ("controller", "--mode", mode, "--lease-seconds", str(LEASE_SECONDS), "--config", str(chosen))
    with nursery(folder / "controllers.log") as place:
        made = Crew(between, folder, site.account(CONTROLLER).token, words, place)
        for _ in range(_AT_ONCE):
            made.start()
        yield made
        with made.lock:
            dead = [who for who, child in made.living.items() if not child.lives()]
        assert not dead, f"controllers {dead} ended by themselves"
