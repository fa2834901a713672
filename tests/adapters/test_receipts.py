"""A reset is done once, whoever is killed: Smi with receipts on a slow shell script, asked by real processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.receipts import MOST_RECEIPTS, OLDEST_SECONDS
from gpuward.adapters.smi import Smi
from gpuward.ports import Conflict, EdgeError, Refused, Unreachable

PCI = "0000:3f:00"
SOON = 30.0
TOOL = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
    --gpu-reset*)
        echo run >> runs
        echo $$ > pid
        while [ -e hold ]; do sleep 0.02; done
        [ -e after ] && cp after uuid
        echo "the words of the tool"
        exit "$(cat code)" ;;
    *)
        cat << END
<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:3F:00.0"><uuid>$(cat uuid)</uuid></gpu>
</nvidia_smi_log>
END
        ;;
esac
"""
AGENT = """
import sys
from gpuward.adapters.smi import Smi
from gpuward.ports import EdgeError
try:
    Smi(sys.argv[1], receipts=sys.argv[2]).reset("0000:3f:00", float(sys.argv[3]), key=sys.argv[4])
    print("done")
except EdgeError as error:
    print(type(error).__name__, error)
"""


class Bench:
    """A tool that is slow as long as `hold` is there, and agents that ask for resets and are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.receipts = folder / "state" / "receipts"
        tool = folder / "nvidia-smi"
        tool.write_text(TOOL)
        tool.chmod(0o755)
        self.set("uuid", "GPU-1")
        self.set("code", "0")

    def set(self, name: str, value: str = "") -> None:
        """Set a file of the tool's state."""
        (self.folder / name).write_text(value + "\n")

    def let_go(self) -> None:
        """Let the tool end."""
        (self.folder / "hold").unlink()

    def runs(self) -> int:
        """Return how often the tool has reset."""
        return len((self.folder / "runs").read_text().split()) if (self.folder / "runs").exists() else 0

    def driver(self) -> Smi:
        """Return the adapter, as a new agent has it."""
        return Smi(str(self.folder / "nvidia-smi"), receipts=str(self.receipts))

    def reset(self, seconds: float = SOON, key: str = "c-1") -> None:
        """Reset as a new agent does."""
        self.driver().reset(PCI, seconds, key=key)

    def has_reset(self, key: str = "c-1") -> bool:
        """Return what a new agent is told."""
        return self.driver().has_reset(PCI, key=key)

    def agent(self, key: str = "c-1", seconds: float = SOON) -> "subprocess.Popen[str]":
        """Start an agent that asks."""
        words = [str(self.folder / "nvidia-smi"), str(self.receipts), str(seconds), key]
        return subprocess.Popen([sys.executable, "-c", AGENT, *words], stdout=subprocess.PIPE, text=True)

    def killed_while_resetting(self) -> None:
        """Let an agent be killed while its tool is at it."""
        self.set("hold")
        with self.agent() as agent:
            until(lambda: (self.folder / "pid").exists() and (self.folder / "pid").read_text().strip() != "")
            agent.kill()

    def receipt(self) -> Path:
        """Return the one receipt."""
        (file,) = self.receipts.glob("*.receipt")
        return file

    def shell(self) -> int:
        """Return the pid of the shell that the tool runs under."""
        found = re.search(r"pid ([0-9]+)", self.receipt().read_text())
        assert found
        return int(found[1])


def until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    (tmp_path / "hold").unlink(missing_ok=True)


def test_an_agent_killed_while_the_tool_resets_is_followed_by_one_that_waits_for_it(bench: Bench) -> None:
    bench.killed_while_resetting()
    assert bench.has_reset()
    with bench.agent() as second:
        time.sleep(0.5)
        assert second.poll() is None, "it waits"
        bench.let_go()
        assert second.communicate()[0] == "done\n"
    assert bench.runs() == 1


def test_an_agent_killed_after_the_tool_ended_is_followed_by_one_that_only_looks(bench: Bench) -> None:
    bench.killed_while_resetting()
    bench.let_go()
    until(lambda: "ended 0" in bench.receipt().read_text())
    assert bench.has_reset()
    bench.reset()
    assert bench.runs() == 1


