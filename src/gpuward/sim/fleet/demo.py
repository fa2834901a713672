"""`make demo`: a pretend fleet falls ill before your eyes. What is shown is in showing."""

import sys
from importlib import import_module

from gpuward.sim.curtain import shown


def run() -> int:
    """Run the demonstration, and return its exit code. It is imported here, for that takes a second."""
    code: int = import_module("gpuward.sim.fleet.showing").run()
    return code


if __name__ == "__main__":
    sys.exit(shown(run))
