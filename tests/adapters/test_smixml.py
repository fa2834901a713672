"""What is read from the XML of nvidia-smi: every driver generation, what is no value, and what is no document."""

import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.adapters.smixml import read_smi_xml
from gpuward.model.gpu import read_pci
from gpuward.model.node import EccCounts, GpuReading, Pcie, Remap
from gpuward.ports import EdgeError, Refused, Unreachable

UUID = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
HEAD = "<driver_version>580.65.06</driver_version><cuda_version>13.0</cuda_version><attached_gpus>1</attached_gpus>"


def document(*gpus: str, head: str = HEAD) -> str:
    doctype = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return f"{doctype}<nvidia_smi_log>{head}{''.join(gpus)}</nvidia_smi_log>"


def block(*elements: str, pci: str = "00000000:3F:00.0") -> str:
    return f'<gpu id="{pci}">{"".join(elements)}</gpu>'


def read_one(*elements: str) -> GpuReading:
    (gpu,) = read_smi_xml(document(block(*elements))).gpus
    return gpu


def ecc(volatile: str, aggregate: str) -> str:
    return f"<ecc_errors><volatile>{volatile}</volatile><aggregate>{aggregate}</aggregate></ecc_errors>"


def test_a_whole_block_is_read() -> None:
    gpu = read_one(
        "<product_name>NVIDIA H100 80GB HBM3</product_name>",
        "<display_active>Disabled</display_active><persistence_mode>Enabled</persistence_mode>",
        "<mig_mode><current_mig>Disabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>",
        f"<uuid>{UUID}</uuid><minor_number>4</minor_number><gpu_recovery_action>Drain and Reset</gpu_recovery_action>",
        "<pci><pci_gpu_link_info>",
        "<pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>4</current_link_gen></pcie_gen>",
        "<link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>",
        "</pci_gpu_link_info></pci>",
        "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending>",
        "<remapped_row_failure>No</remapped_row_failure></remapped_rows>",
    )
    assert gpu == GpuReading(
        index=0,
        pci="0000:3f:00",
        uuid=UUID,
        minor=4,
        model="NVIDIA H100 80GB HBM3",
        persistence=True,
        display_active=False,
        mig=False,
        ecc=EccCounts(volatile=None, aggregate=None),
        remap=Remap(pending=True, failed=False),
        recovery_action="Drain and Reset",
        links=(),
        pcie=Pcie(generation=4, generation_max=5, width=8, width_max=16),
        lost=False,
    )


def double_bit(total: str) -> str:
    parts = "<device_memory>1</device_memory><register_file>0</register_file><l1_cache>0</l1_cache>"
    return (
        "<single_bit><total>9</total></single_bit>"
        f"<double_bit>{parts}<l2_cache>1</l2_cache><total>{total}</total></double_bit>"
    )


@pytest.mark.parametrize(
    ("counters", "want"),
    [
        pytest.param(double_bit("2"), 2, id="double_bit has a total"),
        pytest.param(double_bit("2").replace("<total>2</total>", ""), 2, id="double_bit without its total"),
        pytest.param(
            "<sram_correctable>7</sram_correctable><sram_uncorrectable>1</sram_uncorrectable>"
            "<dram_correctable>7</dram_correctable><dram_uncorrectable>2</dram_uncorrectable>",
            3,
            id="sram and dram",
        ),
        pytest.param(
            "<sram_uncorrectable_parity>1</sram_uncorrectable_parity>"
            "<sram_uncorrectable_secded>2</sram_uncorrectable_secded>"
            "<dram_correctable>7</dram_correctable><dram_uncorrectable>4</dram_uncorrectable>",
            7,
            id="parity and SEC-DED",
        ),
    ],
)
def test_uncorrectable_errors_are_counted_under_each_generation_of_names(counters: str, want: int) -> None:
    gpu = read_one(ecc(counters, counters))
    assert gpu.ecc == EccCounts(volatile=want, aggregate=want)


@pytest.mark.parametrize(
    ("dram", "sram", "want"),
    [
        ("N/A", "N/A", None),
        ("5", "N/A", 5),
        ("0", "Unknown Error", None),
        ("5", "Unknown Error", 5),
        ("GPU is lost", "GPU is lost", None),
        ("0", "0", 0),
    ],
)
def test_a_counter_that_cannot_be_read_is_never_taken_for_zero(dram: str, sram: str, want: int | None) -> None:
    counters = f"<dram_uncorrectable>{dram}</dram_uncorrectable><sram_uncorrectable>{sram}</sram_uncorrectable>"
    assert read_one(ecc(counters, "")).ecc == EccCounts(volatile=want, aggregate=None)


