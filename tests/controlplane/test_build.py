"""The builder of the control plane: whole binaries or none, one build at a time, one clear sentence where it cannot.

Go itself is a pretend one here, told by a script; that the real one builds is seen by the other tests.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.controlplane import build as builder
from tests.kit.controlplane.binaries import find_binaries, need_binaries
from tests.kit.controlplane.build import Unbuilt
from tests.kit.controlplane.parts import KUBERNETES, SOURCE, Part
from tests.kit.ward import until

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
# The word after -o is the binary's place; it is written in two halves, the second when `go-on` is there.
SLOW = """#!/bin/sh
echo $$ >> "$PRETEND/started"
while [ "$1" != -o ]; do shift; done
printf 'half ' > "$2"
while [ ! -e "$PRETEND/go-on" ]; do sleep 0.05; done
printf 'whole' >> "$2"
"""
BROKEN = """#!/bin/sh
echo 'go: example.com/module@v1: no such host' >&2
exit 1
"""


class Workshop:
    """A cache folder and a pretend Go of one test."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = patch

    def go(self, script: str) -> None:
        """Put a pretend Go on PATH, and none elsewhere."""
        program = self.folder / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(script, "utf-8")
        program.chmod(0o755)
        self.patch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        self.patch.setenv("PRETEND", str(self.folder))

    def begin(self) -> "subprocess.Popen[str]":
        """Start a build of etcd as a process of its own."""
        words = [sys.executable, "-m", "tests.kit.controlplane.build", Part.ETCD]
        return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def started(self) -> list[int]:
        """Return the process ids of the pretend Go so far."""
        file = self.folder / "started"
        return [int(line) for line in file.read_text("ascii").split()] if file.exists() else []

    def go_on(self) -> None:
        """Let the pretend Go finish."""
        (self.folder / "go-on").touch()

    def binary(self) -> Path:
        """Return where etcd comes to lie."""
        return builder.cache() / Part.ETCD


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(builder, "_CONVENTIONAL_GO", str(tmp_path / "no-go"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return Workshop(tmp_path, monkeypatch)


def test_a_killed_build_leaves_no_binary_and_the_next_one_is_whole(workshop: Workshop) -> None:
    workshop.go(SLOW)
    with workshop.begin() as killed:
        until(workshop.started, "Go was called")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    (orphan,) = workshop.started()
    until(lambda: not Path(f"/proc/{orphan}/cwd").exists(), "Go ends with the build")
    assert not workshop.binary().exists()
    workshop.go_on()
    with workshop.begin() as again:
        assert again.wait() == 0
    assert workshop.binary().read_text("ascii") == "half whole"
    assert sorted(one.name for one in workshop.binary().parent.iterdir()) == [".lock", "etcd"], "nothing half is left"


def test_the_second_of_two_builds_waits_and_finds_it_built(workshop: Workshop) -> None:
    workshop.go(SLOW)
    with workshop.begin() as first:
        until(workshop.started, "the first calls Go")
        with workshop.begin() as second:
            assert second.stderr is not None
            assert "another process is building it" in second.stderr.readline()
            workshop.go_on()
            assert second.wait() == 0
        assert first.wait() == 0
    assert len(workshop.started()) == 1


def test_a_build_that_fails_says_what_go_said(workshop: Workshop) -> None:
    workshop.go(BROKEN)
    with pytest.raises(Unbuilt, match=r"etcd could not be built, Go said:\n.*no such host"):
        builder.build([Part.ETCD])
    assert builder.missing([Part.ETCD]) == [Part.ETCD]


def test_another_source_is_another_folder(workshop: Workshop, tmp_path: Path) -> None:
    before = builder.cache()
    changed = tmp_path / "source"
    (changed / "etcd").mkdir(parents=True)
    (changed / "etcd" / "go.mod").write_text((SOURCE / "etcd" / "go.mod").read_text("utf-8") + "\n", "utf-8")
    workshop.patch.setattr(builder, "SOURCE", changed)
    assert builder.cache() != before
    assert builder.cache().parent == before.parent


def test_the_version_that_is_stamped_is_the_one_that_is_built() -> None:
    module = (SOURCE / "kubernetes" / "go.mod").read_text("utf-8")
    assert re.search(rf"\bk8s\.io/kubernetes v{re.escape(KUBERNETES)}$", module, re.MULTILINE)
    staged = set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v(\S+)$", module, re.MULTILINE))
    assert staged == {KUBERNETES.replace("1.", "0.", 1)}


def test_without_go_and_without_ready_binaries_the_tests_are_skipped_but_fail_in_ci(workshop: Workshop) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"^no real control plane: there is no Go on PATH"):
        need_binaries([Part.API])
    workshop.patch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"^no real control plane: there is no Go on PATH"):
        need_binaries([Part.API])


def test_ready_binaries_are_used_and_what_they_lack_is_named(workshop: Workshop, tmp_path: Path) -> None:
    workshop.go(BROKEN)
    ready = tmp_path / "ready"
    ready.mkdir()
    for part in (Part.ETCD, Part.API):
        (ready / part).write_text("#!/bin/sh\n", "ascii")
        (ready / part).chmod(0o755)
    workshop.patch.setenv("KUBEBUILDER_ASSETS", str(ready))
    found = find_binaries([Part.ETCD, Part.API])
    assert found.ready
    assert found.path(Part.API) == os.fspath(ready / "kube-apiserver")
    with pytest.raises(Unbuilt, match="has no kube-scheduler, kwok: put it there"):
        find_binaries([Part.API, Part.SCHEDULER, Part.KWOK])


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(workshop: Workshop, tmp_path: Path) -> None:
    workshop.go(BROKEN)
    (tmp_path / "cache").write_text("a file where the folder should be", "ascii")
    with pytest.raises(Unbuilt, match=r"cannot be written .*: set XDG_CACHE_HOME"):
        builder.build([Part.ETCD])
