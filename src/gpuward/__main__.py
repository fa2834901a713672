"""`python -m gpuward`, and `gpuward` as it is installed."""

import sys
from importlib import import_module

_EXIT_INTERRUPTED = 130
"""128 and the number of SIGINT, which a module would have to be imported for."""


def run() -> int:
    """Run the command line, and return its exit code. It is imported here, so that Ctrl-C ends that in order too."""
    try:
        code: int = import_module("gpuward.cli.main").run()
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while a class was made, as Python 3.11 tells it
            return _EXIT_INTERRUPTED
        raise
    return code


if __name__ == "__main__":
    sys.exit(run())
