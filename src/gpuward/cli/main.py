"""The gpuward command: picks the subcommand, and turns every error into a sentence and an exit code."""

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence

from gpuward.cli.args import build_parser
from gpuward.cli.wiring import UsageError
from gpuward.ports import EdgeError

EXIT_USAGE = 2
EXIT_UNREAD = 3
_EXIT_PIPE_CLOSED = 128 + signal.SIGPIPE
_EXIT_INTERRUPTED = 128 + signal.SIGINT


def run(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. A person never sees a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    asked = build_parser().parse_args(words)
    try:
        return _command(asked.command)(asked)
    except UsageError as error:
        sys.stderr.write(f"gpuward {asked.command}: {error}\n")
        return EXIT_USAGE
    except EdgeError as error:
        sys.stderr.write(f"gpuward {asked.command}: {error}\n")
        return EXIT_UNREAD
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): the rest is not wanted, and nothing must complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def _command(name: str) -> Callable[..., int]:
    """Return the subcommand; each is imported when it is run, so that a scan does not pay for the others."""
    if name == "scan":
        from gpuward.cli.scan import scan  # noqa: PLC0415  see above

        return scan
    if name == "watch":
        from gpuward.cli.watch import watch  # noqa: PLC0415  see above

        return watch
    from gpuward.cli.explain import explain  # noqa: PLC0415  see above

    return explain
