"""What is known of every GPU at one moment: by the newest reading, by memory, by /proc. It decides nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from gpuward.agent.bench import Remembered
from gpuward.agent.sight import Seen, drained_gpus, is_lost, needs_fabric, resets_today
from gpuward.agent.telemetry import Telemetry
from gpuward.model.case import ENDED, Case
from gpuward.model.qualified import Qualified
from gpuward.ports import Clock, EdgeError, Fabric, Holders


@dataclass(frozen=True, slots=True)
class Known:
    """What else an agent may know of its server, and what people said of it."""

    qualified: Qualified = field(default_factory=Qualified)
    """Where a reset was proven."""
    reset_unqualified: bool = True
    """GPUs are reset also where it was not."""
    display_told: bool = False
    """GPUs that drive a display may be worked on."""
    fabric: Fabric | None = None
    """None: what joins the GPUs is not looked at."""


class Survey:
    """Puts together what a decision and people see. `warn` gets what cannot be seen."""

    def __init__(
        self, telemetry: Telemetry, holders: Holders, clock: Clock, *, known: Known, warn: Callable[[str], None]
    ) -> None:
        self._telemetry = telemetry
        self._holders = holders
        self._clock = clock
        self._known = known
        self._warn = warn
        self._driver: str | None = None

    def sights(self, cases: Iterable[Case]) -> dict[str, Seen]:
        """Return what is known of every GPU, of one with an open case also what holds it."""
        cases = tuple(cases)
        reading = self._telemetry.reading
        self._driver = (reading.driver_version if reading else None) or self._driver
        drained = drained_gpus(cases)
        sights = {pci: self._seen(was, drained=pci in drained) for pci, was in self._telemetry.memory.items()}
        for case in cases:
            if case.state not in ENDED:
                seen = sights.get(case.gpu) or self._seen(unknown(case), drained=case.gpu in drained)
                sights[case.gpu] = self._in_case(seen, case, cases)
        return sights

    def _seen(self, was: Remembered, *, drained: bool) -> Seen:
        reading = self._telemetry.of(was.pci)
        return Seen(
            was=was,
            reading=reading,
            read=self._telemetry.reading is not None,
            holders=None,
            drained=drained,
            lost=reading is not None and reading.lost,
            display=reading is not None and reading.display_active is True,
            display_told=self._known.display_told,
            driver=self._driver,
            drained_by_others=was.pci in self._telemetry.drained_by_others,
        )

    def _in_case(self, seen: Seen, case: Case, cases: tuple[Case, ...]) -> Seen:
        """Add what only a GPU in a case is looked at for."""
        holders = None
        if seen.was.minor is not None:
            try:
                holders = self._holders.of(seen.was.minor)
            except EdgeError as error:
                self._warn(f"the holders of GPU {case.gpu} cannot be seen: {error}")
        known = self._known
        # To find Fabric Manager all of /proc is gone through, and a round comes often.
        fabric = known.fabric if needs_fabric(seen) else None
        return replace(
            seen,
            holders=holders,
            qualified=case.forced or known.reset_unqualified or known.qualified.knows(seen.model, seen.driver),
            switches=None if fabric is None else fabric.has_switches(),
            fabric_manager=None if fabric is None else fabric.has_manager(),
            lost=is_lost(case.code, case.kind, seen.reading),
            resets_today=resets_today(case.gpu, cases, now=self._clock.now()),
        )


def unknown(case: Case) -> Remembered:
    """Return what is remembered of the GPU of a case when nothing is: its address and what its fault told."""
    return Remembered(pci=case.gpu, uuid=case.gpu_uuid, minor=None, persistence=None, links_active=0, pcie_width=None)
