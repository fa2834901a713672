"""The numbers as Prometheus reads them: every row, bounded series, and nothing that its own tool finds wrong."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuward.adapters.prometheus import Exposition, Samples
from gpuward.adapters.web import Reply, served
from gpuward.model.metric import BY_NAME, METRICS, MOST_NAMES, OTHER, MetricKind
from gpuward.ports import Refused
from tests.kit.promtool import lint

NONE: Samples = dict


def series(exposition: Exposition) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of every series of ours, by the name of its sample."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(exposition.page().body.decode()):
        for sample in family.samples:
            if sample.name.startswith("gpuward_"):
                row = BY_NAME.get(sample.name)
                names = [label.name for label in row.labels] if row else sorted(sample.labels)
                found.setdefault(sample.name, {})[tuple(sample.labels[name] for name in names)] = sample.value
    return found


def full() -> Exposition:
    """Return one that has counted and looked at something of every row."""
    exposition = Exposition()
    looked = {}
    for row in METRICS:
        values = tuple((label.values or ("a-pool",))[0] for label in row.labels)
        if not row.is_counted:
            looked[row.name] = {values: 3.0}
        elif row.kind is MetricKind.COUNTER:
            exposition.add(row.name, *values, by=2.0)
        else:
            exposition.observe(row.name, 0.2)
    exposition.look_at(lambda: looked)
    return exposition


def test_every_row_is_shown_under_its_name() -> None:
    shown = series(full())
    for row in METRICS:
        name = f"{row.name}_count" if row.kind is MetricKind.HISTOGRAM else row.name
        assert list(shown[name].values()) == [{"gauge": 3.0, "counter": 3.0 if row.looked else 2.0}.get(row.kind, 1.0)]
    named = {name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket") for name in shown}
    assert named == set(BY_NAME)


def test_prometheus_finds_nothing_wrong_with_the_page() -> None:
    assert lint(full().page().body) == ""


def test_a_page_with_a_flaw_is_found_out() -> None:
    assert "bad_total" in lint(b"# TYPE bad_total gauge\nbad_total 1\n")


def test_a_value_that_is_not_of_its_set_is_shown_as_other() -> None:
    exposition = Exposition()
    exposition.add("gpuward_api_calls_total", "patch", "node-17 is away")
    exposition.add("gpuward_api_calls_total", "patch", "node-18 is away")
    assert series(exposition)["gpuward_api_calls_total"] == {("patch", OTHER): 2.0}


def test_of_names_that_people_gave_only_so_many_are_shown_and_the_others_as_one() -> None:
    exposition = Exposition()
    pools: dict[tuple[str, ...], float] = {(f"pool-{number:04d}",): 1.0 for number in range(MOST_NAMES + 10)}
    exposition.look_at(lambda: {"gpuward_standby_ready": pools})
    shown = series(exposition)["gpuward_standby_ready"]
    assert len(shown) == MOST_NAMES + 1
    assert shown[(OTHER,)] == 10.0
    assert sum(shown.values()) == len(pools)


@pytest.fixture
def taken() -> Iterator[int]:
    """Give a port that somebody else serves."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


async def test_pages_are_served_with_their_type_and_whether_all_is_well() -> None:
    pages = {"/good": lambda accept: Reply(accept.encode(), "text/x-it"), "/bad": lambda _: Reply(b"no\n", good=False)}
    async with served(pages, 0, host="127.0.0.1") as port, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/good", headers={"Accept": "text/x-it"}) as reply:
            assert (reply.status, reply.headers["Content-Type"], await reply.text()) == (200, "text/x-it", "text/x-it")
        async with session.get(f"http://127.0.0.1:{port}/bad") as reply:
            assert (reply.status, await reply.text()) == (503, "no\n")
        async with session.get(f"http://127.0.0.1:{port}/other") as reply:
            assert reply.status == 404
        async with session.post(f"http://127.0.0.1:{port}/good") as reply:
            assert reply.status == 405
    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_port_that_is_taken_is_said(taken: int) -> None:
    with pytest.raises(Refused, match=f"port {taken} cannot be served: .*; give another --metrics-port"):
        async with served({}, taken, host="127.0.0.1"):
            pass


def test_neither_agent_nor_controller_loads_the_libraries_unasked() -> None:
    program = (
        "import sys, gpuward.cli.controller, gpuward.cli.member; "
        "print([name for name in ('prometheus_client', 'aiohttp.web') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