def test_killed_again_and_again_the_tool_runs_once(bench: Bench) -> None:
    bench.killed_while_resetting()
    for _ in range(3):
        with bench.agent() as agent:
            time.sleep(0.3)
            agent.kill()
    bench.let_go()
    bench.reset()
    assert bench.runs() == 1


def test_two_at_once_with_the_same_key_reset_once(bench: Bench) -> None:
    with bench.agent() as one, bench.agent() as other:
        assert {one.communicate()[0], other.communicate()[0]} == {"done\n"}
    threads = [threading.Thread(target=bench.reset) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bench.runs() == 1


def test_a_stop_of_all_does_not_cut_a_reset_short(bench: Bench) -> None:
    bench.killed_while_resetting()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.killpg(bench.shell(), number)
    bench.let_go()
    bench.reset()
    assert bench.runs() == 1


def test_what_is_killed_together_with_the_agent_is_done_anew(bench: Bench) -> None:
    bench.killed_while_resetting()
    os.killpg(bench.shell(), signal.SIGKILL)
    until(lambda: not bench.has_reset())
    bench.let_go()
    bench.reset()
    assert bench.runs() == 2
    bench.reset()
    assert bench.runs() == 2


def test_a_tool_that_outlives_its_shell_is_waited_for_and_not_joined_by_a_second(bench: Bench) -> None:
    bench.killed_while_resetting()
    os.kill(bench.shell(), signal.SIGKILL)
    until(lambda: not is_alive(bench.shell()))
    assert bench.has_reset()
    threading.Timer(0.5, bench.let_go).start()
    with pytest.raises(Unreachable, match="nothing tells how"):
        bench.reset()
    assert bench.runs() == 1


def test_a_reset_under_way_is_killed_at_the_deadline_of_who_waits_and_says_so_for_ever(bench: Bench) -> None:
    bench.killed_while_resetting()
    with pytest.raises(Hung, match=r"did not answer within 0\.5 s and was killed"):
        bench.reset(0.5)
    until(lambda: not is_alive(int((bench.folder / "pid").read_text())))
    with pytest.raises(Hung, match=r"did not answer within 0\.5 s and was killed"):
        bench.reset()
    assert bench.runs() == 1


def test_a_reset_that_hangs_is_killed_with_its_group_and_leaves_a_receipt_that_says_so(bench: Bench) -> None:
    bench.set("hold")
    with pytest.raises(Hung, match=r"did not answer within 1 s"):
        bench.reset(1.0)
    until(lambda: not is_alive(int((bench.folder / "pid").read_text())))
    assert bench.receipt().read_text().endswith("killed 1000\n")
    with pytest.raises(Hung, match=r"did not answer within 1 s"):
        bench.reset()
    assert bench.runs() == 1


def test_a_stuck_reset_lets_no_second_tool_start(bench: Bench) -> None:
    bench.set("hold")
    driver = Smi(str(bench.folder / "nvidia-smi"), receipts=str(bench.receipts), kill=lambda _pid, _signal: None)
    with pytest.raises(Hung):
        driver.reset(PCI, 1.0, key="c-1")
    with pytest.raises(Hung, match="is still there"):
        driver.read(SOON)
    os.killpg(bench.shell(), signal.SIGKILL)
    assert len(driver.read(SOON).gpus) == 1


def outcome(bench: Bench) -> tuple[type[EdgeError], str]:
    with pytest.raises(EdgeError) as caught:
        bench.reset()
    return type(caught.value), str(caught.value)


def test_a_refusal_comes_back_with_the_tools_words(bench: Bench) -> None:
    bench.set("code", "255")
    first = outcome(bench)
    bench.set("code", "0")
    assert outcome(bench) == first
    assert first[0] is Refused
    assert "the words of the tool" in first[1]
    assert bench.runs() == 1


def test_another_gpu_after_the_reset_is_a_conflict_also_when_the_agent_was_killed_in_between(bench: Bench) -> None:
    bench.set("after", "GPU-2")
    bench.killed_while_resetting()
    bench.let_go()
    assert outcome(bench)[0] is Conflict
    assert "was GPU-1 and is GPU-2" in outcome(bench)[1]
    assert bench.runs() == 1


def test_a_tool_that_dies_is_unreachable_and_stays_so(bench: Bench) -> None:
    bench.set("code", "0\nkill -SEGV $$")
    tool = bench.folder / "nvidia-smi"
    tool.write_text(TOOL.replace("[ -e after ]", "kill -SEGV $$; [ -e after ]"))
    assert outcome(bench) == outcome(bench)
    assert outcome(bench)[0] is Unreachable
    assert "signal 11" in outcome(bench)[1]
    assert bench.runs() == 1


def test_a_tool_that_dies_when_its_agent_is_gone_is_told_too(bench: Bench) -> None:
    bench.killed_while_resetting()
    os.kill(int((bench.folder / "pid").read_text()), signal.SIGKILL)
    until(lambda: "ended 137" in bench.receipt().read_text())
    assert outcome(bench)[0] is Unreachable
    assert "signal 9" in outcome(bench)[1]
    assert bench.runs() == 1


def test_a_tool_that_is_not_there_is_refused(bench: Bench) -> None:
    with pytest.raises(Refused, match="not installed"):
        Smi(str(bench.folder / "nothing"), receipts=str(bench.receipts)).reset(PCI, SOON, key="c-1")


def test_a_flood_of_words_is_cut_off(bench: Bench) -> None:
    (bench.folder / "nvidia-smi").write_text(TOOL.replace("[ -e after ]", "exec yes; [ -e after ]"))
    with pytest.raises(Unreachable, match="ended by signal 25"):
        bench.reset()
    (words,) = bench.receipts.glob("*.words")
    assert words.stat().st_size <= 4 * 1024 * 1024


def test_a_reset_of_another_boot_that_ended_stands_and_one_that_did_not_is_done_anew(bench: Bench) -> None:
    bench.reset()
    file = bench.receipt()
    text = re.sub(r"boot \S+", "boot 11111111-2222-3333-4444-555555555555", file.read_text())
    file.write_text(text)
    bench.reset()
    assert bench.runs() == 1
    file.write_text(text.replace("ended 0\n", ""))
    assert not bench.has_reset()
    bench.reset()
    assert bench.runs() == 2


@pytest.mark.parametrize("boot", [None, "11111111-2222-3333-4444-555555555555"])
def test_a_process_of_another_boot_is_not_the_reset(bench: Bench, boot: str | None) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as sleeper:
        started = Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[19]
        this = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        bench.reset()
        bench.receipt().write_text(f"boot {this}\npid {sleeper.pid} {started}\nnote GPU-1\n")
        has_reset = bench.has_reset()
        sleeper.kill()
    assert has_reset is (boot is None)


def of_another_session(bench: Bench, pid: int) -> None:
    """Leave the receipt of a reset that was cut short, its shell's number given to another process since."""
    bench.reset()
    text = bench.receipt().read_text().replace("ended 0\n", "")
    # Never of the same clock tick as the other process, as both may be on a fast machine.
    bench.receipt().write_text(re.sub(r"pid \S+ (\S+)", lambda of: f"pid {pid} {int(of[1]) + 1000}", text))


def test_a_process_that_has_got_the_number_of_the_shell_is_not_the_reset(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as sleeper:
        of_another_session(bench, sleeper.pid)
        has_reset = bench.has_reset()
        sleeper.kill()
    assert not has_reset


def test_a_session_that_has_got_the_number_and_outlived_its_first_process_is_not_the_reset(bench: Bench) -> None:
    daemon = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    with subprocess.Popen(daemon, start_new_session=True, stdout=subprocess.PIPE, text=True) as first:
        left = int(first.communicate()[0])
    try:
        assert os.getsid(left) == first.pid
        of_another_session(bench, first.pid)
        assert not bench.has_reset()
        bench.reset()
        assert bench.runs() == 2
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _text: b"",
        lambda _text: b"\0" * 64,
        lambda text: text[:20],
        lambda text: text + b"ended well\n",
        lambda text: text.replace(b"pid ", b"pid x"),
        lambda text: re.sub(rb"pid [0-9]+", b"pid 0", text),
        lambda text: b"\xff\x1b[31m" + text,
    ],
)
def test_a_damaged_receipt_is_no_leave_to_reset(bench: Bench, damage: Callable[[bytes], bytes]) -> None:
    bench.reset()
    bench.receipt().write_bytes(damage(bench.receipt().read_bytes()))
    with pytest.raises(Refused, match="remove the file and retry"):
        bench.has_reset()
    with pytest.raises(Refused, match="not done twice"):
        bench.reset()
    bench.reset(key="c-2")
    assert bench.runs() == 2


