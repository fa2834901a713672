"""The gpuward command: picks the subcommand, and turns every error into a sentence and an exit code."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TextIO

from gpuward.cli.args import build_parser
from gpuward.cli.wiring import UsageError
from gpuward.isolation.kernel.text import shown
from gpuward.ports import EdgeError

EXIT_USAGE = 2
EXIT_UNREAD = 3
"""An input could not be read, or what was found could not be written."""
_EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE
_EXIT_INTERRUPTED = 128 + signal.SIGINT


def run(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. A person never sees a traceback."""
    _ready_streams()
    try:
        code = _answered(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): the rest is not wanted.
        return _EXIT_PIPE_CLOSED
    except OSError as error:
        _complain(f"gpuward: cannot write ({error.strerror or error}); make room for the output and temporary files")
        return EXIT_UNREAD
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    finally:
        _let_go()
    return code


def _answered(words: Sequence[str] | None) -> int:
    """Run the command; what is wrong with the usage or the inputs is told here."""
    try:
        asked = build_parser().parse_args(words)
    except (
        SystemExit
    ) as end:  # how the parser ends after help, the version or wrong usage, before the output is written
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    try:
        return _command(asked.command)(asked)
    except UsageError as error:
        _complain(f"gpuward {asked.command}: {error}")
        return EXIT_USAGE
    except EdgeError as error:
        _complain(f"gpuward {asked.command}: {error}")
        return EXIT_UNREAD


def _ready_streams() -> None:
    """Make every stream able to carry any text; one that was closed before the start goes nowhere."""
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123  lives as long as the process


def _complain(sentence: str) -> None:
    """Tell a person; that standard error is gone as well must not hide the exit code."""
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join(map(shown, sentence.split("\n"))) + "\n")
        sys.stderr.flush()


def _let_go() -> None:
    """Write what is still buffered; what cannot be written goes nowhere, so that the interpreter does not complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_COMMANDS = {
    "scan": "gpuward.cli.scan",
    "watch": "gpuward.cli.watch",
    "explain": "gpuward.cli.explain",
    "agent": "gpuward.cli.agent",
    "status": "gpuward.cli.desk",
    "why": "gpuward.cli.desk",
    "release": "gpuward.cli.desk",
    "retry": "gpuward.cli.desk",
    "cases": "gpuward.cli.desk",
    "nodes": "gpuward.cli.desk",
    "report": "gpuward.cli.desk",
    "approve": "gpuward.cli.desk",
    "off": "gpuward.cli.desk",
    "pause": "gpuward.cli.desk",
    "resume": "gpuward.cli.desk",
    "drill": "gpuward.cli.drill",
    "qualify": "gpuward.cli.qualify",
    "controller": "gpuward.cli.controller",
    "install": "gpuward.cli.install",
    "uninstall": "gpuward.cli.uninstall",
    "sim": "gpuward.cli.sim",
    "preflight": "gpuward.cli.preflight",
}


def _command(name: str) -> Callable[..., int]:
    """Return the subcommand; its module is imported when it is run, so that a scan does not pay for the others."""
    command: Callable[..., int] = getattr(import_module(_COMMANDS[name]), name)
    return command
