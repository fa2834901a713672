"""The user's own proof of a GPU: a real command, its words and its deadline."""

import sys

import pytest

from gpuward.adapters.check import CheckCommand
from gpuward.ports import Refused, Unreachable

PCI = "0000:0a:00"
UUID = "GPU-00000000-1111-2222-3333-444444444444"


def check(program: str, *, seconds: float = 20.0) -> CheckCommand:
    return CheckCommand([sys.executable, "-c", program], deadline_seconds=seconds)


def test_one_that_ends_with_0_is_proof() -> None:
    check("pass").run(PCI, UUID)


def test_one_that_fails_is_refused_with_its_last_words() -> None:
    with pytest.raises(Refused, match=r"exit code 3 \(matrix wrong on GPU 0\)"):
        check("print('matrix'); print('wrong on GPU 0'); raise SystemExit(3)").run(PCI, UUID)


def test_one_that_is_killed_is_refused() -> None:
    with pytest.raises(Refused, match="signal 9"):
        check("import os; os.kill(os.getpid(), 9)").run(PCI, UUID)


def test_one_that_hangs_is_unreachable_at_its_deadline() -> None:
    with pytest.raises(Unreachable, match="within"):
        check("import time; time.sleep(60)", seconds=0.5).run(PCI, UUID)


def test_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="not installed"):
        CheckCommand(["no-such-check"], deadline_seconds=5.0).run(PCI, UUID)


def test_its_environment_names_the_gpu() -> None:
    names = "[(os.environ.get(n)) for n in ('GPUWARD_GPU_PCI', 'GPUWARD_GPU_UUID', 'CUDA_VISIBLE_DEVICES')]"
    wanted = [PCI, UUID, UUID]
    check(f"import os, sys; sys.exit({names} != {wanted!r})").run(PCI, UUID)


def test_a_gpu_without_a_known_uuid_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    check("import os, sys; sys.exit('CUDA_VISIBLE_DEVICES' in os.environ)").run(PCI, None)
