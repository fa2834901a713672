"""The programs of the control plane: what each is called, and the Go source that it is built from, as rows."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

KUBERNETES = "1.36.3"
KWOK = "0.7.0"
SOURCE = Path(__file__).resolve().parent / "source"
"""The Go modules; the version of etcd stands in theirs (etcd/go.mod)."""


class Part(StrEnum):
    """One program, by the name of its binary."""

    ETCD = "etcd"
    API = "kube-apiserver"
    SCHEDULER = "kube-scheduler"
    CONTROLLERS = "kube-controller-manager"
    KWOK = "kwok"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a part is built: `go <verb> ... <package>` in the folder of a module, or anywhere for an installed one."""

    verb: str
    package: str
    module: str = ""
    ldflags: str = "-s -w"


_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_STAMPED = (
    f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
)

RECIPES = {
    Part.ETCD: Recipe("build", ".", module="etcd"),
    Part.API: Recipe("build", "./kube-apiserver", module="kubernetes", ldflags=_STAMPED),
    Part.SCHEDULER: Recipe("build", "./kube-scheduler", module="kubernetes", ldflags=_STAMPED),
    Part.CONTROLLERS: Recipe("build", "./kube-controller-manager", module="kubernetes", ldflags=_STAMPED),
    Part.KWOK: Recipe("install", f"sigs.k8s.io/kwok/cmd/kwok@v{KWOK}"),
}
