"""KubeletPods against real gRPC servers over a Unix socket: answers, refusals, silence, and nobody there."""

import os
import socket as sockets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuward.adapters.child import Hung
from gpuward.adapters.podresources import KubeletPods
from gpuward.model.grant import Grant
from gpuward.ports import Refused, Unreachable
from tests.kit.kubelet import container, devices, hanging, kubelet, pod, refusing, telling

SOON = 30.0
GPU = "GPU-5a5a5a5a-0000-4000-8000-0123456789ab"
UID = "0b5c9f0e-1111-4222-8333-444455556666"
TRAIN = pod("ml", "train-0", container("train", devices("nvidia.com/gpu", GPU)))


@pytest.fixture
def socket(tmp_path: Path) -> str:
    """Return where a kubelet's socket may be."""
    return str(tmp_path / "kubelet.sock")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder of logs as a kubelet keeps it."""
    for name in (
        f"ml_train-0_{UID}",
        "kube-system_etcd-a_0123456789abcdef0123456789abcdef",
        "odd",
        "a_b",
        "lost+found",
    ):
        (tmp_path / "pods" / name).mkdir(parents=True)
    return tmp_path / "pods"


def children() -> list[str]:
    """Return the pids of the children of this process that ask a kubelet."""
    tasks = Path(f"/proc/{os.getpid()}/task")
    pids = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in pids if b"podresources_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_it_tells_who_has_what_with_the_uid_that_the_node_knows(socket: str, logs: Path) -> None:
    with telling(socket, TRAIN, pod("ml", "idle-0", container("c"))) as heard:
        given = KubeletPods(socket, logs=str(logs)).given(SOON)
    assert given == (Grant("ml", "train-0", "train", resource="nvidia.com/gpu", devices=(GPU,), uids=(UID,)),)
    assert heard == [b""]
    assert children() == []


def test_of_a_pod_that_came_anew_under_its_name_both_uids_are_told(socket: str, logs: Path) -> None:
    (logs / "ml_train-0_ffffffff-1111-4222-8333-444455556666").mkdir()
    with telling(socket, TRAIN):
        (grant,) = KubeletPods(socket, logs=str(logs)).given(SOON)
    assert grant.uids == (UID, "ffffffff-1111-4222-8333-444455556666")


def test_a_pod_is_named_by_its_uid_without_the_kubelet(socket: str, logs: Path) -> None:
    static = "0123456789abcdef0123456789abcdef"
    asking = KubeletPods(socket, logs=str(logs))
    assert asking.named({UID, static, "of-no-pod"}) == {UID: ("ml", "train-0"), static: ("kube-system", "etcd-a")}
    assert KubeletPods(socket, logs="/nowhere").named({UID}) == {}


def test_without_the_folder_of_logs_no_uid_is_known(socket: str) -> None:
    with telling(socket, TRAIN):
        (grant,) = KubeletPods(socket, logs="/nowhere").given(SOON)
    assert grant.uids == ()


def test_it_asks_anew_each_time(socket: str) -> None:
    answers = iter((TRAIN, pod("ml", "other-0", container("c", devices("nvidia.com/gpu", GPU)))))
    asking = KubeletPods(socket, logs="/nowhere")
    with kubelet(socket, lambda _request, _context: b"\x0a" + bytes([len(one := next(answers))]) + one):
        assert [asking.given(SOON)[0].pod for _ in range(2)] == ["train-0", "other-0"]


def test_a_kubelet_that_hangs_is_waited_for_to_the_deadline_and_its_child_is_killed(socket: str) -> None:
    with hanging(socket) as heard:
        started = time.monotonic()
        with pytest.raises(Hung, match=r"kubelet\.sock did not answer within 2 s; see whether it hangs"):
            KubeletPods(socket).given(2.0)
        assert time.monotonic() - started < SOON
        assert heard == [b""]
    assert children() == []


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("UNAVAILABLE", Unreachable, "UNAVAILABLE .not now.; see whether it runs"),
        ("RESOURCE_EXHAUSTED", Unreachable, "asked too often"),
        ("INTERNAL", Unreachable, "see its log"),
        ("UNIMPLEMENTED", Refused, "older than Kubernetes 1.20"),
        ("PERMISSION_DENIED", Refused, "let this user ask it"),
    ],
)
def test_a_kubelet_that_says_no_is_a_sentence(socket: str, status: str, error: type[Exception], words: str) -> None:
    with refusing(socket, status, "not\nnow"), pytest.raises(error, match=words):
        KubeletPods(socket).given(SOON)


def test_an_answer_that_is_none_is_refused(socket: str) -> None:
    with kubelet(socket, lambda _request, _context: b"\xff\xff\xff"), pytest.raises(Refused, match="cannot be read"):
        KubeletPods(socket).given(SOON)


def test_a_pod_that_cannot_be_is_refused(socket: str) -> None:
    odd = pod("ml", "../x", container("c", devices("nvidia.com/gpu", GPU)))
    with telling(socket, odd), pytest.raises(Refused, match="names a pod that cannot be"):
        KubeletPods(socket).given(SOON)


def test_without_a_socket_nobody_is_started(socket: str) -> None:
    with pytest.raises(Unreachable, match=r"there is no kubelet at .*; see that its folder is mounted"):
        KubeletPods(socket, child=("/nowhere/python",)).given(SOON)


def test_what_is_no_socket_is_refused(socket: str) -> None:
    Path(socket).write_text("")
    with pytest.raises(Refused, match="is no socket of a kubelet"):
        KubeletPods(socket).given(SOON)


def test_a_socket_that_nobody_serves_is_unreachable(socket: str) -> None:
    with sockets.socket(sockets.AF_UNIX) as left_behind:
        left_behind.bind(socket)
    with pytest.raises(Unreachable, match="UNAVAILABLE"):
        KubeletPods(socket).given(SOON)


def test_a_server_of_something_else_is_unreachable(socket: str) -> None:
    with sockets.socket(sockets.AF_UNIX) as silent:
        silent.bind(socket)
        silent.listen()
        with pytest.raises(Unreachable):
            KubeletPods(socket).given(3.0)


def test_without_the_package_it_is_refused_with_a_sentence(socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sockets.socket(sockets.AF_UNIX) as served:
        served.bind(socket)
        with monkeypatch.context() as without:
            without.setattr("importlib.util.find_spec", lambda _name: None)
            with pytest.raises(Refused, match=r"grpcio is not installed.*install gpuward\[cluster\]"):
                KubeletPods(socket, child=("/nowhere/python",)).given(SOON)
        broken = "import sys; sys.modules['grpc'] = None; from gpuward.adapters.podresources_child import main; main()"
        with pytest.raises(Refused, match="grpcio is not installed"):
            KubeletPods(socket, child=(sys.executable, "-c", broken)).given(SOON)


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "print('{')",
        "print('[]')",
        "print('{}')",
        "print('{\"grants\": [{}]}')",
        "import sys; sys.exit('it broke')",
    ],
)
def test_a_child_that_dies_or_talks_nonsense_is_unreachable(socket: str, code: str) -> None:
    with sockets.socket(sockets.AF_UNIX) as served:
        served.bind(socket)
        with pytest.raises(Unreachable, match="no answer"):
            KubeletPods(socket, child=(sys.executable, "-c", code)).given(SOON)


def test_grpc_is_never_loaded_in_the_agents_own_process() -> None:
    code = "import sys, gpuward.cli.wiring.gear, gpuward.cli.member; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
