"""Reboots a node by a Job on it: made once for each effect, and of no effect on any boot but the one it is for."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from gpuward.controller.outcomes import Heard, order_id
from gpuward.controller.views import NodeView
from gpuward.model.case import Case, Effect
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import JOBS
from gpuward.ports import Cluster, Conflict, Refused
from gpuward.settings.reboot import RebootTerms

BOOT = "GPUWARD_BOOT"
"""Names in the container the boot that is to end; on another one the Job does nothing."""
NODE = "GPUWARD_NODE"
_SCRIPT = f"""\
case "$(cat /proc/sys/kernel/random/boot_id)" in
  "${BOOT}"*) exec nsenter --target 1 --mount --uts --ipc --net --pid -- systemctl reboot ;;
  *) echo "this is another boot: nothing to do" ;;
esac
"""
COMMAND = ("sh", "-c", _SCRIPT)
"""What the built-in Job runs. A kubelet that starts its pod again after the reboot must not reboot a second time."""
LATEST_SECONDS = 300
"""So long the Job may take until the node goes down; then it is ended, so that none comes late."""
KEPT_SECONDS = 86400
"""How long it is kept when it is over, for people to look at."""
_CASE = "gpuward.io/case"


class Rebooter:
    """Makes the Jobs, each once. A Job that cannot be made ends its effect."""

    def __init__(self, cluster: Cluster, heard: Heard, *, namespace: str, terms: RebootTerms) -> None:
        self._cluster = cluster
        self._heard = heard
        self._namespace = namespace
        self._terms = terms
        self._made: set[str] = set()

    async def reboot(self, case: Case, effect: Effect | None, node: NodeView | None) -> None:
        """Have the node rebooted, unless it was, or is of another boot by now."""
        if effect is None:
            return
        name = job_name(case, effect)
        if node is None or name in self._made or not case.boot or node.boot != case.boot:
            return
        try:
            body = job(name, case, namespace=self._namespace, terms=self._terms)
            await self._cluster.create(JOBS, body, namespace=self._namespace)
        except Conflict:
            pass  # it is there: an earlier round, or another controller, has made it
        except (Refused, ObjectError) as error:
            self._heard.refused[(case.id, effect.number)] = f"the Job that reboots it cannot be made: {error}"
            return
        self._made.add(name)


def job_name(case: Case, effect: Effect) -> str:
    """Return the name of the Job of an effect: always the same one, so that there is one Job."""
    digest = blake2b(order_id(case, effect).encode(), digest_size=8).hexdigest()
    return f"gpuward-reboot-{digest}"


def job(name: str, case: Case, *, namespace: str, terms: RebootTerms) -> dict[str, Any]:
    """Return the Job: the template, on the node of the case, run once and not for long, and told which boot is meant.

    Raises ObjectError when the template is no Job.
    """
    found = default_template(terms.image) if terms.template is None else terms.template
    containers = check_template(found)
    metadata, spec = _table(found, "metadata"), _table(found, "spec")
    template = _table(spec, "template")
    pod = _table(template, "spec")
    told = [{"name": BOOT, "value": case.boot}, {"name": NODE, "value": case.node}]
    labels = {**_table(metadata, "labels"), "app.kubernetes.io/part-of": "gpuward"}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            **metadata,
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {**_table(metadata, "annotations"), _CASE: case.id},
        },
        "spec": {
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            **spec,
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": LATEST_SECONDS,
            "template": {
                **template,
                "spec": {
                    **pod,
                    "nodeName": case.node,
                    "restartPolicy": "Never",
                    "containers": [{**one, "env": [*(one.get("env") or ()), *told]} for one in containers],
                },
            },
        },
    }


def check_template(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers of a template of a Job. Raises ObjectError when it is none."""
    _table(found, "metadata")
    pod = _table(_table(_table(found, "spec"), "template"), "spec")
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers or not all(isinstance(one, Mapping) for one in containers):
        raise ObjectError("a template of the Job that reboots a node needs spec.template.spec.containers")
    return containers


def default_template(image: str) -> dict[str, Any]:
    """Return the built-in Job: privileged, in the host's process namespace, tolerating every taint of a sick node."""
    container = {
        "name": "reboot",
        "image": image,
        "command": list(COMMAND),
        "securityContext": {"privileged": True},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    }
    pod = {
        "hostPID": True,
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {"spec": {"template": {"spec": pod}}}


def _table(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = found.get(name, {})
    if not isinstance(part, Mapping):
        raise ObjectError(f"the template of the Job that reboots a node must have a table at {name}")
    return dict(part)
