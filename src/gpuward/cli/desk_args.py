"""The options of what people ask and order: of the agent of one server, or of a cluster, by the same words."""

import argparse
from collections.abc import Callable

from gpuward.cli.command_args import add_command
from gpuward.cli.controller_args import add_namespace
from gpuward.model.case import Mode

Seconds = Callable[[str], float]
_WHOM = """

On a server it asks the running agent by its socket; --state-dir names another one. With --kubeconfig, --cluster or
KUBECONFIG it asks the cluster. Where both could be meant it says which was taken."""
_OF_CLUSTER = "2 wrong usage; 3 the cluster cannot be reached or says no."
_ASKED = "exit code: 0 answered; 2 wrong usage; 3 no agent or cluster answers, or it says no."
_ORDERED = (
    "exit code: 0 heard; 1 the controller of the cluster has not heard it within --wait-seconds, and will later; "
    "2 wrong usage; 3 no\nagent or cluster answers, or it says no."
)
_STATUS = """\
Say of the running agent its mode, and of each GPU its state, level, work, what comes next, and how to undo it. Of a
cluster: who leads, the modes, nodes, GPUs, silent agents, standby pools, and each open case."""
_STATUS_END = """\
exit code: 0 all is well: of a server every GPU is active; of a cluster also no case is open, a controller leads,
every agent lives, no standby pool is short, and it is not paused. 1 it is not, or no GPU is seen; 2 wrong usage; 3 no
agent or cluster answers."""
_WHY = """\
Tell a case from the line in the log to what was done and is due. On a cluster NAME is a case, a node (its open
cases), a GPU as NODE/NUMBER, NODE/ADDRESS or UUID, or a fault; told are line, row, rule, plan, steps, pods, proof and
timeline."""
_RELEASE = """\
Give a person's word that a GPU is to be let go: its drain is lifted, services and persistence mode are put back, its
case is closed. On a cluster NAME is a case, or a node for every open case of it; its taint is taken away too."""
_RETRY = "Ask for another try of a parked case, in mode repair."
_APPROVE = "Give a person's word that a case may go ahead, where nothing is done without one (approval)."
_OFF = """\
Give a person's word that the node of a case is off: nothing runs there any more, and its pods may be deleted. For a
case of a node that stopped answering; a node that answers is not off, whatever was said."""
_CASES = "List the cases of a cluster that are open: where, how bad, in which state, since when, what comes next."
_NODES = "List the GPU servers of a cluster: their GPUs by state, mode, cases, agent, and when it was heard of."
_REPORT = """\
Tell what came of the faults of a while, by code and class: which GPUs were taken out, or would have been in mode
observe, whose pods were on them, what was withheld and why, and which faults called for no case."""
_PAUSE = """\
A person's brake on the whole fleet: nothing new is isolated until `gpuward resume`. Recoveries and open cases go on. It
is kept in the ConfigMap gpuward-pause."""
_RESUME = "End the pause: what came meanwhile and still stands is decided now."
_DRILL = """\
Rehearse a fault: a made-up Xid of a GPU is dealt with as a real one, from the line to the end of its case, and nothing
is changed: evidence is kept, readings are taken, and of every other step it is said what would be done. A real fault on
that GPU ends the drill at once; no drill counts for the brake or the budget. On a cluster the node is named too: a case
that is marked as a drill is opened, the controller moves it, the agent rehearses; this command may be killed."""
_DRILL_END = """\
exit code: 0 the drill came to its end (on a cluster: as it should, nothing in vain), or the code opens no case; 1 it
did not, or still goes on after --wait-seconds; 2 wrong usage; 3 no agent or cluster answers, or it says no.

examples:
  gpuward drill 0 79
  gpuward drill 0000:3b:00 48 --mode repair
  gpuward drill GPU-5eed0000-7a1e-4c3d-9b2f-c0ffee000000 31 --json
  gpuward drill gpu-17 5 79"""
WAIT_SECONDS = 30.0
ONLY_CLUSTER = "ask the cluster, as this command does without it too"


def add_desk(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state_dir: str, seconds: Seconds
) -> None:
    """Add the commands to a parser. `seconds` reads a number of seconds."""
    _add_looks(commands, state_dir)
    _add_orders(commands, state_dir, seconds)
    _add_pauses(commands)
    _add_drill(commands, state_dir, seconds)


