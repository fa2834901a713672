"""Every command and option with its help text: the parser, and what the reference page is made from."""

import argparse
import shlex
from collections.abc import Sequence

from gpuward import __version__
from gpuward.cli.command_args import add_command
from gpuward.cli.controller_args import add_controller, add_kubeconfig
from gpuward.cli.desk_args import add_desk
from gpuward.cli.install_args import add_install
from gpuward.cli.qualify_args import add_qualify
from gpuward.cli.sim_args import add_sim
from gpuward.isolation.kernel.text import shown
from gpuward.model.case import Mode
from gpuward.model.level import LEVELS

PROFILES = ("default", "nvidia", "intent")
STATE_DIR = "/var/lib/gpuward"

_SCAN = """\
Read kernel logs and tell, for every GPU, what happened, how bad it is, whose fault it was, why, and what to do.

FILE is a kernel log in any shape: raw dmesg, dmesg -T or -x, /dev/kmsg records, pstore, syslog (RFC 3164 and 5424),
journalctl short, short-iso, short-precise or json, Talos; plain, gzipped, or an nvidia-bug-report. `-` is standard
input, and what is read when no FILE is given. Rotated logs may be named in any order."""
_SCAN_END = """\
exit code: 0 nothing at P0 or P1 among what is shown; 1 something at P0 or P1; 2 wrong usage or settings; 3 an input
could not be read (it is named, the others are read; 3 wins over 1) or the output could not be written.

examples:
  gpuward scan /var/log/kern.log*
  dmesg | gpuward scan --boot-time auto
  journalctl -k -o json | gpuward scan --level P1 --json -"""
_WATCH = """\
Follow the kernel log of this machine and tell each fault the moment it begins, worsens, or is explained by another:
which GPU, how bad, under which process and pod, whose fault, and what to do. It changes nothing on the machine."""
_WATCH_END = """\
With --state-dir a restart goes on where it stopped, and tells nothing twice; a folder serves one watch or
agent at a time. Ends on SIGINT or SIGTERM. A FILE that is not there yet is waited for.

exit code: 0 ended by a signal; 2 wrong usage or settings; 3 the log cannot be read, or another watch or agent uses the
state folder.

examples:
  gpuward watch
  gpuward watch --kernel-log journal --json
  gpuward watch --kernel-log /var/log/kern.log --state-dir /var/lib/gpuward"""
_EXPLAIN = """\
Say what a code or a log line means, decoded to the bit, with the grade in a profile and the rules that could change it.

WHAT is a code (79, xid:79, SXid12028), a fault kind (rm_init_failed), a rule (R-origin), or a log line in quotes, in
any shape."""
_EXPLAIN_END = """\
exit code: 0 explained; 1 the code, rule or line is not known; 2 wrong usage or settings.

examples:
  gpuward explain 79
  gpuward explain sxid:12028 --json
  gpuward explain R-origin
  gpuward explain 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.'
  gpuward explain --list --profile nvidia"""


_AGENT = """\
Follow the kernel log of this server, and take a faulty GPU out of service: keep evidence, drain it, wait until its work
has ended, reset it, prove it healthy, return it. How far it goes is --mode; the default only says what it would do."""
_AGENT_END = """\
On a node of a cluster (no --standalone) it tells the cluster of its GPUs and their faults, and does what the controller
orders, in the mode that the controller says; `gpuward status` answers there too, all else is in the cluster's objects.

Everything done is written to journal.jsonl in the state folder, evidence to evidence/. `gpuward status`, `why`,
`release` and `retry` talk to the running agent.

exit code: 0 ended by a signal (with --once: every GPU is active); 1 with --once, a GPU is not active or none is seen;
2 wrong usage or settings; 3 the log cannot be read, or the state folder not used.

examples:
  gpuward agent --standalone --once
  gpuward agent --standalone
  gpuward agent --standalone --mode repair --state-dir /var/lib/gpuward
  gpuward agent --node gpu-17 --kubeconfig /etc/gpuward/kubeconfig"""
KUBELET_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
MOST_SECONDS = 1e7
LEAST_PACE_SECONDS = 0.1
"""GPUs are not read more often than this, and a reading has at least so long."""


