"""`gpuward drill GPU CODE`: a made-up fault is dealt with by the running agent, and what happens is told as it goes."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gpuward.cli import wiring
from gpuward.cli.desk import ask, on_cluster, story_lines, understood, whom_of
from gpuward.cli.objects import dumps
from gpuward.cli.times import shortened
from gpuward.isolation.kernel.text import shown
from gpuward.model.case import ENDED
from gpuward.ports import Refused

LOOK_SECONDS = 0.3
"""How often the agent is asked how far the drill is."""
BEGIN_SECONDS = 10.0
"""How long the agent may take to begin: it looks at the log for a second, and may be busy."""
_CODE = re.compile(r"(?:xid[: ]?)?([0-9]{1,5})", re.ASCII | re.IGNORECASE)


def drill(asked: argparse.Namespace) -> int:
    """Run the command; return 0 when the drill came to its end or no case is due, 1 when it still goes on."""
    code = _CODE.fullmatch(asked.code)
    if code is None:
        raise wiring.UsageError(f"{shortened(asked.code)!r} is no Xid code; give a number, such as 79")
    asked.cluster = asked.cluster or (asked.node is not None and asked.state_dir is None)
    one = whom_of(asked)
    if one.state_dir is None:
        asked.number = int(code[1])
        return on_cluster(asked)
    if asked.node is not None:
        raise wiring.UsageError(f"{asked.node} is no word of a drill on one server: gpuward drill GPU CODE")
    asked.state_dir = one.state_dir
    request = {"ask": "drill", "name": asked.gpu, "code": int(code[1]), "mode": asked.mode}
    heard = ask(one, request)
    if heard.get("case") is None:
        _say(heard, f"{heard['because']} It is graded {heard['level']}: no case would be opened.", as_json=asked.json)
        return 0
    with understood():
        story = _followed(asked, heard["case"])
    over = story["state"] in set(map(str, ENDED))
    if asked.json:
        sys.stdout.write(f"{dumps({**heard, **story, 'over': over})}\n")
    elif not over:
        sys.stdout.write(
            f"the drill is {story['state']} and goes on: `gpuward why {heard['case']}` tells how, "
            f"`gpuward release {heard['case']}` ends it\n"
        )
    return 0 if over else 1


def _followed(asked: argparse.Namespace, case: str) -> Mapping[str, Any]:
    """Tell what happens until the case has ended or the patience has; return the story."""
    clock = wiring.clock()
    begun = clock.monotonic()
    end = begun + asked.wait_seconds
    told = 0
    while True:
        story = _story(asked, case, patient=clock.monotonic() < begun + BEGIN_SECONDS)
        if story is None:
            clock.sleep(LOOK_SECONDS)
            continue
        if not asked.json:
            for line in _news(story, told):
                sys.stdout.write(f"{shown(line)}\n")
            sys.stdout.flush()
        told = len(story["happenings"])
        if story["state"] in set(map(str, ENDED)) or clock.monotonic() >= end:
            return story
        clock.sleep(LOOK_SECONDS)


def _story(asked: argparse.Namespace, case: str, *, patient: bool) -> Mapping[str, Any] | None:
    """Return the story so far; None while the agent has not begun, for which a patient one waits."""
    try:
        return wiring.ask_agent(asked.state_dir, {"ask": "why", "name": case})
    except Refused:
        if patient:
            return None
        raise


def _news(story: Mapping[str, Any], told: int) -> Iterator[str]:
    for one in story["happenings"][told:]:
        yield from story_lines(one, wiring.zone(None))


def _say(value: Mapping[str, Any], sentence: str, *, as_json: bool) -> None:
    sys.stdout.write(f"{dumps(value)}\n" if as_json else f"{shown(sentence)}\n")
