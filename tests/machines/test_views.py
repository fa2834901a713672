"""What -q, -q -x, the csv and the state say of a machine agree, and their shape is that of the real tool."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.server import Build, Server

MODELS = ("A100", "H100", "H200", "B200", "L40S", "T4")
SLICED = ("A100", "H100", "H200", "B200")
_COLUMN = 55
_NARROW_COLUMN = 42


def leaves(element: ET.Element) -> Iterator[str]:
    """Yield every value below an element, in order."""
    if len(element) == 0:
        yield (element.text or "").strip()
    for child in element:
        yield from leaves(child)


def paths(element: ET.Element, above: str = "") -> Iterator[str]:
    """Yield the path of every element."""
    here = f"{above}/{element.tag}"
    yield here
    for child in element:
        yield from paths(child, here)


def labels(text: str) -> set[tuple[str, ...]]:
    """Return every label of a `-q` text under the labels that it stands below."""
    found = set()
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        label = line[: line.find(": ")] if ": " in line else line
        depth = len(label) - len(label.lstrip())
        above = [each for each in above if each[0] < depth]
        above.append((depth, label.strip()))
        if depth and label.strip():
            found.add(tuple(name for level, name in above if level))
    return found


def listing(server: Server, gpu: int = 0) -> dict[str, str]:
    """Return the values of `-q` of one GPU, by their labels joined; of equal ones the last."""
    found: dict[str, str] = {}
    for line in server.smi("-q", "-i", str(gpu)).text.splitlines():
        label, colon, value = line.partition(" : ") if " : " in line else line.partition(": ")
        if colon:
            found[label.strip()] = value
    return found


def tree(server: Server) -> ET.Element:
    """Return what `-q -x` prints, parsed."""
    return ET.fromstring(server.smi("-q", "-x").text)  # noqa: S314  our own program's text


@pytest.mark.parametrize("model", MODELS)
def test_the_xml_has_one_block_a_gpu_and_says_its_identity(build: Build, model: str) -> None:
    server = build(model)
    machine = server.machine.state()
    found = tree(server).findall("gpu")
    assert [gpu.get("id") for gpu in found] == [gpu.address for gpu in machine.gpus]
    assert [gpu.findtext("uuid") for gpu in found] == [gpu.uuid for gpu in machine.gpus]
    assert {gpu.findtext("product_name") for gpu in found} == {machine.model["product_name"]}


@pytest.mark.parametrize("model", MODELS)
def test_the_xml_holds_what_the_text_says(build: Build, model: str) -> None:
    server = build(model, count=1)
    server.machine.inject(0, 48)
    text = server.smi("-q").text.splitlines()
    said = {line.partition(": ")[2].strip().removeprefix("0x") for line in text if ": " in line}
    told = {value.removeprefix("0x") for value in leaves(tree(server))}
    only_text = {"None"}
    assert said - told - only_text - {line for line in said if line.count(":") == 2 and " " in line} == set()


def test_the_listing_follows_the_state(server: Server) -> None:
    server.machine.inject(0, 48)
    said = listing(server)
    assert (said["GPU Recovery Action"], said["Pending"]) == ("Reset", "Yes")
    found = tree(server).find("gpu")
    assert found is not None
    assert found.findtext("ecc_errors/volatile/dram_uncorrectable") == "1"
    assert found.findtext("remapped_rows/remapped_row_pending") == "Yes"
    assert listing(server, 1)["GPU Recovery Action"] == "None"


def test_the_csv_follows_the_state(server: Server) -> None:
    server.machine.inject(1, 48)
    wanted = "index,pci.bus_id,gpu_recovery_action,ecc.errors.uncorrected.volatile.total,remapped_rows.pending"
    said = server.smi(f"--query-gpu={wanted}", "--format=csv,noheader")
    assert said.text == "0, 00000000:0A:00.0, None, 0, No\n1, 00000000:18:00.0, Reset, 1, Yes\n"


def test_the_csv_names_units_and_can_leave_them_out(server: Server) -> None:
    with_units = server.smi("--query-gpu=memory.total", "--format=csv", "-i", "0").text
    bare = server.smi("--query-gpu", "memory.total", "--format", "csv,noheader,nounits", "-i", "0").text
    assert (with_units, bare) == ("memory.total [MiB]\n81559 MiB\n", "81559\n")


def test_what_a_gpu_has_not_is_bracketed_in_the_csv(build: Build) -> None:
    said = build("T4", count=1).smi("--query-gpu=remapped_rows.pending,mig.mode.current", "--format=csv,noheader")
    assert said.text == "[N/A], [N/A]\n"


@pytest.mark.parametrize("model", SLICED)
def test_mig_shows_its_instances_and_hides_row_remapping(build: Build, model: str) -> None:
    server = build(model, count=1, mig=True)
    found = tree(server).find("gpu")
    assert found is not None
    assert found.findtext("mig_mode/current_mig") == "Enabled"
    assert len(found.findall("mig_devices/mig_device")) == 7
    assert found.findtext("remapped_rows") == "N/A"
    assert server.smi("-q").text.count("\n    MIG Device\n") == 7
    assert server.smi("-L").text.count("(UUID: MIG-") == 7
    assert "MIG mode" in server.smi("nvlink", "-s").text


def test_a_holder_is_among_the_processes(server: Server) -> None:
    with server.machine.hold(0, "trainer") as held:
        processes = tree(server).findall("gpu")[0].findall("processes/process_info")
        assert [each.findtext("pid") for each in processes] == [str(held.pid)]
        assert [each.findtext("process_name") for each in processes] == ["trainer"]
        assert f"Process ID{' ' * 24}: {held.pid}" in server.smi("-q", "-i", "0").text
    assert "Processes" + " " * 42 + ": None" in server.smi("-q", "-i", "0").text


def test_a_link_that_is_down_shows_in_speeds_and_topology(server: Server) -> None:
    server.machine.inject(0, 74)
    assert "\t Link 3: <inactive>\n\t Link 4: 26.562 GB/s\n" in server.smi("nvlink", "-s", "-i", "0").text
    assert "GPU0\t X \tNV17\t" in server.smi("topo", "-m").text


def test_a_gpu_without_any_link_is_reached_over_the_machine(server: Server) -> None:
    server.machine.change_gpu(0, links_down=tuple(range(18)))
    assert "GPU0\t X \tSYS\t" in server.smi("topo", "-m").text
    assert "all links are inActive" in server.smi("nvlink", "-s", "-i", "0").text


def test_a_model_without_nvlink_says_so(build: Build) -> None:
    assert "does not have or support" in build("L40S").smi("nvlink", "-s").text


def test_the_version_names_the_driver(server: Server) -> None:
    assert "DRIVER version      : 590.48.01\n" in server.smi("--version").text


def real_xml_paths(corpus: Path) -> set[str]:
    """Return the paths of all real outputs of this layout, and those of MIG devices, seen in an older one only."""
    known: set[str] = set()
    for file in sorted((corpus / "nvidia-smi").glob("*.xml")):
        text = file.read_text("utf-8")
        found = set(paths(ET.fromstring(text)))  # noqa: S314  a file of the corpus
        known |= found if "nvsmi_device_v13" in text else {path for path in found if "/mig_device" in path}
    return known


@pytest.mark.parametrize("mig", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_every_xml_element_is_one_that_the_real_tool_prints(
    build: Build, corpus: Path, model: str, *, mig: bool
) -> None:
    server = build(model, count=1, mig=mig)
    known = real_xml_paths(corpus)
    assert len(known) > 200
    with server.machine.hold(0):
        assert set(paths(tree(server))) - known == set()


def test_no_xml_element_of_a_real_h100_is_missing(build: Build, corpus: Path) -> None:
    real = ET.fromstring((corpus / "nvidia-smi" / "k8stestinfra-hw__qx-h100.xml").read_text("utf-8"))  # noqa: S314  a file of the corpus
    assert set(paths(real)) - set(paths(tree(build("H100", count=1)))) == set()


@pytest.mark.parametrize(
    ("mig", "file"),
    [
        (False, "nvge__q-h100-80gb-hbm3__590.48.01-idle.txt"),
        (True, "nvge__q-h100-mig__590.48.01-idle.txt"),
    ],
)
def test_the_text_has_the_labels_of_a_real_h100(build: Build, corpus: Path, file: str, *, mig: bool) -> None:
    real = labels((corpus / "nvidia-smi" / file).read_text("utf-8"))
    ours = labels(build("H100", count=1, mig=mig).smi("-q").text)
    assert len(real) > 150
    assert ours ^ real == set()


def test_the_text_with_a_process_has_the_labels_of_a_real_h100(server: Server, corpus: Path) -> None:
    real = labels((corpus / "nvidia-smi" / "nvge__q-h100-80gb-hbm3__590.48.01-load.txt").read_text("utf-8"))
    with server.machine.hold(0):
        assert labels(server.smi("-q", "-i", "0").text) ^ real == set()
