"""What JsonFile promises: saved whole, private, and a broken file told as such."""

import json
import os
import stat
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
    with pytest.raises(Refused, match=r"cannot write .*/watch.json: Is a directory; give another state file"):
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
    with pytest.raises(Refused, match=r"cannot write .*: (File exists|Not a directory); give another state file"):
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


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"cannot read .*: Is a directory; give another state file"):
        JsonFile(str(tmp_path)).load()
