"""What is read of a dcgm-exporter scrape, and how it is fetched from a small server."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.dcgm import FIELDS, DcgmExporter, fetch, read_scrape
from gpuward.adapters.nvml import RECOVERY
from gpuward.isolation.dcgm import FILLERS, LAST_XID, RECOVERY_WORDS, DcgmReading, Unit
from gpuward.ports import Refused, Unreachable

UUID = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
LABELS = f'gpu="3",UUID="{UUID}",pci_bus_id="00000000:3F:00.0",device="nvidia3",modelName="NVIDIA H100"'
SOON = 20.0


def read_value(name: str, value: str) -> int | None:
    (readings,) = read_scrape(f"{name}{{{LABELS}}} {value}\n").values()
    return readings[0].value


def test_a_sample_becomes_a_reading_of_its_gpu() -> None:
    assert read_scrape(f"DCGM_FI_DEV_XID_ERRORS{{{LABELS}}} 79\n") == {
        230: (DcgmReading(field=230, unit=Unit.XID, value=79, gpu=3, uuid=UUID, pci="0000:3f:00", mig_instance=None),)
    }


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.number))
def test_both_generations_of_names_are_the_same_field(field: object) -> None:
    row = next(known for known in FIELDS if known is field)
    for name in row.names:
        assert list(read_scrape(f"{name}{{{LABELS}}} 1\n")) == [row.number]


def test_the_230_of_dcgm_is_an_xid_and_its_recovery_action_is_1523() -> None:
    units = {field.number: field.unit for field in FIELDS}
    assert (units[230], units[1523]) == (Unit.XID, Unit.RECOVERY_ACTION)


def test_every_field_that_stands_in_is_read_in_the_unit_that_it_is_taken_in() -> None:
    units = {field.number: field.unit for field in FIELDS}
    assert {filler.number: filler.unit for filler in FILLERS}.items() <= units.items()
    assert units[LAST_XID] is Unit.XID


def test_both_roads_name_a_recovery_action_alike() -> None:
    assert dict(enumerate(RECOVERY_WORDS)) == RECOVERY


@pytest.mark.parametrize(
    ("printed", "want"),
    [
        ("0", 0),
        ("3.000000", 3),
        ("1e+06", 1000000),
        ("9223372036854775791", 9223372036854775791),
        ("9223372036854775792", None),
        ("9223372036854775793", None),
        ("9223372036854775794", None),
        ("9223372036854775795", None),
        ("9.223372036854776e+18", None),
        ("NaN", None),
        ("+Inf", None),
        ("-1", None),
        ("0.5", None),
        ("many", None),
    ],
)
def test_a_blank_and_what_is_no_count_are_unknown(printed: str, want: int | None) -> None:
    assert read_value("DCGM_FI_DEV_ROW_REMAP_PENDING", printed) == want


def test_labels_may_be_missing_empty_apart_or_hold_anything_in_quotes() -> None:
    text = r"""
# HELP DCGM_FI_DEV_XID_ERRORS x# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS 1
DCGM_FI_DEV_XID_ERRORS{pod="", gpu="1", GPU_I_ID="9"} 2 1700000000000
DCGM_FI_DEV_XID_ERRORS{pod="a\"},gpu=\"5",gpu="2"} 3
DCGM_FI_DEV_GPU_TEMP{gpu="1"} 40
Active 1g.5gb
}
"""
    readings = read_scrape(text)
    assert list(readings) == [230]
    told = [(reading.value, reading.gpu, reading.mig_instance) for reading in readings[230]]
    assert told == [(1, None, None), (2, 1, 9), (3, 2, None)]


@given(st.text(), st.text())
def test_any_text_is_a_scrape(text: str, labels: str) -> None:
    read_scrape(text)
    read_scrape(f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} 1")


def test_xids_of_the_corpus_are_read_as_its_facts_say(corpus: Path) -> None:
    files = [file for file in sorted((corpus / "dcgm").iterdir()) if file.suffix in {".prom", ".txt"}]
    assert files, "the corpus has no scrape"
    for file in files:
        facts = json.loads((file.parent / "expected" / f"{file.name}.json").read_text("utf-8"))["facts"]
        xids = read_scrape(file.read_text("utf-8")).get(230, ())
        told = {f"{reading.uuid}/{reading.mig_instance}": str(reading.value) for reading in xids}
        assert (file.name, told) == (file.name, facts["xid_values"])


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Run a server that answers so, and give its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def saying(body: bytes, status: int = 200) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.end_headers()
        try:
            request.wfile.write(body)
        except ConnectionError:
            return

    return answer


def test_a_scrape_is_fetched() -> None:
    with serving(saying(f"DCGM_FI_DEV_XID_ERRORS{{{LABELS}}} 79\n".encode())) as url:
        assert fetch(url, SOON)[230][0].value == 79


def test_an_exporter_is_read_at_its_address() -> None:
    with serving(saying(f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{LABELS}}} 1\n".encode())) as url:
        assert DcgmExporter(url).read(SOON)[396][0].value == 1


def test_no_proxy_is_asked() -> None:
    code = "import sys; from gpuward.adapters.dcgm import fetch; print(fetch(sys.argv[1], 20))"
    proxied = {**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    with serving(saying(b"")) as url:
        done = subprocess.run(
            [sys.executable, "-c", code, url], env=proxied, capture_output=True, text=True, check=False
        )
    assert (done.stdout, done.stderr) == ("{}\n", "")


def test_an_exporter_that_does_not_answer_is_unreachable() -> None:
    with serving(saying(b"")) as url:
        pass
    with pytest.raises(Unreachable, match="dcgm-exporter runs"):
        fetch(url, SOON)


def test_an_exporter_that_hangs_is_unreachable_at_the_deadline() -> None:
    end = threading.Event()

    def hang(_request: http.server.BaseHTTPRequestHandler) -> None:
        end.wait(SOON)

    with serving(hang) as url:
        started = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            fetch(url, 0.3)
        end.set()
        assert time.monotonic() - started < SOON / 2


def test_an_exporter_that_drips_without_end_is_unreachable_at_the_deadline() -> None:
    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        saying(b"")(request)
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            try:
                request.wfile.write(b"#\n")
            except ConnectionError:
                return
            time.sleep(0.02)

    with serving(drip) as url, pytest.raises(Unreachable, match="did not end"):
        fetch(url, 0.3)


def test_more_than_a_scrape_can_be_is_refused() -> None:
    with serving(saying(b"#" * (17 << 20))) as url, pytest.raises(Refused, match="more than 16 MiB"):
        fetch(url, SOON)


def test_an_error_page_is_refused() -> None:
    with serving(saying(b"", 404)) as url, pytest.raises(Refused, match="answers 404"):
        fetch(url, SOON)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:9400", ""])
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="not the address"):
        fetch(url, SOON)
