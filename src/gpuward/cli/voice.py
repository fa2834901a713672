"""What a command that runs for long says to people. That nobody can hear it any more must not end its work."""

import sys
from collections.abc import Callable
from datetime import tzinfo

from gpuward.cli import watch, wiring
from gpuward.cli.happened import line_of
from gpuward.model.happening import Happening


def speaker(zone: tzinfo, *, as_json: bool, kept: str, of_fleet: bool = False) -> Callable[[Happening], None]:
    """Return what prints happenings, for as long as they can be printed. `kept` says where they are to be found too."""
    mute = False

    def say(happening: Happening) -> None:
        nonlocal mute
        line = line_of(happening, as_json=as_json, zone=zone, of_fleet=of_fleet)
        if not line or mute:
            return
        try:
            print(line, flush=True)  # noqa: T201  the command's output
        except OSError as error:
            mute = True
            wiring.silence(sys.stdout)
            warn(f"what happens cannot be printed any more ({error.strerror}); {kept}, and the work goes on")

    return say


def warn(sentence: str) -> None:
    """Tell a person something on standard error, unless that is gone as well."""
    try:
        watch.warn(sentence)
    except OSError:
        wiring.silence(sys.stderr)
