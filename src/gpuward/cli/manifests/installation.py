"""One installation in a cluster: where, of what image, with what settings; and what all its objects have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward import __version__
from gpuward.model.case import Mode
from gpuward.model.objects.pause import PAUSE
from gpuward.model.resource import OWN_NAMESPACE

AGENT = "gpuward-agent"
CONTROLLER = "gpuward-controller"
SETTINGS = "gpuward-settings"
SETTINGS_DIR = "/etc/gpuward"
SETTINGS_FILE = "gpuward.toml"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
LABELS = {PART_OF: "gpuward"}
"""On every object of an installation."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What a person chose. `settings` is the document that agents and controllers read."""

    namespace: str = OWN_NAMESPACE
    image: str = f"gpuward:{__version__}"
    settings: str = ""
    reboot: bool = False
    """Whether the controller may make the Jobs that reboot nodes."""

    def user(self, account: str) -> str:
        """Return the name under which the API server knows a service account of this installation."""
        return f"system:serviceaccount:{self.namespace}:{account}"


def settings_of(mode: Mode) -> str:
    """Return a document that says nothing but the mode."""
    return f'[controller]\nmode = "{mode}"\n'


def named(api_version: str, kind: str, name: str, *, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object of the installation."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, "labels": dict(LABELS)}, **fields}


def labelled(manifest: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return an object with more labels."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


def namespace(installation: Installation) -> dict[str, Any]:
    """Return the namespace; the agent is privileged, and is allowed to be there."""
    allowed = {f"pod-security.kubernetes.io/{how}": "privileged" for how in ("enforce", "audit", "warn")}
    return labelled(named("v1", "Namespace", installation.namespace), allowed)


def settings_map(installation: Installation) -> dict[str, Any]:
    """Return the object that holds the settings."""
    return named(
        "v1",
        "ConfigMap",
        SETTINGS,
        namespace=installation.namespace,
        data={SETTINGS_FILE: installation.settings or settings_of(Mode.OBSERVE)},
    )


def pause_map(installation: Installation) -> dict[str, Any]:
    """Return the object by which people pause the fleet, with nothing in it: applied again it ends no pause."""
    return named("v1", "ConfigMap", PAUSE, namespace=installation.namespace)
