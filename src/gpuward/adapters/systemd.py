"""The system's services through `systemctl`. Which of them may be stopped is not decided here."""

import re
from collections.abc import Mapping

from gpuward.adapters.child import Deadline, Program, Said, within
from gpuward.ports import EdgeError, Refused

_ASK_SECONDS = 10.0
_UNIT = re.compile(r"[A-Za-z0-9:_.@][A-Za-z0-9:_.@\\-]*\.service", re.ASCII)
_LONGEST_WORDS = 300
_STARTED = frozenset({"active", "reloading", "refreshing"})
_STOPPED = frozenset({"inactive", "failed", "unknown"})
_BETWEEN = frozenset({"activating", "deactivating", "maintenance"})
"""The states that `systemctl is-active` prints (systemd's unit_active_state); unknown is a unit that is not there."""


class Systemd:
    """Implements Services with `systemctl`. What it did is looked at afterwards, whatever its exit code."""

    def __init__(self, program: str = "systemctl", environment: Mapping[str, str] | None = None) -> None:
        self._program = Program(program, environment)

    def is_running(self, unit: str) -> bool:
        """Return whether the unit runs; one that is just starting or stopping does."""
        return self._state(unit, within(_ASK_SECONDS)) not in _STOPPED

    def stop(self, unit: str, deadline_seconds: float) -> None:
        """Stop it and see that it no longer runs; one that does not run is success."""
        deadline = within(deadline_seconds)
        said = self._run("stop", unit, deadline=deadline)
        state = self._state(unit, deadline)
        if state not in _STOPPED:
            raise Refused(f"{unit} is {state} after {self._program.name} stop ({_words(said)}); stop it by hand")

    def start(self, unit: str, deadline_seconds: float) -> None:
        """Start it and see that it runs; one that runs is success."""
        deadline = within(deadline_seconds)
        said = self._run("start", unit, deadline=deadline)
        state = self._state(unit, deadline)
        if state not in _STARTED:
            raise Refused(f"{unit} is {state} after {self._program.name} start ({_words(said)}); start it by hand")

    def _state(self, unit: str, deadline: Deadline) -> str:
        said = self._run("is-active", unit, deadline=deadline)
        state = said.out.strip()
        if state not in _STARTED | _STOPPED | _BETWEEN:
            raise self._unanswered(unit, said)
        return state

    def _unanswered(self, unit: str, said: Said) -> EdgeError:
        name = self._program.name
        return Refused(f"{name} does not tell whether {unit} runs ({_words(said)}); see whether systemd runs here")

    def _run(self, verb: str, unit: str, *, deadline: Deadline) -> Said:
        if not _UNIT.fullmatch(unit):
            raise Refused(f"{unit!r} is not the name of a service; name it like nvidia-dcgm.service")
        return self._program.run("--no-ask-password", verb, unit, deadline=deadline)


def _words(said: Said) -> str:
    text = " ".join(f"{said.out} {said.err}".split())
    return text[:_LONGEST_WORDS].rstrip(". ") or "it said nothing"
