"""Smi on programs that behave as nvidia-smi: small shell scripts with a state in files."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.smi import EXIT_CODES, Smi
from gpuward.ports import Conflict, Driver, Refused, Unreachable

PCI = "0000:3f:00"
UUID = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
SOON = 20.0

XML = (
    "<nvidia_smi_log><driver_version>580.65.06</driver_version><attached_gpus>1</attached_gpus>"
    '<gpu id="00000000:3F:00.0"><uuid>$(cat uuid)</uuid><persistence_mode>$(cat pm)</persistence_mode>'
    "<temperature><gpu_temp>$(cat temp)</gpu_temp></temperature></gpu></nvidia_smi_log>"
)
WELL = f"""#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$*" in
    "drain -p 0000:3F:00.0 -q") echo "The current drain state of GPU 00000000:3F:00.0 is: $(cat drained)." ;;
    "drain -p 0000:3F:00.0 -m 1")
        [ "$(cat pm)" = Enabled ] && echo "Failed to drain GPU: In use by another client" && exit 255
        echo draining > drained; echo "Successfully set GPU 00000000:3F:00.0 drain state to: draining." ;;
    "drain -p 0000:3F:00.0 -m 0") echo "not draining" > drained ;;
    "-i 0000:3F:00.0 -pm 1") echo Enabled > pm ;;
    "-i 0000:3F:00.0 -pm 0") echo Disabled > pm ;;
    "-q -i 0000:3F:00.0") echo "==============NVSMI LOG==============" ;;
    "-q -x"|"-q -x -i 0000:3F:00.0")
        [ "$(cat drained)" = draining ] && echo "No devices were found" && exit 6
        cat << END
{XML}
END
        ;;
    "--gpu-reset -i 0000:3F:00.0") cp after uuid; echo "GPU 00000000:3F:00.0 was successfully reset." ;;
    *) echo "no such request: $*"; exit 2 ;;
esac
"""


class Tool:
    """A script in the place of nvidia-smi, with the files that it keeps its state in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.does(WELL)
        self.set(uuid=UUID, after=UUID, pm="Disabled", drained="not draining", temp="40 C")

    def does(self, text: str) -> None:
        """Put another script in its place."""
        file = self.folder / "nvidia-smi"
        file.write_text(text)
        file.chmod(0o755)

    def says(self, words: str, code: int = 0) -> None:
        """Let it say the same to everything."""
        (self.folder / "words").write_text(words)
        self.does(f'#!/bin/sh\ncd "$(dirname "$0")"\ncat words\nexit {code}\n')

    def set(self, **values: str) -> None:
        """Set files of its state."""
        for name, value in values.items():
            (self.folder / name).write_text(value + "\n")

    def calls(self) -> list[str]:
        """Return the arguments of all calls."""
        return (self.folder / "calls").read_text().splitlines()

    def driver(self) -> Smi:
        """Return the adapter on this script."""
        return Smi(str(self.folder / "nvidia-smi"))


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def test_the_gpus_are_read(tool: Tool) -> None:
    reading = tool.driver().read(SOON)
    assert [(gpu.pci, gpu.uuid, gpu.persistence) for gpu in reading.gpus] == [(PCI, UUID, False)]
    assert (reading.road, reading.driver_version) == ("nvidia-smi", "580.65.06")


def test_a_drained_gpu_is_not_read_and_no_gpu_at_all_is_a_reading(tool: Tool) -> None:
    driver = tool.driver()
    driver.set_drained(PCI, on=True, deadline_seconds=SOON)
    assert driver.read(SOON).gpus == ()


def test_describe_gives_what_the_tool_prints(tool: Tool) -> None:
    assert tool.driver().describe(PCI, SOON) == "==============NVSMI LOG==============\n"


def test_a_drain_is_asked_for_and_looked_at(tool: Tool) -> None:
    driver: Driver = tool.driver()
    driver.set_drained(PCI, on=True, deadline_seconds=SOON)
    assert driver.is_drained(PCI, SOON)
    driver.set_drained(PCI, on=False, deadline_seconds=SOON)
    assert not driver.is_drained(PCI, SOON)


