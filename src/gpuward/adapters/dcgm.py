"""What a dcgm-exporter scrape says of GPU faults, by DCGM's field numbers. Nothing is judged here.

DCGM's field 230 is the last Xid seen; NVML's field 230 is the recovery action, which DCGM numbers 1523.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from gpuward.adapters.child import within
from gpuward.isolation.dcgm import DcgmReading, Readings, Unit
from gpuward.model.gpu import read_pci
from gpuward.ports import Refused, Unreachable

_LONGEST_BYTES = 16 * 1024 * 1024
_READ_BYTES = 64 * 1024
_SMALLEST_BLANK = 0x7FFFFFFFFFFFFFF0
"""DCGM_INT64_BLANK (dcgm_structs.h); after it not found, not supported, not permitted. All are unknown."""


@dataclass(frozen=True, slots=True)
class Field:
    """A DCGM field that is read: its number, which never changed, and its names, which did in DCGM 4.6."""

    number: int
    unit: Unit
    names: tuple[str, ...]


FIELDS = (
    Field(230, Unit.XID, ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")),
    Field(311, Unit.ERRORS, ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",)),
    Field(313, Unit.ERRORS, ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",)),
    Field(393, Unit.ROWS, ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL")),
    Field(395, Unit.YES_NO, ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED")),
    Field(396, Unit.YES_NO, ("DCGM_FI_DEV_ROW_REMAP_PENDING",)),
    Field(
        409, Unit.ERRORS, ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL")
    ),
    Field(
        419, Unit.ERRORS, ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL")
    ),
    Field(429, Unit.ERRORS, ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL")),
    Field(
        439, Unit.ERRORS, ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL")
    ),
    Field(1523, Unit.RECOVERY_ACTION, ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION")),
)
"""dcgm_fields.h of DCGM 3.3, 4.5 and 4.6; the older name first."""
_BY_NAME = {name: field for field in FIELDS for name in field.names}

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""An exporter is near; a proxy for the way out does not know it."""
_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?[0-9]+)?\s*", re.ASCII)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*')
_WHOLE = re.compile(r"[0-9]{1,19}(?:\.0*)?", re.ASCII)


def read_scrape(text: str) -> Readings:
    """Return the readings of FIELDS by field number, in the order of the scrape; other lines are passed over."""
    readings: dict[int, list[DcgmReading]] = {}
    for reading in _readings(text):
        readings.setdefault(reading.field, []).append(reading)
    return {field: tuple(found) for field, found in readings.items()}


def fetch(url: str, deadline_seconds: float) -> Readings:
    """Return the readings that the exporter at `url` gives.

    Raises Unreachable when it does not answer in time, Refused when it does not give a scrape of at most 16 MiB.
    """
    if not url.startswith(("http://", "https://")):
        raise Refused(f"{url!r} is not the address of an exporter; give it as http://host:9400/metrics")
    deadline = within(deadline_seconds)
    heard = bytearray()
    try:
        with _OPENER.open(url, timeout=deadline.rest()) as answer:
            while chunk := answer.read1(_READ_BYTES):
                heard += chunk
                if len(heard) > _LONGEST_BYTES:
                    raise Refused(f"{url} gives more than {_LONGEST_BYTES >> 20} MiB; see whether it is the exporter")
                if not deadline.rest():
                    raise Unreachable(f"{url} did not end within {deadline_seconds:g} s; try again")
    except urllib.error.HTTPError as error:
        error.close()
        raise Refused(f"{url} answers {error.code} {error.reason}; see whether it is the exporter") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unreachable(f"{url} does not answer ({error}); see whether dcgm-exporter runs") from error
    return read_scrape(heard.decode("utf-8", "replace"))


class DcgmExporter:
    """Implements Exporter with the dcgm-exporter at `url`, such as `http://localhost:9400/metrics`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self, deadline_seconds: float) -> Readings:
        """Return what the exporter gives; raises as `fetch` does."""
        return fetch(self._url, deadline_seconds)


def _readings(text: str) -> Iterator[DcgmReading]:
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line.strip())
        field = _BY_NAME.get(sample[1]) if sample else None
        if sample and field:
            labels = dict(_LABEL.findall(sample[2] or ""))
            address = read_pci(labels.get("pci_bus_id", ""))
            yield DcgmReading(
                field=field.number,
                unit=field.unit,
                value=_value(sample[3]),
                gpu=_number(labels.get("gpu", "")),
                uuid=labels.get("UUID") or None,
                pci=address.pci if address else None,
                mig_instance=_number(labels.get("GPU_I_ID", "")),
            )


def _value(text: str) -> int | None:
    """Return the count; blanks are unknown, also where a monitor has printed them as floating point numbers."""
    if _WHOLE.fullmatch(text):
        value = int(text.partition(".")[0])
    else:
        try:
            number = float(text)
        except ValueError:
            return None
        if not number.is_integer() or number < 0:
            return None
        value = int(number)
    return value if value < _SMALLEST_BLANK else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
