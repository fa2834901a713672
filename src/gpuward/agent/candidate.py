"""The GPU that a person named for a try: which one it is, and whether it is idle and fit for it. Nothing is changed."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuward.agent.bench import DRAIN_SECONDS, READ_SECONDS, services_of, work_of
from gpuward.agent.sight import Seen, obstacle_of, remember
from gpuward.model.gpu import Gpu, read_pci
from gpuward.model.node import GpuReading, NodeReading
from gpuward.ports import Driver, Holders, Refused, Unreachable


@dataclass(frozen=True, slots=True)
class Candidate:
    """A GPU on which a try may be made; what must be known of it is."""

    reading: GpuReading
    uuid: str
    minor: int
    model: str
    driver_version: str


@dataclass(frozen=True, slots=True)
class Server:
    """What is known of the server before a try. `listed`: the GPUs by the kernel module, drained ones too."""

    listed: Sequence[Gpu]
    cases: AbstractSet[str] = frozenset()
    """Addresses of GPUs that the agent has an open case on."""
    switches: bool | None = None
    fabric_manager: bool | None = None


def choose(name: str, server: Server, driver: Driver, holders: Holders) -> Candidate:
    """Return the GPU by number, address or UUID, if a try may be made on it.

    The number counts in PCI order with the drained ones, as `gpuward status` does. Raises Refused with what stands in
    the way and what helps, Unreachable when the GPUs cannot be read.
    """
    reading = whole_reading(driver)
    pci = _address(name, server.listed or _listed(reading))
    found = next((gpu for gpu in reading.gpus if gpu.pci == pci), None)
    if driver.is_drained(pci, DRAIN_SECONDS):
        raise Refused(
            f"GPU {pci} is drained already, by an agent or a person; when that is over, "
            f"`nvidia-smi drain -p {pci.upper()}.0 -m 0`, then qualify"
        )
    if found is None:
        raise Refused(f"the driver does not show GPU {pci}; see whether it fell off the bus, and take another")
    for stands, sentence in _REFUSALS:
        if stands(found, server):
            raise Refused(f"GPU {pci} {sentence}; take another")
    obstacle = obstacle_of(_seen(found, server))
    if obstacle:
        raise Refused(f"GPU {pci} cannot be tried: {obstacle}")
    candidate = _known(found, reading.driver_version)
    work = work_on(candidate, holders)
    if work:
        raise Refused(f"GPU {pci} is held by {', '.join(work)}; let that end, or take an idle one")
    return candidate


def whole_reading(driver: Driver) -> NodeReading:
    """Return all GPUs by the driver's own word; the bus alone knows too little. Raises EdgeError."""
    reading = driver.read(READ_SECONDS)
    if reading.road not in _WHOLE_ROADS:
        raise Unreachable("neither NVML nor nvidia-smi answers; see that the driver is loaded and its tools work")
    return reading


_WHOLE_ROADS = frozenset({"nvml", "nvidia-smi"})


def work_on(gpu: Candidate, holders: Holders) -> tuple[str, ...]:
    """Return the work that holds the GPU, in words. Raises Refused when nobody may look."""
    return work_of(holders.of(gpu.minor))


def services_on(gpu: Candidate, holders: Holders) -> tuple[str, ...]:
    """Return the units of known services that hold it, and may be stopped for a while."""
    return services_of(holders.of(gpu.minor))


_REFUSALS: tuple[tuple[Callable[[GpuReading, Server], bool], str], ...] = (
    (
        lambda gpu, server: gpu.pci in server.cases,
        "has an open case of the agent's (`gpuward why` tells of it while the agent runs; release it)",
    ),
    (
        lambda gpu, _: gpu.recovery_action not in {None, "None"},
        "is not healthy: the driver asks for a recovery",
    ),
    (
        lambda gpu, _: gpu.remap.pending is True or gpu.remap.failed is True,
        "is not healthy: a row remap is pending or failed",
    ),
    (
        lambda gpu, _: not gpu.lost and gpu.persistence is None,
        "does not tell its persistence mode, so it could not be put back",
    ),
)


def _known(found: GpuReading, driver_version: str | None) -> Candidate:
    uuid, minor, model = found.uuid, found.minor, found.model
    if uuid is None or minor is None or model is None or driver_version is None:
        raise Refused(f"of GPU {found.pci} not all is told that must be known (UUID, device number, model, driver)")
    return Candidate(reading=found, uuid=uuid, minor=minor, model=model, driver_version=driver_version)


def _seen(found: GpuReading, server: Server) -> Seen:
    return Seen(
        was=remember(found),
        reading=found,
        read=True,
        holders=None,
        drained=False,
        lost=found.lost,
        display=found.display_active is True,
        switches=server.switches,
        fabric_manager=server.fabric_manager,
    )


def _address(name: str, listed: Sequence[Gpu]) -> str:
    """Return the address of the GPU that was named. Raises Refused when none is called so."""
    address = read_pci(name)
    wanted = address.pci if address else name.lower()
    for gpu in listed:
        if wanted in {str(gpu.index), gpu.pci, (gpu.uuid or "").lower()}:
            return gpu.pci
    known = ", ".join(f"{gpu.index} {gpu.pci}" for gpu in listed) or "none"
    raise Refused(f"no GPU is called {name!r}; there are {known}")


def _listed(reading: NodeReading) -> tuple[Gpu, ...]:
    shown = sorted(reading.gpus, key=lambda gpu: gpu.pci)
    return tuple(Gpu(index, gpu.pci, gpu.uuid, gpu.model, gpu.minor) for index, gpu in enumerate(shown))
