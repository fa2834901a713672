"""Which pod the kubelet of this machine has given which device, asked through a child that lives for one question.

The kubelet tells a pod by its name. Its UID is in the names of the folders that the kubelet keeps for the logs of pods.
"""

import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuward.adapters.child import Hung, Kill, Program, Said, within
from gpuward.adapters.podresources_child import NO_GRPC
from gpuward.model.grant import Grant
from gpuward.ports import Refused, Unreachable

LOGS = "/var/log/pods"
_CHILD = (sys.executable, "-P", "-m", "gpuward.adapters.podresources_child")
"""-P: the working directory is no place to import from."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST_WORD = 256
_LOG_FOLDER = re.compile(r"([-a-z0-9]+)_([-a-z0-9.]+)_([-A-Za-z0-9]{1,128})", re.ASCII)
"""`<namespace>_<name>_<uid>`, of a static pod the digest of its manifest (kubelet, BuildPodLogsDirectory)."""


class KubeletPods:
    """Implements PodDevices: the kubelet at `socket` is asked anew each time; never more than one child is alive.

    `logs` is the folder of the pods' logs; without it no UID is known.
    """

    def __init__(
        self,
        socket: str,
        *,
        logs: str = LOGS,
        child: Sequence[str] = _CHILD,
        kill: Kill = os.killpg,
    ) -> None:
        self._socket = socket
        self._logs = logs
        self._program = Program(child[0], kill=kill)
        self._words = tuple(child[1:])

    def given(self, deadline_seconds: float) -> tuple[Grant, ...]:
        """Return all devices of NVIDIA's that pods have.

        Raises Hung at the deadline, Unreachable when there is no kubelet or it cannot answer now, Refused when it will
        not, or its answer cannot be read.
        """
        self._look()
        deadline = within(deadline_seconds)
        try:
            said = self._program.run(*self._words, self._socket, f"{deadline_seconds:g}", deadline=deadline)
        except Hung as error:
            raise Hung(
                f"the kubelet at {self._socket} did not answer within {deadline_seconds:g} s; see whether it hangs"
            ) from error
        told = _told(said)
        uids: dict[tuple[str, str], tuple[str, ...]] = {}
        for uid, pod in self._pods() if told else ():
            uids[pod] = (*uids.get(pod, ()), uid)
        return tuple(replace(one, uids=uids.get((one.namespace, one.pod), ())) for one in told)

    def named(self, uids: Collection[str]) -> Mapping[str, tuple[str, str]]:
        """Return namespace and name of the pods with these UIDs, by the folders of their logs."""
        return {uid: pod for uid, pod in self._pods() if uid in uids} if uids else {}

    def _look(self) -> None:
        """See that there is somebody to ask and something to ask with, before a child is started for it."""
        try:
            is_socket = stat.S_ISSOCK(Path(self._socket).stat().st_mode)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unreachable(
                f"there is no kubelet at {self._socket}, so which pod has which GPU is not known; see that its folder "
                "is mounted there, or name its socket"
            ) from error
        except OSError as error:
            raise Refused(f"{self._socket} may not be looked at ({error.strerror}); run as root") from error
        if not is_socket:
            raise Refused(f"{self._socket} is no socket of a kubelet; name the right one")
        if importlib.util.find_spec("grpc") is None:
            raise Refused(NO_GRPC)

    def _pods(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield UID, and namespace with name, of each pod that the node knows; none where nobody can look."""
        try:
            names = os.listdir(self._logs)  # noqa: PTH208  names alone
        except OSError:
            return
        for match in filter(None, map(_LOG_FOLDER.fullmatch, sorted(names))):
            yield match[3], (match[1], match[2])


def _told(said: Said) -> list[Grant]:
    """Return what the child told. Raises what it said of a trouble, and Refused for what is no answer."""
    try:
        answer = json.loads(said.out)
        refused, unreachable = answer.get("refused"), answer.get("unreachable")
        grants = [] if refused or unreachable else [_grant(one) for one in answer["grants"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        words = " ".join(said.err.split())[-200:]
        raise Unreachable(
            f"the child that asks the kubelet ended with {said.code} and no answer ({words}); it is asked again"
        ) from error
    if refused:
        raise Refused(str(refused))
    if unreachable:
        raise Unreachable(str(unreachable))
    return grants


def _grant(told: Mapping[str, Any]) -> Grant:
    """Return a grant. Raises Refused when a name in it is none that the API server would have taken."""
    namespace, pod = str(told["namespace"]), str(told["pod"])
    if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(pod)):
        shown = f"{namespace[:64]!r}/{pod[:64]!r}"
        raise Refused(f"the kubelet's answer names a pod that cannot be, {shown}; see what serves its socket")
    return Grant(
        namespace=namespace,
        pod=pod,
        container=str(told["container"])[:_LONGEST_WORD],
        resource=str(told["resource"])[:_LONGEST_WORD],
        devices=tuple(str(one)[:_LONGEST_WORD] for one in told["devices"]),
    )