@pytest.mark.parametrize(("state", "on"), [("draining", True), ("not draining", False)])
def test_what_is_so_already_is_success(tool: Tool, state: str, on: bool) -> None:  # noqa: FBT001 - a parameter
    tool.set(drained=state)
    tool.driver().set_drained(PCI, on=on, deadline_seconds=SOON)
    assert tool.calls() == [f"drain -p 0000:3F:00.0 -m {int(on)}", "drain -p 0000:3F:00.0 -q"]


def test_a_drain_that_is_refused_carries_the_tools_words(tool: Tool) -> None:
    tool.set(pm="Enabled")
    with pytest.raises(Refused, match="In use by another client"):
        tool.driver().set_drained(PCI, on=True, deadline_seconds=SOON)


def test_a_drain_that_only_says_that_it_worked_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("echo draining > drained;", ""))
    with pytest.raises(Refused, match="it is not so"):
        tool.driver().set_drained(PCI, on=True, deadline_seconds=SOON)


def test_a_drain_that_worked_in_spite_of_its_exit_code_is_success(tool: Tool) -> None:
    tool.does(WELL.replace('drain state to: draining."', 'drain state to: draining."; exit 255'))
    tool.driver().set_drained(PCI, on=True, deadline_seconds=SOON)


def test_a_drain_state_in_other_words_is_refused(tool: Tool) -> None:
    tool.says("The weather is: fine.\n")
    with pytest.raises(Refused, match="The weather is: fine"):
        tool.driver().is_drained(PCI, SOON)


def test_persistence_mode_is_set_and_read_back(tool: Tool) -> None:
    driver = tool.driver()
    driver.set_persistence(PCI, on=True, deadline_seconds=SOON)
    assert driver.read(SOON).gpus[0].persistence is True
    driver.set_persistence(PCI, on=False, deadline_seconds=SOON)
    assert driver.read(SOON).gpus[0].persistence is False


def test_persistence_mode_is_not_read_back_where_a_drain_follows(tool: Tool) -> None:
    tool.driver().set_persistence(PCI, on=False, deadline_seconds=SOON, look=False)
    assert tool.calls() == ["-i 0000:3F:00.0 -pm 0"]


def test_persistence_mode_that_only_says_that_it_changed_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("echo Enabled > pm", "echo Enabled"))
    with pytest.raises(Refused, match="it is not so"):
        tool.driver().set_persistence(PCI, on=True, deadline_seconds=SOON)


def test_a_reset_is_success_when_the_same_gpu_is_back(tool: Tool) -> None:
    tool.driver().reset(PCI, SOON, key="c-1")
    assert "--gpu-reset -i 0000:3F:00.0" in tool.calls()


def test_a_reset_after_which_another_gpu_answers_is_a_conflict(tool: Tool) -> None:
    tool.set(after="GPU-other")
    with pytest.raises(Conflict, match="GPU-other"):
        tool.driver().reset(PCI, SOON, key="c-1")


def test_a_reset_after_which_the_gpu_is_gone_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("cp after uuid", "echo draining > drained"))
    with pytest.raises(Refused, match="does not show"):
        tool.driver().reset(PCI, SOON, key="c-1")


def test_a_reset_after_which_the_gpu_is_lost_is_refused(tool: Tool) -> None:
    tool.does(WELL.replace("cp after uuid", "echo GPU is lost > temp"))
    with pytest.raises(Refused, match="does not answer after its reset"):
        tool.driver().reset(PCI, SOON, key="c-1")


def test_a_gpu_that_cannot_be_read_may_still_be_reset(tool: Tool) -> None:
    tool.does(WELL.replace('    "-q -x"|', "    nothing|").replace('"-q -x -i', '"-q -x -i broken', 1))
    with pytest.raises(Refused, match="no such request"):
        tool.driver().reset(PCI, SOON, key="c-1")
    assert "--gpu-reset -i 0000:3F:00.0" in tool.calls()


@pytest.mark.parametrize("row", EXIT_CODES, ids=lambda row: str(row.code))
def test_each_exit_code_has_its_sentence_with_the_tools_words(tool: Tool, row: object) -> None:
    code = next(known for known in EXIT_CODES if known is row)
    tool.says("Some words\nof the tool.\n", code.code)
    with pytest.raises(code.error) as caught:
        tool.driver().describe(PCI, SOON)
    assert str(caught.value) == (
        f"{tool.folder}/nvidia-smi -q -i 0000:3F:00.0: {code.meaning} (Some words of the tool); {code.remedy}"
    )


