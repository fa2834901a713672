"""The words of `gpuward install`, `uninstall` and `preflight`, apart from them so that a parser costs nothing else."""

from typing import TYPE_CHECKING

from gpuward.cli.command_args import add_command
from gpuward.cli.controller_args import add_namespace
from gpuward.cli.desk_args import ONLY_CLUSTER
from gpuward.model.case import Mode

if TYPE_CHECKING:
    import argparse

_INSTALL = """\
Print everything that gpuward needs in a Kubernetes cluster, in the order in which it is applied: namespace, kinds of
objects, admission policy, service accounts, rights, lanes at the API server, settings, the agent for every GPU server,
the controller. Nothing is changed: `kubectl apply -f -` does that."""
_INSTALL_END = """\
The mode is observe unless you say otherwise: it tells what it would do, and does nothing. The agent goes to nodes with
hardware of PCI vendor 10de, by the labels of Node Feature Discovery; without that, label them yourself:
`kubectl label node NODE gpuward.io/gpus=present`. API server 1.30 or later.

exit code: 0 printed; 2 wrong usage or settings.

examples:
  gpuward install --image registry.example.com/gpuward:0.1 | kubectl apply -f -
  gpuward install --config gpuward.toml --image registry.example.com/gpuward:0.1 | kubectl apply -f -"""
_UNINSTALL = """\
Take gpuward off a Kubernetes cluster: the programs first, then every taint, label, annotation and condition that it
put on nodes and pods, then its objects. What others put there stays, as does what people did to it since."""
_UNINSTALL_END = """\
GPUs that are out of service are only let go by their agents: while a case is open, nothing is taken away; release it
first. With --force it is all the same, and each of those GPUs is named with the command that lets it go by hand. A
second run finishes what a broken one began.

exit code: 0 all is gone; 1 all is gone but what is named; 2 wrong usage, or nobody to ask and no --yes; 3 the cluster
cannot be reached or says no, or cases are open.

examples:
  gpuward uninstall
  gpuward uninstall --kubeconfig ~/.kube/config --yes
  gpuward uninstall --print"""
_PREFLIGHT = """\
Say what would go wrong with gpuward on a Kubernetes cluster, before it does: DaemonSets of the GPU stack whose pods
would not come back under our taints, with the tolerations to add; kinds, policy, rights that are missing or of another
version; agents and a leader that are not there; budgets that hold pods for ever; other software that acts on nodes."""
_PREFLIGHT_END = """\
It looks only, with the rights of the user of the kubeconfig, and changes nothing. Run it before the installation too.

exit code: 0 nothing that blocks; 1 something that blocks; 2 wrong usage; 3 the cluster cannot be reached or says no.

examples:
  gpuward preflight
  gpuward preflight --kubeconfig ~/.kube/config --json"""


def add_install(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser."""
    install = add_command(commands, "install", brief="print what a cluster needs", text=_INSTALL, end=_INSTALL_END)
    install.add_argument(
        "--image", metavar="IMAGE", help="the image of agents and controllers (default: gpuward:VERSION)"
    )
    install.add_argument(
        "--mode",
        choices=[str(mode) for mode in Mode],
        help="how far gpuward may go by itself (default: observe; not together with --config, which says it)",
    )
    install.add_argument("--config", metavar="FILE", help="settings for agents and controllers; checked, then carried")
    install.add_argument(
        "--reboot",
        action="store_true",
        help="let the controller make privileged Jobs that reboot nodes (default: where the settings enable it)",
    )
    install.add_argument("--json", action="store_true", help="one JSON object, a List, instead of YAML")
    uninstall = add_command(
        commands, "uninstall", brief="take gpuward off a cluster", text=_UNINSTALL, end=_UNINSTALL_END
    )
    uninstall.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster (default: $KUBECONFIG, else ~/.kube/config)"
    )
    uninstall.add_argument("--yes", action="store_true", help="do not ask")
    uninstall.add_argument("--force", action="store_true", help="also while cases are open")
    uninstall.add_argument("--print", action="store_true", help="print the deletions as kubectl commands, do none")
    uninstall.add_argument(
        "--json", action="store_true", help="what was taken away, and what stays, as one JSON object"
    )
    preflight = add_command(
        commands, "preflight", brief="what would go wrong on a cluster", text=_PREFLIGHT, end=_PREFLIGHT_END
    )
    preflight.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster (default: $KUBECONFIG, else ~/.kube/config)"
    )
    preflight.add_argument(
        "--config",
        metavar="FILE",
        help="settings that say our taint (default: those in the cluster, else the defaults)",
    )
    preflight.add_argument("--json", action="store_true", help="the findings as one JSON object")
    for command in (uninstall, preflight):
        command.add_argument("--cluster", action="store_true", help=ONLY_CLUSTER)
    for command in (install, uninstall, preflight):
        add_namespace(command)
