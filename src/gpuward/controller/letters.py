"""Writes notices on pods: what a saved case tells its jobs, and that it was taken back. It decides nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuward.controller.heed import borne
from gpuward.controller.mirror import Mirror
from gpuward.controller.notices import Letter, letters_of, readers_of
from gpuward.controller.outcomes import Heard
from gpuward.controller.pace import Pace
from gpuward.model.objects.gpu_case import GpuCase
from gpuward.model.objects.notice import Noticed, write_notice
from gpuward.model.objects.owned import NOTICE
from gpuward.model.objects.values import ObjectError, write
from gpuward.model.resource import GPU_CASES, PODS
from gpuward.ports import Cluster, Conflict, Refused

AT_ONCE = 16
_PATH = "/metadata/annotations/" + NOTICE.replace("~", "~0").replace("/", "~1")


class Letters:
    """The one that writes on pods. A pod that changed meanwhile is written on in the next round."""

    def __init__(self, cluster: Cluster, cases: Mirror[GpuCase], heard: Heard, *, pace: Pace) -> None:
        self._cluster = cluster
        self._cases = cases
        self._heard = heard
        self._pace = pace

    async def send(self, found: GpuCase, letters: Sequence[Letter]) -> None:
        """Write what a case tells its jobs, as far as that is saved. Raises Unreachable."""
        saved = () if found.status is None else found.status.noticed
        told = {(one.job.uid, one.generation) for one in saved}
        await self._send(found.head.name, [one for one in letters if (one.notice.job, one.notice.generation) in told])

    async def sweep(self) -> list[str]:
        """Tell the pods of jobs whose notice was taken back, also where the case has ended. Raises Unreachable.

        Return what went wrong, of each case for itself.
        """
        troubles = []
        for name, found in list(self._cases.objects.items()):
            noticed = () if found.status is None else found.status.noticed
            if any(map(_is_to_be_cancelled, noticed)):
                troubles.append(await borne(name, self._cancel(name, found, noticed)))
        return troubles

    async def _cancel(self, name: str, found: GpuCase, noticed: Sequence[Noticed]) -> None:
        left = []
        for one in noticed:
            if _is_to_be_cancelled(one):
                letters = letters_of(one, name, await readers_of(one.job, self._cluster))
                await self._send(name, letters)
                is_done = all((name, letter.to.pod.uid) in self._heard.untold for letter in letters)
                left.append(replace(one, cancelled_at=self._pace.clock.now()) if is_done else one)
            else:
                left.append(one)
        if tuple(left) != tuple(noticed):
            await self._save(found, left)

    async def _save(self, found: GpuCase, noticed: Sequence[Noticed]) -> None:
        operations = (
            {"op": "test", "path": "/metadata/resourceVersion", "value": found.head.version},
            {"op": "add", "path": "/status/noticed", "value": [write(one) for one in noticed]},
        )
        try:
            made = await self._cluster.patch(GPU_CASES, found.head.name, operations, subresource="status")
        except (Conflict, Refused):
            return
        self._cases.learn(made)

    async def _send(self, case: str, letters: Sequence[Letter]) -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        sent = [asyncio.ensure_future(self._write(case, one, gate)) for one in letters]
        try:
            if sent:
                await asyncio.wait(sent)
        finally:
            for one in sent:
                one.cancel()
            ended = await asyncio.gather(*sent, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _write(self, case: str, letter: Letter, gate: asyncio.Semaphore) -> None:
        pod = letter.to.pod
        async with gate:
            try:
                await self._cluster.patch(PODS, pod.name, _operations(letter), namespace=pod.namespace)
            except Conflict:
                pass  # written on again in the next round
            except (Refused, ObjectError) as error:
                self._heard.untold[(case, pod.uid)] = str(error)
                return
            self._heard.posted.add((case, pod.uid))


def _operations(letter: Letter) -> Sequence[Mapping[str, Any]]:
    text, to = write_notice(letter.notice), letter.to
    add: dict[str, Any] = {"op": "add", "path": _PATH, "value": text}
    if not to.has_annotations:
        add = {"op": "add", "path": "/metadata/annotations", "value": {NOTICE: text}}
    return (
        {"op": "test", "path": "/metadata/uid", "value": to.pod.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": to.version},
        add,
    )


def _is_to_be_cancelled(noticed: Noticed) -> bool:
    return noticed.withdrawn_at is not None and noticed.cancelled_at is None