@pytest.mark.parametrize(
    "word",
    [
        "N/A",
        "[N/A]",
        "ERR!",
        "Unknown Error",
        "[Unknown Error]",
        "Insufficient Permissions",
        "Requested functionality has been deprecated",
        "GPU is lost",
        "",
    ],
)
def test_what_is_no_value_is_unknown(word: str) -> None:
    names = ("uuid", "minor_number", "product_name", "persistence_mode", "display_active", "gpu_recovery_action")
    gpu = read_one(*(f"<{name}>{word}</{name}>" for name in names), f"<remapped_rows>{word}</remapped_rows>")
    told = (gpu.uuid, gpu.minor, gpu.model, gpu.persistence, gpu.display_active, gpu.recovery_action)
    assert told == (None,) * 6
    assert gpu.remap == Remap(pending=None, failed=None)


def test_not_active_is_a_no_and_none_is_an_action() -> None:
    gpu = read_one("<display_active>Not Active</display_active>", "<gpu_recovery_action>None</gpu_recovery_action>")
    assert (gpu.display_active, gpu.recovery_action) == (False, "None")


@pytest.mark.parametrize(
    ("required", "recommended", "want"),
    [("Yes", "Yes", "Reset"), ("No", "Yes", "Drain and Reset"), ("No", "No", None), ("N/A", "N/A", None)],
)
def test_drivers_before_the_recovery_action_tell_a_reset_status(required: str, recommended: str, want: str) -> None:
    gpu = read_one(
        f"<gpu_reset_status><reset_required>{required}</reset_required>",
        f"<drain_and_reset_recommended>{recommended}</drain_and_reset_recommended></gpu_reset_status>",
    )
    assert gpu.recovery_action == want


def test_one_lost_value_makes_the_gpu_lost() -> None:
    assert read_one("<temperature><gpu_temp>GPU is lost</gpu_temp></temperature>").lost
    assert read_one("<temperature><gpu_temp>[GPU is lost]</gpu_temp></temperature>").lost
    assert not read_one("<temperature><gpu_temp>41 C</gpu_temp></temperature>").lost


def test_drivers_61x_have_their_versions_in_a_new_place() -> None:
    notice = "Deprecated; will be removed. Use the KMD version instead"
    head = (
        f"<driver_version>{notice}</driver_version><cuda_version>{notice}</cuda_version>"
        "<kmd_version>610.57.04</kmd_version><cuda_umd_version>13.3</cuda_umd_version>"
    )
    reading = read_smi_xml(document(block(), head=head))
    assert (reading.driver_version, reading.cuda_version) == ("610.57.04", "13.3")


def test_the_new_place_of_a_version_is_believed_before_the_old_one() -> None:
    head = "<driver_version>1.2</driver_version><kmd_version>610.57.04</kmd_version>"
    assert read_smi_xml(document(block(), head=head)).driver_version == "610.57.04"


def test_a_notice_after_the_version_is_not_part_of_it() -> None:
    head = "<driver_version>610.57.04 [Deprecated; use KMD version]</driver_version>"
    assert read_smi_xml(document(block(), head=head)).driver_version == "610.57.04"


def test_a_document_without_head_has_its_gpus() -> None:
    reading = read_smi_xml("<nvidia_smi_log>" + block() + "</nvidia_smi_log>")
    assert (reading.road, reading.driver_version, len(reading.gpus)) == ("nvidia-smi", None, 1)


def test_an_index_is_unknown_when_blocks_are_missing() -> None:
    head = "<attached_gpus>4</attached_gpus>"
    assert [gpu.index for gpu in read_smi_xml(document(block(), head=head)).gpus] == [None]


@pytest.mark.parametrize(
    ("printed", "want"),
    [("0000:0A:00.0", "0000:0a:00"), ("00000000:0A:00.0", "0000:0a:00"), ("00008ED0:01:00.0", "8ed0:01:00")],
)
def test_an_address_has_four_or_eight_digits_of_domain(printed: str, want: str) -> None:
    (gpu,) = read_smi_xml(document(block(pci=printed))).gpus
    assert gpu.pci == want


def test_a_block_without_an_address_is_not_a_gpu_that_can_be_named() -> None:
    assert read_smi_xml(document(block(pci="all of them"))).gpus == ()


def test_warnings_around_the_document_are_passed_over() -> None:
    text = f"WARNING: something\n{document(block())}\nWARNING: infoROM is corrupted at gpu 0000:3F:00.0\n"
    assert len(read_smi_xml(text).gpus) == 1


def test_a_cut_document_is_unreachable_at_every_length() -> None:
    text = document(block("<uuid>x</uuid>"))
    for length in range(len(text)):
        with pytest.raises(Unreachable, match="read it again"):
            read_smi_xml(text[:length])


