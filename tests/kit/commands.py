"""The gpuward command run for tests, in this process or in one of its own. What it should say is with the tests."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuward.cli.main import run

COMMAND = (sys.executable, "-m", "gpuward")
_TESTERS_OWN = frozenset({"PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR", "COLUMNS"})
"""Variables that change how output is written, and that a tester may have set."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        """Return the JSON objects, one from each line of the output."""
        return [json.loads(line) for line in self.out.splitlines()]

    def object(self) -> dict[str, Any]:
        """Return the only JSON object."""
        (only,) = self.objects()
        return only


def ask(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Answer:
    """Return what the command answers, run in this process."""
    capsys.readouterr()
    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return Answer(code, out, err)


def environment() -> dict[str, str]:
    """Return the environment of a process as most people have it, in UTC."""
    return {name: value for name, value in os.environ.items() if name not in _TESTERS_OWN} | {"TZ": "UTC"}


def ask_process(*words: str | Path | bytes, stdin: bytes = b"") -> Answer:
    """Return what the command answers as a process of its own, in UTC."""
    done = subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, env=environment(), timeout=60, check=False
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def written(folder: Path, lines: Sequence[str], name: str = "kern.log") -> Path:
    """Write a log of these lines and return where it is."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
