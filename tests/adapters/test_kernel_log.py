"""What every live kernel log promises, tried on the kernel's ring, a followed file, the journal and a pretend one."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuward.adapters.follow import FollowedFile
from gpuward.adapters.journal import Journal
from gpuward.adapters.kmsg import Kmsg
from gpuward.model.signal import Signal
from gpuward.ports import KernelLog, Origin
from tests.kit.journal import Entry, make_journal, need_journal
from tests.kit.kmsg import kmsg_writer
from tests.kit.pretend import PretendClock, PretendLog, Script


@dataclass(frozen=True, slots=True)
class World:
    """One kind of log: how to write a line to it, and how to open a fresh reader."""

    write: Callable[[str], None]
    fresh: Callable[[], KernelLog]
    token: str
    quiet_seconds: float = 0.15
    """After this long without a line there is none; a child has to start first."""


@contextlib.contextmanager
def _ring(_folder: Path, token: str) -> Iterator[World]:
    with kmsg_writer() as write:
        yield World(lambda text: write(f"gpuward test {token} {text}".encode()), Kmsg, token)


@contextlib.contextmanager
def _file(folder: Path, token: str) -> Iterator[World]:
    file = folder / "kern.log"

    def write(text: str) -> None:
        with file.open("a") as out:
            out.write(f"kernel: gpuward test {token} {text}\n")

    yield World(write, lambda: FollowedFile(str(file)), token)


@contextlib.contextmanager
def _journal(folder: Path, token: str) -> Iterator[World]:
    need_journal()
    file = folder / "a.journal"
    begun = time.monotonic()

    def write(text: str) -> None:
        entry = Entry(f"gpuward test {token} {text}", seconds=time.monotonic() - begun)
        make_journal(file, [entry])

    write("first")
    yield World(write, lambda: Journal(files=[str(file)]), token, quiet_seconds=0.5)


@contextlib.contextmanager
def _pretend(_folder: Path, token: str) -> Iterator[World]:
    script, clock = Script(), PretendClock()
    origin = Origin(source="pretend", boot=None, boot_time=None, node=None)
    yield World(
        lambda text: script.add(f"gpuward test {token} {text}"),
        lambda: PretendLog(script, clock, origin=origin),
        token,
    )


WORLDS = {"ring": _ring, "file": _file, "journal": _journal, "pretend": _pretend}
MARKS = {"ring": [pytest.mark.real, pytest.mark.xdist_group("kmsg")], "journal": [pytest.mark.real]}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, [])) for name in WORLDS])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with WORLDS[request.param](tmp_path, secrets.token_hex(8)) as made:
        yield made


def ours(world: World, log: KernelLog) -> list[Signal]:
    """Read until nothing came for a while, and keep what this test wrote."""
    came: list[Signal] = []
    while more := log.read(world.quiet_seconds):
        came += [one for one in more if isinstance(one, Signal) and world.token in one.text]
    return came


def words(world: World, came: list[Signal]) -> list[str]:
    """Return the word that each line was written with."""
    return [one.text.partition(world.token)[2].split()[0].strip('",') for one in came if "first" not in one.text]


def test_lines_come_in_order_and_once(world: World) -> None:
    with closing(world.fresh()) as log:
        world.write("a ")
        world.write("b ")
        assert words(world, ours(world, log)) == ["a", "b"]
        world.write("c ")
        assert words(world, ours(world, log)) == ["c"]


def test_reading_waits_no_longer_than_told(world: World) -> None:
    with closing(world.fresh()) as log:
        ours(world, log)
        begun = time.monotonic()
        log.read(0.3)
        assert time.monotonic() - begun < 0.6
        assert ours(world, log) == []


def test_a_line_that_comes_while_waiting_ends_the_wait(world: World) -> None:
    with closing(world.fresh()) as log:
        ours(world, log)
        world.write("a ")
        begun = time.monotonic()
        assert words(world, [one for one in log.read(5) if isinstance(one, Signal)]) == ["a"]
        assert time.monotonic() - begun < 2


def test_a_second_reader_goes_on_after_the_place_of_the_first(world: World) -> None:
    for word in ("a ", "b ", "c "):
        world.write(word)
    with closing(world.fresh()) as log:
        came = ours(world, log)
    places = dict(zip(words(world, came), [one.cursor for one in came if "first" not in one.text], strict=True))
    for word, rest in (("a", ["b", "c"]), ("b", ["c"]), ("c", [])):
        with closing(world.fresh()) as log:
            assert log.seek(places[word])
            assert words(world, ours(world, log)) == rest


def test_a_reader_may_seek_back(world: World) -> None:
    world.write("a ")
    world.write("b ")
    with closing(world.fresh()) as log:
        came = ours(world, log)
        assert log.seek(came[-2].cursor)
        assert words(world, ours(world, log)) == ["b"]


@pytest.mark.parametrize("cursor", ["", "k", "k99999999999999", "j", "jrubbish", "f1-2-3", "s=1;i=2"])
def test_a_place_that_is_not_there_is_told_and_reading_starts_at_the_oldest(world: World, cursor: str) -> None:
    world.write("a ")
    with closing(world.fresh()) as log:
        ours(world, log)
        assert not log.seek(cursor)
        assert words(world, ours(world, log)) == ["a"]


def test_every_line_has_a_cursor_of_its_own_and_the_source_of_its_log(world: World) -> None:
    for word in ("a ", "b ", "c "):
        world.write(word)
    with closing(world.fresh()) as log:
        came = ours(world, log)
        assert len({one.cursor for one in came}) == len(came) >= 3
        assert {one.source for one in came} == {log.origin().source}
        assert [one.line for one in came] == sorted(one.line for one in came)


def test_closing_twice_does_no_harm(world: World) -> None:
    log = world.fresh()
    log.read(0)
    log.close()
    log.close()
