"""The stub nvidia-smi: reads its arguments, picks the command and prints the answer. What commands do is not here.

Run as `python -m gpuward.sim.machines.smi --machine DIR ARGUMENTS`. It uses little of the
standard library and nothing else, for monitoring starts the real one often.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from gpuward.sim.machines import act, answer, holders, lists, show, store
from gpuward.sim.machines.answer import Answer, Chosen
from gpuward.sim.machines.state import MachineState

_ALIASES = {
    "-L": "list",
    "--list-gpus": "list",
    "-q": "query",
    "--query": "query",
    "-x": "xml",
    "--xml-format": "xml",
    "-r": "reset",
    "--gpu-reset": "reset",
    "--version": "version",
    "-i": "id=",
    "--id": "id=",
    "-pm": "persistence=",
    "--persistence-mode": "persistence=",
    "--query-gpu": "query-gpu=",
    "--format": "format=",
}
_SUBCOMMANDS: Mapping[str, Mapping[str, str]] = {
    "drain": {"-p": "pci=", "--pciid": "pci=", "-m": "modify=", "--modify": "modify=", "-q": "ask", "--query": "ask"},
    "topo": {"-m": "matrix", "--matrix": "matrix"},
    "nvlink": {"-s": "status", "--status": "status", "-i": "id=", "--id": "id="},
}
_COMMANDS = ("version", "list", "query-gpu", "query", "persistence", "reset")
"""In the order in which the first one given is taken."""

_MODES = {"0": False, "1": True}


def main(arguments: Sequence[str]) -> int:
    """Carry out one call, print its answer and return its exit code."""
    folder, words = arguments[1], arguments[2:]
    machine = store.read(folder)
    name, options = parse(words)
    if name in machine.hanging:
        _hang()
    said = _answer(folder, machine, name=name, options=options) if options is not None else _invalid(words)
    sys.stdout.write(said.text)
    return said.code


def parse(words: Sequence[str]) -> tuple[str, dict[str, str] | None]:
    """Return the command and its options; the options are None where a word is unknown or lacks its value."""
    if words and words[0] in _SUBCOMMANDS:
        return words[0], _options(words[1:], _SUBCOMMANDS[words[0]])
    options = _options(words, _ALIASES)
    given = [name for name in _COMMANDS if options and name in options]
    return (given[0], options) if given else ("", None)


def _options(words: Sequence[str], known: Mapping[str, str]) -> dict[str, str] | None:
    options: dict[str, str] = {}
    rest = list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        name = known.get(word)
        if name is None:
            return None
        if name.endswith("=") and not equals:
            if not rest:
                return None
            value = rest.pop(0)
        options[name.rstrip("=")] = value
    return options


def _answer(folder: str, machine: MachineState, *, name: str, options: Mapping[str, str]) -> Answer:
    if not machine.loaded:
        return answer.NO_DRIVER
    if name == "version":
        return Answer(lists.version(machine))
    if name == "drain":
        return _drain(folder, machine, options)
    if name in ("persistence", "reset"):
        return _change(folder, name, options)
    return _read(folder, machine, name=name, options=options)


def _read(folder: str, machine: MachineState, *, name: str, options: Mapping[str, str]) -> Answer:
    chosen = answer.choose(machine, options.get("id"), holders.of(f"{folder}/dev") if name == "query" else {})
    if name != "query-gpu":
        draw = _DRAWN[name + ("-x" if "xml" in options else "")]
        return show.readable(machine, chosen, lambda ones: draw(machine, ones))
    shape = [part.strip() for part in options.get("format", "").split(",")]
    if "csv" not in shape:
        return Answer('"--format=csv" switch is missing.\n', answer.INVALID)
    names = [part.strip() for part in options[name].split(",")]
    return show.fields(machine, chosen, names=names, shape=shape)


_DRAWN: Mapping[str, Callable[[MachineState, Sequence[Chosen]], str]] = {
    "list": lists.gpus,
    "query": show.query,
    "query-x": show.query_xml,
    "topo": lists.topology,
    "nvlink": lists.nvlinks,
}


def _drain(folder: str, machine: MachineState, options: Mapping[str, str]) -> Answer:
    if "pci" not in options or ("ask" in options) == (options.get("modify") in _MODES):
        return _invalid(["drain"])
    if "ask" in options:
        return act.drained(machine, options["pci"])
    on = _MODES[options["modify"]]
    said = _changing(folder, lambda now: act.drain(now, options["pci"], on=on))
    gpu = act.named(machine, options["pci"])
    if gpu is not None and not machine.holds("drain-files"):
        _move_device(f"{folder}/dev/nvidia{gpu.minor}", away=on and not said.code)
    return said


def _move_device(path: str, *, away: bool) -> None:
    """Take a device file away, or put it back."""
    there, gone = (path, f"{path}.gone") if away else (f"{path}.gone", path)
    if os.path.exists(there):  # noqa: PTH110  no pathlib: start-up
        os.rename(there, gone)  # noqa: PTH104  as above


def _change(folder: str, name: str, options: Mapping[str, str]) -> Answer:
    ids = options.get("id")
    if name == "persistence":
        if options[name] not in _MODES:
            return _invalid(["-pm"])
        on = _MODES[options[name]]
        return _changing(folder, lambda now: act.persistence(now, answer.choose(now, ids, {}), on=on))
    held = holders.of(f"{folder}/dev")
    return _changing(
        folder,
        lambda now: act.reset(now, answer.choose(now, ids, held, hidden_too=not now.holds("reset-not-drained"))),
    )


def _changing(folder: str, to: Callable[[MachineState], tuple[MachineState, Answer]]) -> Answer:
    """Change the state with nobody in between, and return what was answered."""
    said: list[Answer] = []

    def changed(now: MachineState) -> MachineState:
        then, answered = to(now)
        said.append(answered)
        return then

    store.change(folder, changed)
    return said[0]


def _invalid(words: Sequence[str]) -> Answer:
    first = words[0] if words else ""
    return Answer(
        f"Invalid combination of input arguments: {first}. Please run 'nvidia-smi -h' for help.\n", answer.INVALID
    )


def _hang() -> None:
    """Never answer, as a tool does that waits in the driver; a kill ends it."""
    while True:
        time.sleep(60)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # No need to take the interpreter down piece by piece: a call is short and nothing is open.
