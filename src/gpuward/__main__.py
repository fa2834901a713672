"""`python -m gpuward`, and `gpuward` as it is installed."""

import signal
import sys
from importlib import import_module


def run() -> int:
    """Run the command line, and return its exit code. It is imported here, so that Ctrl-C ends that in order too."""
    try:
        code: int = import_module("gpuward.cli.main").run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


if __name__ == "__main__":
    sys.exit(run())
