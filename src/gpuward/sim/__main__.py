"""`python -m gpuward.sim SHOW`: the demonstrations that `make demo`, `make demo-server` and `make demo-watch` give."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

SHOWS: Mapping[str, str] = {
    "fleet": "gpuward.sim.fleet.showing",
    "server": "gpuward.sim.stage",
    "watch": "gpuward.sim.demo",
}
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130
"""128 and the number of SIGINT, which a module would have to be imported for."""


def run(words: Sequence[str]) -> int:
    """Give a show, and return its exit code. It is imported here: Ctrl-C ends that in order too."""
    name, *options = words or ("",)
    if name not in SHOWS:
        sys.stderr.write(f"python -m gpuward.sim: say which show: {', '.join(SHOWS)}\n")
        return _EXIT_USAGE
    try:
        shown = import_module("gpuward.sim.curtain").shown
        code: int = shown(lambda: import_module(SHOWS[name]).run(options))
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