def test_an_outcome_that_was_cut_while_it_was_written_is_none(bench: Bench) -> None:
    bench.reset()
    bench.receipt().write_bytes(bench.receipt().read_bytes().removesuffix(b"\n"))
    assert not bench.has_reset()


def test_without_a_receipt_there_is_no_reset(bench: Bench) -> None:
    bench.receipts.parent.write_text("a file is in the way")
    with pytest.raises(Refused, match="no receipt can be kept"):
        bench.reset()
    assert bench.runs() == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_in_a_folder_that_may_not_be_written_there_is_no_reset(bench: Bench) -> None:
    bench.receipts.mkdir(parents=True, mode=0o500)
    with pytest.raises(Refused, match="no receipt can be kept"):
        bench.reset()
    assert bench.runs() == 0


def test_a_receipt_that_cannot_be_put_down_lets_nothing_run(bench: Bench) -> None:
    bench.reset()
    words = bench.receipt().with_suffix(".words")
    bench.receipt().unlink()
    words.unlink()
    words.mkdir()
    with pytest.raises(Refused, match="no receipt can be kept"):
        bench.reset()
    assert bench.runs() == 1


@pytest.mark.parametrize("key", ["../../x", "a/b", "", "x" * 5000, "n\nl", "é\udcff", ".", "-rf", "a b", "$(touch x)"])
def test_any_key_makes_a_receipt_of_its_own_in_the_folder(bench: Bench, key: str) -> None:
    for each in (key, key, "c-1"):
        bench.reset(key=each)
    assert bench.runs() == 2
    assert len([*bench.receipts.glob("*.receipt")]) == 2
    assert sorted(path.name for path in bench.folder.iterdir()) == sorted(
        ["code", "nvidia-smi", "pid", "runs", "state", "uuid"]
    )


