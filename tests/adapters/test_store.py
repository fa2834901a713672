"""What JsonFile promises: saved whole, private, and a broken file told as such."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuward.adapters.store import JsonFile
from gpuward.ports import Refused


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "deeper" / "watch.json"


def test_what_was_saved_is_loaded(file: Path) -> None:
    store = JsonFile(str(file))
    assert store.load() is None
    store.save({"cursor": "k17", "faults": [{"code": 79, "wall": None}]})
    store.save({"cursor": "k18", "name": "é\ud800"})
    assert JsonFile(str(file)).load() == {"cursor": "k18", "name": "é\ud800"}


def test_only_the_owner_may_read_it(file: Path) -> None:
    before = os.umask(0)
    try:
        JsonFile(str(file)).save({})
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    JsonFile(str(tmp_path / "watch.json")).save({})
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


def test_nothing_is_left_beside_it(file: Path) -> None:
    JsonFile(str(file)).save({"a": 1})
    JsonFile(str(file)).save({"a": 2})
    assert list(file.parent.iterdir()) == [file]


def test_a_save_that_fails_leaves_the_old_one_and_no_litter(tmp_path: Path) -> None:
    file = tmp_path / "watch.json"
    file.mkdir()
    with pytest.raises(Refused, match=r"cannot write .*/watch.json: Is a directory; give another --state-dir$"):
        JsonFile(str(file)).save({"a": 1})
    assert list(tmp_path.iterdir()) == [file]


def test_the_old_file_is_replaced_and_never_rewritten(file: Path) -> None:
    store = JsonFile(str(file))
    store.save({"a": "old"})
    with file.open() as held:
        store.save({"a": "new"})
        assert "old" in held.read()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(Refused, match=r"cannot write .*: (File exists|Not a directory); give another --state-dir$"):
        JsonFile(str(tmp_path / "state" / "watch.json")).save({})


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"version":1,"saved":{}'])
def test_a_broken_file_is_refused_and_may_be_deleted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "watch.json"
    file.write_bytes(content)
    with pytest.raises(Refused, match=r"/watch.json is broken; delete it and the watch starts afresh"):
        JsonFile(str(file)).load()


@pytest.mark.parametrize("content", [[], {}, {"version": 2, "saved": {}}, {"version": 1, "saved": []}, 7])
def test_a_file_of_another_version_is_refused_and_may_be_deleted(tmp_path: Path, content: object) -> None:
    file = tmp_path / "watch.json"
    file.write_text(json.dumps(content))
    with pytest.raises(Refused, match=r"watch.json was written by another version of gpuward; delete it and"):
        JsonFile(str(file)).load()


def _folder(place: Path) -> None:
    place.mkdir()


def _device(place: Path) -> None:
    place.symlink_to("/dev/null")


@pytest.mark.parametrize("make", [_folder, os.mkfifo, _device])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    file = tmp_path / "watch.json"
    make(file)
    refused: list[str] = []

    def load() -> None:
        with pytest.raises(Refused) as caught:
            JsonFile(str(file)).load()
        refused.append(str(caught.value))

    # In a thread that the test does not wait for, so that a load that hangs fails the test and not the run.
    loading = threading.Thread(target=load, daemon=True)
    loading.start()
    loading.join(5)
    assert refused == [f"{file} is no regular file; remove it or give another --state-dir"]


def test_a_file_over_64_mib_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "watch.json"
    file.touch()
    os.truncate(file, 64 * 1024 * 1024 + 1)
    with pytest.raises(Refused, match=r"watch.json is larger than 64 MiB; delete it or give another --state-dir$"):
        JsonFile(str(file)).load()


def test_a_file_that_cannot_be_opened_is_refused(file: Path) -> None:
    file.parent.parent.mkdir(parents=True)
    file.parent.symlink_to(file.parent)
    with pytest.raises(Refused, match=r"is no regular file; remove it or give another --state-dir$"):
        JsonFile(str(file)).load()


_KILLED = """
import os, signal, sys
from pathlib import Path
from gpuward.adapters.store import JsonFile
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
JsonFile(sys.argv[1]).save({"a": 2})
"""


def test_what_a_killed_process_left_is_gone_after_the_next_save(file: Path) -> None:
    JsonFile(str(file)).save({"a": 1})
    killed = subprocess.run([sys.executable, "-c", _KILLED, file], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(file.parent.iterdir())) == 2
    assert JsonFile(str(file)).load() == {"a": 1}
    JsonFile(str(file)).save({"a": 3})
    assert list(file.parent.iterdir()) == [file]


def test_a_file_of_somebody_else_is_left_beside_it(file: Path) -> None:
    JsonFile(str(file)).save({"a": 1})
    others = [file.parent / name for name in (".watch.json.swp", ".other.json.abcdefgh", "watch.json.abcdefgh")]
    for other in others:
        other.touch()
    (file.parent / ".watch.json.abcdefgh").mkdir()
    JsonFile(str(file)).save({"a": 2})
    assert {*file.parent.iterdir()} == {file, *others, file.parent / ".watch.json.abcdefgh"}
