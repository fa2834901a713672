"""Where the programs of the control plane are: ready ones, else those of the cache, built when they are missing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.controlplane.build import Say, Unbuilt, build, say_on_stderr
from tests.kit.controlplane.parts import Part

ASSETS = "KUBEBUILDER_ASSETS"


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder of programs; `ready` when someone else put them there, so that their version is not ours to say."""

    folder: Path
    ready: bool

    def path(self, part: Part) -> str:
        """Return the full path of a program."""
        return str(self.folder / part)


def find_binaries(parts: Sequence[Part], *, say: Say = say_on_stderr) -> Binaries:
    """Return where `parts` are, built first if need be; raise Unbuilt with one sentence when they cannot be had."""
    named = os.environ.get(ASSETS)
    if not named:
        return Binaries(build(parts, say=say), ready=False)
    folder = Path(named).absolute()
    lacking = [part for part in parts if not os.access(folder / part, os.X_OK)]
    if lacking:
        raise Unbuilt(f"{ASSETS}={named} has no {', '.join(lacking)}: put it there, or unset {ASSETS} to build all")
    return Binaries(folder, ready=True)


def need_binaries(parts: Sequence[Part], *, say: Say = say_on_stderr) -> Binaries:
    """Return where `parts` are; skip the test where they cannot be had, and fail it in CI."""
    try:
        return find_binaries(parts, say=say)
    except Unbuilt as error:
        why = f"no real control plane: {error}"
    if os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