def test_another_document_is_refused() -> None:
    with pytest.raises(Refused, match="<html>"):
        read_smi_xml("<html></html>")


def test_entities_are_refused_and_not_expanded() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + "<nvidia_smi_log>&b;"
    with pytest.raises(Refused, match="entities"):
        read_smi_xml(bomb + "</nvidia_smi_log>")


def test_a_document_nested_without_end_does_not_end_the_program() -> None:
    depth = 200_000
    text = document(block("<a>" * depth + "</a>" * depth))
    with contextlib.suppress(EdgeError):
        assert len(read_smi_xml(text).gpus) == 1


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_reading_or_an_edge_error(before: str, value: str) -> None:
    for text in (before, document(block(f"<uuid>{value}</uuid>"), head=before)):
        try:
            read_smi_xml(text)
        except EdgeError:
            continue


def corpus_files(corpus: Path) -> list[Path]:
    return sorted((corpus / "nvidia-smi").glob("*.xml"))


def test_the_corpus_is_read_as_its_facts_say(corpus: Path) -> None:
    files = corpus_files(corpus)
    assert files, "the corpus has no XML"
    wrong = [(file.name, line) for file in files for line in differences(file)]
    assert wrong == []


def differences(file: Path) -> list[tuple[Any, ...]]:
    facts = json.loads((file.parent / "expected" / f"{file.name}.json").read_text("utf-8"))["facts"]
    reading = read_smi_xml(file.read_text("utf-8"))
    pairs = [
        ("driver", reading.driver_version, facts["driver_version"]),
        ("cuda", reading.cuda_version, facts["cuda_version"]),
        ("blocks", len(reading.gpus), facts["gpu_blocks"]),
    ]
    for gpu, fact in zip(reading.gpus, facts["gpus"], strict=True):
        pairs += [(f"{gpu.pci} {name}", got, want) for name, got, want in gpu_pairs(gpu, fact)]
    return [pair for pair in pairs if pair[1] != pair[2]]


def gpu_pairs(gpu: GpuReading, fact: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    address = read_pci(fact["id"])
    rows = fact["remapped_rows"]
    rows = rows if isinstance(rows, dict) else {}
    return [
        ("pci", gpu.pci, address.pci if address else None),
        ("uuid", gpu.uuid, fact["uuid"]),
        ("model", gpu.model, fact["product_name"]),
        ("minor", gpu.minor, number(fact["minor_number"])),
        ("persistence", gpu.persistence, yes(fact["persistence_mode"])),
        ("mig", gpu.mig, yes(fact["mig_current"])),
        ("recovery", gpu.recovery_action, None if fact["recovery_action"] == "N/A" else fact["recovery_action"]),
        ("volatile", gpu.ecc.volatile, uncorrectable(fact["ecc_volatile"])),
        ("aggregate", gpu.ecc.aggregate, uncorrectable(fact["ecc_aggregate"])),
        ("pending", gpu.remap.pending, yes(rows.get("remapped_row_pending"))),
        ("failed", gpu.remap.failed, yes(rows.get("remapped_row_failure"))),
        ("generation", gpu.pcie.generation, number(fact["pcie_gen_current"])),
        ("generation max", gpu.pcie.generation_max, number(fact["pcie_gen_max"])),
        ("width", gpu.pcie.width, number(fact["pcie_width_current"])),
        ("width max", gpu.pcie.width_max, number(fact["pcie_width_max"])),
        ("lost", gpu.lost, "GPU is lost" in json.dumps(fact)),
    ]


def number(told: Any) -> int | None:
    digits = str(told).removesuffix("x")
    return int(digits) if digits.isdecimal() else None


def yes(told: str | None) -> bool | None:
    return {"Yes": True, "Enabled": True, "No": False, "Disabled": False}.get(told or "")


def uncorrectable(told: dict[str, str] | None) -> int | None:
    counters = {name: value for name, value in (told or {}).items() if "uncorrectable" in name}
    if told and not counters:
        counters = {"total": told["double_bit.total"]}
    counts = [int(value) for value in counters.values() if value.isdecimal()]
    return sum(counts) if counts else None


def test_of_a_server_with_many_gpus_one_block_is_held_at_a_time() -> None:
    values = "".join(f"<value_{number}>N/A</value_{number}>" for number in range(700))
    whole = document(*(block(values, pci=f"00000000:{bus:02X}:00.0") for bus in range(64)))
    read_smi_xml(whole)  # what is loaded for it is not counted
    tracemalloc.start()
    try:
        assert len(read_smi_xml(whole).gpus) == 64
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 2 * len(whole)
