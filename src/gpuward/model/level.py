"""How bad (level) and whose fault (class). Levels compare: `Level.P0 > Level.P1`. How a level is found is not here."""

from enum import IntEnum, StrEnum


class Level(IntEnum):
    """What we do about a fault. A higher member is worse."""

    IGNORE = 0
    """Logged, nothing more."""
    P2 = 1
    """A person or a restart of the application; no action on the node."""
    P1 = 2
    """No new work; when the current work has ended, repair."""
    P0 = 3
    """Out of service at once."""

    def __str__(self) -> str:
        """Return the word as people and files spell it: P0, P1, P2 or ignore."""
        return self.name if self else "ignore"


LEVELS = {str(level): level for level in Level}


class FaultClass(StrEnum):
    """Whose fault it was."""

    HARDWARE = "hardware"
    DRIVER = "driver"
    APPLICATION = "application"
    UNKNOWN = "unknown"
