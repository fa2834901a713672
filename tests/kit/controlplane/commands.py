"""The command line of each part, and where it says that it is ready. Who starts it is plane.py."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.controlplane.parts import Part

LOCAL = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Site:
    """Where one control plane lives: its folder, and the ports it has so far."""

    folder: Path
    ports: dict[Part, int]

    def url(self, part: Part) -> str:
        """Return where a part answers."""
        scheme = "http" if part in {Part.ETCD, Part.KWOK} else "https"
        return f"{scheme}://{LOCAL}:{self.ports[part]}"

    def certificates(self, part: Part) -> Path:
        """Return the folder in which a part makes its own certificate."""
        return self.folder / f"{part}-certificates"

    def ca_file(self, part: Part) -> Path | None:
        """Return what to trust a part by: the certificate it made for itself, with the authority it made for that."""
        return None if self.url(part).startswith("http:") else self.certificates(part) / f"{_PAIRS[part]}.crt"

    def log(self, part: Part) -> Path:
        """Return the file of all that a part printed."""
        return self.folder / f"{part}.log"

    def file(self, name: str) -> Path:
        """Return the path of a file of the control plane's own."""
        return self.folder / name


_PAIRS = {Part.API: "apiserver", Part.SCHEDULER: "kube-scheduler", Part.CONTROLLERS: "kube-controller-manager"}
READY = {
    Part.ETCD: "/readyz",
    Part.API: "/readyz",
    Part.SCHEDULER: "/readyz",
    Part.CONTROLLERS: "/healthz",
    Part.KWOK: "/healthz",
}
"""The path that answers 200 when a part is ready."""


def words(part: Part, site: Site, flags: Sequence[str] = ()) -> list[str]:
    """Return the arguments of a part, the program's path left out; `flags` are added, and replace its `_UNTOLD`."""
    return [*_WORDS[part](site), *(flags or _UNTOLD.get(part, ()))]


def config_name(user: str) -> str:
    """Return the name of the file of a user's kubeconfig."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", user) + ".kubeconfig"


def _etcd(site: Site) -> list[str]:
    url = site.url(Part.ETCD)
    peer = f"http://{LOCAL}:0"  # there is no peer, so it may be any port
    return [
        f"--data-dir={site.file('etcd-data')}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # a test's data need not outlive the machine
        "--log-level=warn",
    ]


def _api(site: Site) -> list[str]:
    key = site.file("signing.key")
    return [
        f"--etcd-servers={site.url(Part.ETCD)}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--service-account-issuer={ISSUER}",
        f"--token-auth-file={site.file('tokens.csv')}",
        f"--authentication-token-webhook-config-file={site.file('people.kubeconfig')}",
        "--authentication-token-webhook-version=v1",
        "--authorization-mode=Node,RBAC",
        f"--bind-address={LOCAL}",
        f"--secure-port={site.ports[Part.API]}",
        f"--cert-dir={site.certificates(Part.API)}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--advertise-address={LOCAL}",  # else a machine without a network has none to offer
        "--endpoint-reconciler-type=none",  # the loopback address is not allowed in the endpoints it would write
        "--disable-admission-plugins=ServiceAccount",  # pods need no service account where no controller makes one
        "--allow-privileged",
    ]


def _serving(part: Part, site: Site, user: str) -> list[str]:
    """Return what the scheduler and the controllers have in common."""
    config = site.file(config_name(user))
    return [
        *(f"--{what}={config}" for what in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")),
        f"--bind-address={LOCAL}",
        f"--secure-port={site.ports[part]}",
        f"--cert-dir={site.certificates(part)}",
        "--leader-elect=false",
    ]


def _scheduler(site: Site) -> list[str]:
    return _serving(Part.SCHEDULER, site, "system:kube-scheduler")


def _controllers(site: Site) -> list[str]:
    return [
        *_serving(Part.CONTROLLERS, site, "admin"),
        f"--service-account-private-key-file={site.file('signing.key')}",
        f"--root-ca-file={site.ca_file(Part.API)}",
    ]


def _kwok(site: Site) -> list[str]:
    return [
        f"--kubeconfig={site.file(config_name('admin'))}",
        f"--server-address={LOCAL}:{site.ports[Part.KWOK]}",
        "--node-lease-duration-seconds=40",  # as a kubelet does; untold it keeps no Lease
    ]


_UNTOLD = {Part.KWOK: ("--manage-all-nodes=true",)}  # it takes one of three flags that say which nodes, never two
_WORDS: dict[Part, Callable[[Site], list[str]]] = {
    Part.ETCD: _etcd,
    Part.API: _api,
    Part.SCHEDULER: _scheduler,
    Part.CONTROLLERS: _controllers,
    Part.KWOK: _kwok,
}
