"""The agent killed at any save and any call to the driver: in the end all is done once, and told once."""

from collections.abc import Callable
from typing import Any

import pytest

from gpuward.model.case import EffectKind, Outcome
from tests.agent_member.node import Node
from tests.kit.merging import GPU_A
from tests.kit.pretend import PretendStore
from tests.kit.pretend_driver import PretendDriver

KINDS = (EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.RESET, EffectKind.VERIFY)


class Killed(Exception):
    """The agent was killed at this moment."""


class Reaper:
    """Kills at the call of this number, counted over saves and calls to the driver, before it is done or after it."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._left = number
        self._after = after
        self.has_killed = False

    def over(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call as it is with the reaper beside it."""

        def reaped(*args: Any, **options: Any) -> Any:
            self._left -= 1
            falls = self._left == 0
            self.has_killed = self.has_killed or falls
            if falls and not self._after:
                raise Killed
            answer = call(*args, **options)
            if falls:
                raise Killed
            return answer

        return reaped


async def _lives(node: Node) -> None:
    """Let time pass, and start the agent anew when it is killed."""
    end = node.time.passed + 3
    while node.time.passed < end:
        try:
            if node.member is None:
                await node.restart()
            await node.live(end - node.time.passed)
        except Killed:
            await node.kill()
            node.member = None


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 21))
async def test_killed_at_any_call_it_does_all_once(number: int, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reaper = Reaper(number, after=moment == "after")
    monkeypatch.setattr(PretendStore, "save", reaper.over(PretendStore.save))
    for name in ("set_drained", "set_persistence", "reset", "describe"):
        monkeypatch.setattr(PretendDriver, name, reaper.over(getattr(PretendDriver, name)))
    node = Node()
    node.lead()
    node.writes("usb 1-1: a line of no interest, after which the log is gone on with")
    await _lives(node)
    node.xid(48)
    orders = [node.order(count, kind) for count, kind in enumerate(KINDS, 1)]
    for count in range(1, len(orders) + 1):
        node.want(*orders[:count])
        await _lives(node)
    await _lives(node)
    assert {one.id: one.outcome for one in node.answers().values()} == {one.id: Outcome.DONE for one in orders}
    assert node.driver.done_resets == 1
    assert GPU_A not in node.driver.drained
    assert [fault.spec.code for fault in node.faults() if fault.spec.code] == [48]
    assert reaper.has_killed
    await node.end()