def test_an_exit_code_without_a_row_keeps_the_words(tool: Tool) -> None:
    tool.says("Strange.\n", 77)
    with pytest.raises(Refused, match=r"exit code 77 \(Strange\)"):
        tool.driver().describe(PCI, SOON)


@pytest.mark.parametrize("code", [15, 255, 0])
def test_one_error_line_instead_of_everything_says_that_a_gpu_is_lost(tool: Tool, code: int) -> None:
    tool.says(
        "Unable to determine the device handle for GPU0000:3F:00.0: GPU is lost.  Reboot the system to recover\n", code
    )
    with pytest.raises(Refused, match="the GPU is lost, it fell off the bus"):
        tool.driver().read(SOON)


def test_a_warning_in_the_exit_code_leaves_the_document_good(tool: Tool) -> None:
    tool.does(WELL.replace("END\n        ;;", "END\n        exit 14 ;;"))
    assert len(tool.driver().read(SOON).gpus) == 1


def test_a_document_that_is_cut_is_unreachable(tool: Tool) -> None:
    tool.says("<nvidia_smi_log><gpu id=")
    with pytest.raises(Unreachable, match="cut or garbled"):
        tool.driver().read(SOON)


def test_a_document_that_is_cut_by_an_error_is_that_error(tool: Tool) -> None:
    tool.says("<nvidia_smi_log><gpu id=", 9)
    with pytest.raises(Unreachable, match="the driver is not loaded"):
        tool.driver().read(SOON)


def test_a_tool_that_dies_is_unreachable(tool: Tool) -> None:
    tool.does("#!/bin/sh\nkill -SEGV $$\n")
    with pytest.raises(Unreachable, match="ended by signal 11"):
        tool.driver().read(SOON)


def test_control_characters_in_its_words_do_not_reach_a_terminal(tool: Tool) -> None:
    tool.says("\x1b[31mred\x07\n", 255)
    with pytest.raises(Refused) as caught:
        tool.driver().read(SOON)
    assert str(caught.value).isprintable()


CALLS: dict[str, Callable[[Driver], object]] = {
    "read": lambda driver: driver.read(0.5),
    "describe": lambda driver: driver.describe(PCI, 0.5),
    "set_persistence": lambda driver: driver.set_persistence(PCI, on=True, deadline_seconds=0.5),
    "set_drained": lambda driver: driver.set_drained(PCI, on=True, deadline_seconds=0.5),
    "is_drained": lambda driver: driver.is_drained(PCI, 0.5),
    "reset": lambda driver: driver.reset(PCI, 0.5, key="c-1"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_every_call_ends_by_its_deadline(tool: Tool, call: Callable[[Driver], object]) -> None:
    tool.does("#!/bin/sh\nexec sleep 600\n")
    started = time.monotonic()
    with pytest.raises(Hung, match=r"did not answer within 0\.5 s"):
        call(tool.driver())
    assert time.monotonic() - started < SOON


MIG_XML = XML.replace("<persistence_mode>", "<mig_mode><current_mig>Enabled</current_mig></mig_mode><persistence_mode>")
MIG = "MIG-0a0a0a0a-0000-5000-8000-0123456789ab"
OLD_MIG = f"MIG-{UUID}/7/0"
LISTING = f"""\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})
  MIG 1g.10gb     Device  0: (UUID: {MIG})
  MIG 1g.10gb+me  Device  1: (UUID: {OLD_MIG})
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0)
  MIG 3g.40gb     Device  0: (UUID: MIG-0)
"""


@pytest.mark.parametrize(("answer", "want"), [("cat listing", (MIG, OLD_MIG)), ("cat listing; exit 3", None)])
def test_mig_devices_are_read_from_the_list_where_mig_is_on(
    tool: Tool, answer: str, want: tuple[str, ...] | None
) -> None:
    tool.set(listing=LISTING)
    tool.does(WELL.replace(XML, MIG_XML).replace('    "--gpu-reset', f'    "-L") {answer} ;;\n    "--gpu-reset', 1))
    (gpu,) = tool.driver().read(SOON).gpus
    assert (gpu.mig, gpu.mig_uuids) == (True, want)


def test_where_mig_is_off_nothing_more_is_asked(tool: Tool) -> None:
    tool.driver().read(SOON)
    assert tool.calls() == ["-q -x"]