def _add_looks(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", state_dir: str) -> None:
    status = add_command(
        commands, "status", brief="how the agent or the fleet is", text=_STATUS + _WHOM, end=_STATUS_END
    )
    _add_whom(status, state_dir)
    why = add_command(commands, "why", brief="the whole story of a case", text=_WHY + _WHOM, end=_ASKED)
    why.add_argument("name", metavar="NAME", help="a GPU by number, address or UUID, or a case; on a cluster see above")
    why.add_argument(
        "--ticket", action="store_true", help="on a cluster, what a person needs who takes over: the text of a ticket"
    )
    _add_whom(why, state_dir)
    end = f"exit code: 0 answered; {_OF_CLUSTER}"
    cases = add_command(commands, "cases", brief="the cases of a cluster", text=_CASES, end=end)
    cases.add_argument("--all", action="store_true", help="those that have ended too")
    cases.add_argument("--node", metavar="NAME", help="only those of a node")
    _add_cluster(cases)
    nodes = add_command(commands, "nodes", brief="the GPU servers of a cluster", text=_NODES, end=end)
    _add_cluster(nodes)
    report = add_command(commands, "report", brief="what came of the faults of a while", text=_REPORT, end=end)
    report.add_argument(
        "--since", metavar="TIME", default="7d", help="from when: 2026-11-30, '2026-11-30 03:12', 2h (default: 7d)"
    )
    _add_cluster(report)


def _add_orders(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", state_dir: str, seconds: Seconds
) -> None:
    approve = add_command(commands, "approve", brief="let a case of a cluster go ahead", text=_APPROVE, end=_ORDERED)
    approve.add_argument("name", metavar="CASE", help="the case")
    _add_word(approve, seconds)
    _add_cluster(approve)
    off = add_command(commands, "off", brief="say that a lost node is off", text=_OFF, end=_ORDERED)
    off.add_argument("name", metavar="CASE", help="the case of the node")
    _add_word(off, seconds)
    _add_cluster(off)
    named = "a GPU by number, address or UUID, or a case; on a cluster a case"
    release = add_command(
        commands, "release", brief="undo every mark of a case and close it", text=_RELEASE + _WHOM, end=_ORDERED
    )
    release.add_argument("name", nargs="?", metavar="NAME", help=f"{named} or a node")
    release.add_argument("--all", action="store_true", help="every open case of the agent of this server")
    retry = add_command(
        commands, "retry", brief="try the repair of a parked case again", text=_RETRY + _WHOM, end=_ORDERED
    )
    retry.add_argument("name", nargs="?", metavar="NAME", help=named)
    retry.add_argument(
        "--force", action="store_true", help="also a reset that was never qualified for this model and driver"
    )
    for command in (release, retry):
        _add_word(command, seconds)
        _add_whom(command, state_dir)


def _add_pauses(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    end = f"exit code: 0 it is so now; {_OF_CLUSTER}"
    pause = add_command(commands, "pause", brief="isolate nothing new on a cluster", text=_PAUSE, end=end)
    _add_reason(pause)
    _add_cluster(pause)
    resume = add_command(commands, "resume", brief="end the pause", text=_RESUME, end=end)
    _add_cluster(resume)


def _add_drill(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", state_dir: str, seconds: Seconds
) -> None:
    drill = add_command(commands, "drill", brief="rehearse a fault, harmlessly", text=_DRILL + _WHOM, end=_DRILL_END)
    drill.add_argument("node", nargs="?", metavar="NODE", help="the node, on a cluster only")
    drill.add_argument("gpu", metavar="GPU", help="a GPU by number, address or UUID")
    drill.add_argument("code", metavar="CODE", help="the Xid, such as 79")
    drill.add_argument(
        "--mode",
        choices=[str(mode) for mode in Mode],
        help="the mode that is rehearsed (default: the one that the agent or the node is in)",
    )
    drill.add_argument(
        "--wait-seconds",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long it is followed; it goes on after that (default: 60)",
    )
    drill.add_argument(
        "--config",
        metavar="FILE",
        help="settings by which the fault is graded on a cluster (default: /etc/gpuward/gpuward.toml where it exists)",
    )
    _add_whom(drill, state_dir)


def _add_word(command: argparse.ArgumentParser, seconds: Seconds) -> None:
    _add_reason(command)
    command.add_argument(
        "--wait-seconds",
        metavar="SECONDS",
        type=seconds,
        default=WAIT_SECONDS,
        help="on a cluster, how long it is waited for the controller to hear it (default: 30)",
    )


def _add_reason(command: argparse.ArgumentParser) -> None:
    command.add_argument("--because", metavar="TEXT", default="", help="why; on a cluster it is kept with the order")
    command.add_argument(
        "--by", metavar="NAME", default="", help="who says so, on a cluster (default: as the API server names you)"
    )


def _add_whom(command: argparse.ArgumentParser, state_dir: str) -> None:
    command.add_argument(
        "--state-dir", metavar="DIR", help=f"the state folder of the agent that is asked (default: {state_dir})"
    )
    _add_cluster(command, said="ask the cluster, also where an agent runs here")


def _add_cluster(command: argparse.ArgumentParser, *, said: str = ONLY_CLUSTER) -> None:
    command.add_argument("--cluster", action="store_true", help=said)
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="how to reach the cluster (default: KUBECONFIG, in a pod its own account, else ~/.kube/config)",
    )
    add_namespace(command, "gpuward's own namespace there")
    command.add_argument("--timezone", metavar="ZONE", help="zone of times shown (default: this machine's)")
    command.add_argument("--json", action="store_true", help="the answer as one JSON object")