class _Command(argparse.ArgumentParser):
    """The parser of one command: what it does not know is told with the usage of that command."""

    def parse_known_args(  # type: ignore[override]  # the base class has overloads, all of which this serves
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return what was asked; end with a sentence where there is more."""
        asked, more = super().parse_known_args(args, namespace)
        if more:
            self.error(f"unrecognized arguments: {' '.join(map(shown, more))}")
        return asked, more


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="gpuward",
        description="GPU faults in kernel logs: what happened, how bad, whose fault, what to do.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gpuward {__version__}")
    each: type[argparse.ArgumentParser] = _Command
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=each)
    _add_scan(commands)
    _add_watch(commands)
    _add_explain(commands)
    _add_agent(commands)
    add_desk(commands, state_dir=STATE_DIR, seconds=_seconds)
    add_qualify(commands, state_dir=STATE_DIR)
    add_controller(commands)
    add_install(commands)
    add_sim(commands)
    return parser


def _add_scan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    scan = add_command(commands, "scan", brief="read kernel logs and judge every fault", text=_SCAN, end=_SCAN_END)
    scan.add_argument("files", nargs="*", metavar="FILE", help="a log, or - for standard input (default: -)")
    scan.add_argument("--json", action="store_true", help="one JSON object a fault (with --lines: a line)")
    scan.add_argument("--lines", action="store_true", help="every recognised line, before they are merged into faults")
    scan.add_argument("--all", action="store_true", help="also what is graded ignore (with --lines: driver chatter)")
    scan.add_argument(
        "--level",
        choices=list(reversed(LEVELS)),
        metavar="LEVEL",
        help="only faults of this level or worse: P0, P1, P2, ignore",
    )
    scan.add_argument(
        "--since", metavar="TIME", help="only what went on after TIME: 2026-11-30, '2026-11-30 03:12', 2h"
    )
    scan.add_argument("--until", metavar="TIME", help="only what began before TIME")
    scan.add_argument("--node", metavar="NAME", type=shown, help="the machine's name, for lines that carry none")
    _add_clock(scan)
    scan.add_argument(
        "--boot-time",
        metavar="TIME",
        help="when the machine started, for lines with an uptime only; auto: this machine's",
    )
    _add_judgement(scan)


def _add_watch(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    watch = add_command(commands, "watch", brief="follow this machine's kernel log", text=_WATCH, end=_WATCH_END)
    watch.add_argument(
        "--kernel-log",
        metavar="LOG",
        help="/dev/kmsg, journal, or a FILE that is written to (default: /dev/kmsg where readable, else journal)",
    )
    watch.add_argument("--state-dir", metavar="DIR", help="where the place in the log and open faults are kept")
    watch.add_argument(
        "--accept-user-records",
        action="store_true",
        help="let records that the kernel did not write act too; for tests and drills only",
    )
    watch.add_argument("--json", action="store_true", help="one JSON object a change")
    watch.add_argument("--node", metavar="NAME", type=shown, help="the name of this machine (default: its host name)")
    watch.add_argument("--proc-root", metavar="DIR", default="/proc", help="where /proc is mounted (default: /proc)")
    _add_clock(watch)
    _add_judgement(watch)


def _add_explain(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    explain = add_command(commands, "explain", brief="say what a code or line means", text=_EXPLAIN, end=_EXPLAIN_END)
    explain.add_argument(
        "what", nargs="?", metavar="WHAT", help="a code, a fault kind, a rule, or a log line in quotes"
    )
    explain.add_argument("--list", action="store_true", help="list every code, fault kind and rule with its grade")
    explain.add_argument("--json", action="store_true", help="the same as JSON")
    _add_judgement(explain)


def _add_agent(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    agent = add_command(commands, "agent", brief="take faulty GPUs out and back", text=_AGENT, end=_AGENT_END)
    agent.add_argument("--standalone", action="store_true", help="work on this server alone, without a cluster")
    add_kubeconfig(agent)
    agent.add_argument(
        "--mode",
        choices=[str(mode) for mode in Mode],
        help="observe says what it would do, isolate drains, repair also resets (default: the settings', else observe)",
    )
    agent.add_argument(
        "--kernel-log",
        metavar="LOG",
        help="/dev/kmsg, journal, or a FILE that is written to; to most such files any user can have lines written",
    )
    _add_state_dir(agent)
    agent.add_argument(
        "--accept-user-records",
        action="store_true",
        help="let records that the kernel did not write act too; for tests and drills only",
    )
    agent.add_argument("--once", action="store_true", help="read the GPUs, say how they are, and end")
    agent.add_argument("--print-unit", action="store_true", help="print a systemd unit, and end")
    agent.add_argument("--json", action="store_true", help="one JSON object a happening")
    agent.add_argument("--node", metavar="NAME", type=shown, help="the name of this machine (default: its host name)")
    agent.add_argument(
        "--kubelet-socket",
        metavar="FILE",
        default=KUBELET_SOCKET,
        help="on a node of a cluster, where its kubelet tells which pod has which GPU (default: %(default)s)",
    )
    agent.add_argument(
        "--probation-seconds",
        metavar="SECONDS",
        type=_seconds,
        help="how long a repaired GPU must stay without a new fault (default: the settings', else 1800)",
    )
    agent.add_argument(
        "--check-command",
        metavar="COMMAND",
        type=_command_words,
        help="your own proof of a repaired GPU; it must end with 0 (see GPUWARD_GPU_UUID in the agent's page)",
    )
    agent.add_argument(
        "--check-seconds",
        metavar="SECONDS",
        type=_seconds,
        help="how long that may take (default: the settings', else 600)",
    )
    agent.add_argument(
        "--poll-seconds",
        metavar="SECONDS",
        type=_pace,
        help="how often GPUs are read (default: the settings', else 30)",
    )
    agent.add_argument(
        "--read-seconds",
        metavar="SECONDS",
        type=_pace,
        help="how long a reading may take (default: the settings', else 20)",
    )
    agent.add_argument(
        "--dcgm-url",
        metavar="URL",
        type=_url,
        help="a dcgm-exporter, such as http://localhost:9400/metrics; it fills in what the driver's tools do not tell",
    )
    agent.add_argument(
        "--force",
        dest="reset_unqualified",
        action="store_const",
        const=True,
        help="also reset GPUs of a model and driver that were never qualified",
    )
    agent.add_argument(
        "--work-on-displays",
        action="store_const",
        const=True,
        help="also drain and reset GPUs that drive a display",
    )
    agent.add_argument("--proc-root", metavar="DIR", default="/proc", help="where /proc is mounted (default: /proc)")
    agent.add_argument("--dev-root", metavar="DIR", default="/dev", help="where /dev is mounted (default: /dev)")
    agent.add_argument("--sys-root", metavar="DIR", default="/sys", help="where /sys is mounted (default: /sys)")
    _add_clock(agent)
    _add_judgement(agent)


def _add_state_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--state-dir", metavar="DIR", default=STATE_DIR, help=f"the agent's state folder (default: {STATE_DIR})"
    )


def _command_words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is no command ({error})") from error
    if not words:
        raise argparse.ArgumentTypeError("must name a program")
    return words


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError("must begin with http:// or https://")
    return text


def _seconds(text: str) -> float:
    value = _number(text)
    if value is None or not 0 <= value < MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, less than {MOST_SECONDS:.0f}")
    return value


def _pace(text: str) -> float:
    value = _number(text)
    if value is None or not LEAST_PACE_SECONDS <= value < MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"must be a number of seconds, {LEAST_PACE_SECONDS:g} or more, less than {MOST_SECONDS:.0f}"
        )
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _add_clock(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--timezone",
        metavar="ZONE",
        help="zone of stamps without one and of times shown: Europe/Berlin, UTC, +08:00 (default: this machine's)",
    )


def _add_judgement(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--profile",
        choices=PROFILES,
        help="whose grades: default (the mission's), nvidia (the catalogue's), intent (default: from the settings)",
    )
    command.add_argument(
        "--config",
        metavar="FILE",
        help="settings: levels, classes, windows (default: /etc/gpuward/gpuward.toml where it exists)",
    )
