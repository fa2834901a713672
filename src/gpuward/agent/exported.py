"""What a dcgm-exporter adds to the readings, from one to the next. What of it may stand in is in isolation.dcgm."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from gpuward.isolation.dcgm import Readings, xids_told
from gpuward.isolation.saved import SavedError
from gpuward.ports import EdgeError

LogShowed = Callable[[], AbstractSet[tuple[str, int]]]
"""Returns every (address, Xid code) that the followed kernel log has shown."""
_MOST_XIDS = 4096
"""More GPUs times codes than a server has: what an exporter says must not fill the memory."""
_UNSEEN = (
    "dcgm-exporter tells that the last Xid of GPU {pci} was {code}, and the followed kernel log has shown none: "
    "is the right log followed? It may also be older than what the log still holds."
)


class Exported:
    """What the exporter told so far. `log_showed` None: its Xids are not held against the log."""

    def __init__(self, log_showed: LogShowed | None = None) -> None:
        self._log_showed = log_showed
        self._silent = False
        self._unseen: frozenset[tuple[str, int]] = frozenset()
        self._settled: set[tuple[str, int]] = set()

    def answer(self, exported: Readings | EdgeError | None, warn: Callable[[str], None]) -> Readings:
        """Return what it told; when it did not answer nothing, which is warned of once until it answers again."""
        if isinstance(exported, EdgeError):
            if not self._silent:
                warn(f"dcgm-exporter is not heard, the readings go on without it: {exported}")
            self._silent = True
            return {}
        self._silent = False
        return exported or {}

    def unseen_xids(self, readings: Readings, places: Mapping[str, str | None]) -> list[tuple[str, str]]:
        """Return address and sentence of each Xid that it tells and the log has not shown, once for each.

        GPUs are given as UUIDs by address. DCGM's last Xid is never taken back and has no time, so it never acts; and
        it is said only when a second scrape still tells it, as the line may be on its way.
        """
        if self._log_showed is None:
            return []
        told = set(xids_told(readings, places)) - self._settled
        if not told or len(self._settled) >= _MOST_XIDS:
            return []
        self._settled |= (shown := told & self._log_showed())
        due = sorted((told - shown) & self._unseen)
        self._unseen = frozenset(told - shown)
        self._settled |= set(due)
        return [(pci, _UNSEEN.format(pci=pci, code=code)) for pci, code in due]

    def pack(self) -> list[list[Any]]:
        """Return the Xids that were seen in the log or said, as JSON values: after a restart neither is new."""
        return [[pci, code] for pci, code in sorted(self._settled)]

    def unpack(self, saved: Iterable[Any]) -> None:
        """Go on from what was packed. Raises SavedError when it is of another shape."""
        try:
            self._settled = {(str(pci), int(code)) for pci, code in saved}
        except (TypeError, ValueError) as error:
            raise SavedError(f"the saved Xids of the exporter cannot be read: {error!r}") from error
