"""The commands of an installation in this process, by their own words; cli.main adds how errors are told."""

import argparse

import pytest

from gpuward.cli.install import install
from gpuward.cli.install_args import add_install
from gpuward.cli.preflight import preflight
from gpuward.cli.uninstall import uninstall
from tests.kit.commands import Answer

_COMMANDS = {"install": install, "uninstall": uninstall, "preflight": preflight}


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> Answer:
    """Return what a command answers; its errors are raised."""
    parser = argparse.ArgumentParser(prog="gpuward")
    add_install(parser.add_subparsers(dest="command", required=True))
    asked = parser.parse_args(words)
    capsys.readouterr()
    code = _COMMANDS[asked.command](asked)
    out, err = capsys.readouterr()
    return Answer(code, out, err)