def test_old_receipts_and_those_of_too_many_are_swept(bench: Bench) -> None:
    bench.receipts.mkdir(parents=True)
    now = time.time_ns() / 1e9
    for number in range(MOST_RECEIPTS + 20):
        for suffix in (".receipt", ".words"):
            (bench.receipts / f"k{number}{suffix}").write_text("x")
            os.utime(bench.receipts / f"k{number}{suffix}", (now - number, now - number))
    os.utime(bench.receipts / "k3.receipt", (now - OLDEST_SECONDS - 60,) * 2)
    (bench.receipts / "killed.new").write_text("x")
    (bench.receipts / "README").write_text("not ours")
    bench.reset()
    names = {file.name for file in bench.receipts.iterdir()}
    assert sum(name.endswith(".receipt") for name in names) == MOST_RECEIPTS
    assert {"k0.receipt", "k0.words", "README"} <= names
    assert not {"k3.receipt", "k3.words", f"k{MOST_RECEIPTS + 19}.receipt", "killed.new"} & names


def test_nobody_else_may_read_the_receipts(bench: Bench) -> None:
    bench.reset()
    assert bench.receipts.stat().st_mode & 0o077 == 0


def test_without_a_folder_every_reset_is_done(bench: Bench) -> None:
    driver = Smi(str(bench.folder / "nvidia-smi"))
    for _ in range(2):
        assert not driver.has_reset(PCI, key="c-1")
        driver.reset(PCI, SOON, key="c-1")
    assert bench.runs() == 2
