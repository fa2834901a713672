"""`gpuward qualify`: a try on an idle GPU, told as it goes. The try itself is in agent.qualify."""

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator

from gpuward.agent.candidate import Candidate, choose, services_on
from gpuward.agent.qualify import Ways
from gpuward.agent.qualify import qualify as try_on
from gpuward.agent.unfinished import undo_unfinished
from gpuward.cli import wiring
from gpuward.cli.objects import dumps
from gpuward.cli.watch import Stop
from gpuward.cli.wiring.qualifying import QualifyGear, qualify_gear
from gpuward.isolation.kernel.text import shown
from gpuward.model.qualified import BY_ID, Finding, Qualification, with_qualification
from gpuward.ports import Refused

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOLDS = {True: "true", False: "false", None: "not known"}
_COLUMNS = "{holds:<10}{needed:<8}{id:<25}{sentence}"
_WHY = " " * 43 + "({why})"


def qualify(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code: 0 qualified, 1 not."""
    if not asked.yes and not _can_ask():
        raise wiring.UsageError("this drains and resets a GPU, and nobody can be asked here: say --yes")
    with qualify_gear(asked) as gear:
        _undo_what_was_left(gear)
        gpu = choose(asked.gpu, gear.server, gear.undoing.driver, gear.holders)
        if not gear.probe.may_act(gpu.reading.pci):
            raise Refused("nvidia-smi does not let this user drain a GPU; run as root")
        if not asked.yes and not _agreed(gpu, services_on(gpu, gear.holders)):
            raise Refused("nothing was done, as you said")
        done = _tried(asked, gear, gpu)
        gear.qualified.save(with_qualification(gear.qualified.load(), done))
    _say_verdict(done, as_json=asked.json)
    return 0 if done.qualified else 1


def _tried(asked: argparse.Namespace, gear: QualifyGear, gpu: Candidate) -> Qualification:
    if not asked.json:
        _print(_COLUMNS.format(holds="HOLDS", needed="NEEDED", id="BELIEF", sentence="IT SAYS"))
    with _stopping() as stop:
        ways = Ways(
            undoing=gear.undoing,
            holders=gear.holders,
            probe=gear.probe,
            note=_note,
            tell=(lambda _: None) if asked.json else _tell,
            stopped=lambda: stop.asked,
        )
        findings = try_on(gpu, ways)
    return Qualification(
        model=gpu.model,
        driver=gpu.driver_version,
        at=gear.undoing.clock.now(),
        uuid=gpu.uuid,
        findings=findings,
    )


def _undo_what_was_left(gear: QualifyGear) -> None:
    undone = undo_unfinished(gear.undoing)
    for sentence in undone.done:
        _note(f"a qualify before this one did not end: {sentence}")
    if undone.trouble:
        raise Refused(f"what a qualify before this one left cannot be undone: {'; '.join(undone.trouble)}")


@contextlib.contextmanager
def _stopping() -> Iterator[Stop]:
    """Note the signals that end a program, that of a closed terminal too: a step is finished, then all is put back."""
    stop = Stop()
    old = {number: signal.signal(number, stop.note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _agreed(gpu: Candidate, services: tuple[str, ...]) -> bool:
    """Ask a person at the terminal; the end of the input is a no."""
    meanwhile = f" Stopped meanwhile: {', '.join(services)}." if services else ""
    name = f"GPU {gpu.reading.pci} ({gpu.model}, {gpu.uuid}, driver {gpu.driver_version})"
    sys.stderr.write(shown(f"This drains and resets {name}.{meanwhile} Go on? [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _note(sentence: str) -> None:
    """Tell what goes on; that nobody reads it must not keep anything from being put back."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"gpuward: {shown(sentence)}\n")
        sys.stderr.flush()


def _tell(finding: Finding) -> None:
    belief = BY_ID[finding.belief]
    needed = "needed" if belief.needed else ""
    _print(
        _COLUMNS.format(holds=_HOLDS[finding.holds], needed=needed, id=belief.id, sentence=belief.sentence),
        *((_WHY.format(why=finding.why),) if finding.why else ()),
    )


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{shown(line)}\n" for line in lines))
    sys.stdout.flush()


def _say_verdict(done: Qualification, *, as_json: bool) -> None:
    if as_json:
        _print(dumps(done.packed()))
        return
    where = f"{done.model} with driver {done.driver}"
    missing = [one.belief for one in done.findings if BY_ID[one.belief].needed and one.holds is not True]
    if done.qualified:
        _print(f"qualified: on {where} the agent may reset")
    else:
        _print(
            f"not qualified: on {where} the agent resets nothing by itself, for not found true: {', '.join(missing)}"
        )
