"""The port Cluster on a real API server: each call as a request, each answer as what the port promises. No judgement.

The parts: access and kubeconfig (the way there), place (paths), wire (sending), answer, listing, watching and eviction
(what is meant).
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from gpuward.adapters.kubernetes.access import Access
from gpuward.adapters.kubernetes.answer import JSON_PATCH, Answer, Ask, error_of
from gpuward.adapters.kubernetes.eviction import is_settled, read_eviction
from gpuward.adapters.kubernetes.listing import read_list
from gpuward.adapters.kubernetes.patience import Chance, Patience
from gpuward.adapters.kubernetes.place import needed, object_path, path_of, query, title
from gpuward.adapters.kubernetes.watching import Quiet, follow
from gpuward.adapters.kubernetes.wire import CONNECTIONS, Deadline, Sleep, Wire, within
from gpuward.model.resource import PODS, Resource
from gpuward.ports import Eviction, Listed, Object, Project, Refused, Watched

PAGE = 200
"""Objects in a page of a list. client-go reads 500, and 500 nodes of GPU servers are 9 MB: decoded, some 80 MB that a
process of Python keeps; of 200 nodes it is half of that."""
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


class KubernetesCluster:
    """Implements Cluster, by `access`; used by one event loop."""

    def __init__(  # noqa: PLR0913  what a test may set
        self,
        access: Access,
        *,
        page: int = PAGE,
        quiet: Quiet = Quiet(),  # noqa: B008  frozen
        connections: int = CONNECTIONS,
        patience: Patience = Patience(),  # noqa: B008  frozen
        sleep: Sleep = asyncio.sleep,
        chance: Chance = random.random,
    ) -> None:
        self._wire = Wire(access, patience=patience, connections=connections, sleep=sleep, chance=chance)
        self._page = page
        self._quiet = quiet

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        deadline_seconds: float = 30.0,
    ) -> Listed:
        """Return all objects of a kind, or of a namespace, by label and field selector; read page by page."""
        path, what = path_of(resource, namespace), _many(resource, namespace)
        chosen: dict[str, str | int] = {"labelSelector": labels, "fieldSelector": fields, "limit": self._page}

        def page(token: str) -> Ask:
            return Ask("list", what, "GET", path + query({**chosen, "continue": token}))

        return await read_list(self._wire, page, project=project, deadline=within(deadline_seconds))

    def watch(  # noqa: PLR0913  what may be asked for
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        timeout_seconds: float = 300.0,
    ) -> AsyncIterator[Watched]:
        """Yield what happens after `since` until the server or the timeout ends it; bookmarks tell how far it came.

        A server that does not end it at the timeout is left a few seconds later. A watch that is silent for long is
        begun again by itself, and Unreachable only when that fails (watching.py).
        """
        path, what = path_of(resource, namespace), _many(resource, namespace)
        asked = {"watch": "true", "allowWatchBookmarks": "true", "labelSelector": labels, "fieldSelector": fields}

        def ask_from(version: str, seconds: float) -> Ask:
            lasts: dict[str, str | int] = {"resourceVersion": version, "timeoutSeconds": max(1, round(seconds))}
            return Ask("watch", what, "GET", path + query({**asked, **lasts}))

        return follow(
            self._wire, ask_from, project=project, since=since, timeout_seconds=timeout_seconds, quiet=self._quiet
        )

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object | None:
        """Return an object, None when there is none. Raises Refused when its kind is not served at all."""
        ask = Ask(
            "read", title(resource, name, namespace=namespace), "GET", object_path(resource, name, namespace=namespace)
        )
        answer = await self._wire.call(ask, within(deadline_seconds))
        return None if _is_missing(answer) else _good(ask, answer).document(ask, kind=resource.kind)

    async def create(
        self, resource: Resource, body: Object, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object:
        """Create an object and return it; its apiVersion and kind are those of `resource`. A status is dropped by most.

        Raises Conflict when one of its name is there.
        """
        path = path_of(resource, needed(resource, namespace))
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        ask = Ask("create", title(resource, _name(body), namespace=namespace), "POST", path, body=whole)
        return await self._done(ask, within(deadline_seconds), kind=resource.kind)

    async def patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str = "",
        deadline_seconds: float = 10.0,
    ) -> Object:
        """Change an object by a JSON patch (RFC 6902) and return it; all operations are done or none.

        Raises Conflict when an operation `test` does not hold or a path is not there, when an entry is there already
        that may be there once (such as a taint of that key and effect), or when the object is gone.
        """
        ask = Ask(
            f"patch {subresource} of" if subresource else "patch",
            title(resource, name, namespace=namespace),
            "PATCH",
            object_path(resource, name, namespace=namespace, subresource=subresource),
            body=[_checked(one) for one in operations],
            content=JSON_PATCH,
        )
        return await self._done(ask, within(deadline_seconds), kind=resource.kind)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
        deadline_seconds: float = 10.0,
    ) -> bool:
        """Delete an object, only the one with this uid when one is given; False when there was none any more.

        True says that it goes: a pod takes its grace, and an object waits for its finalizers.
        """
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        body = options | _options(uid, grace_seconds)
        what = title(resource, name, namespace=namespace)
        ask = Ask("delete", what, "DELETE", object_path(resource, name, namespace=namespace), body=body)
        answer = await self._wire.call(ask, within(deadline_seconds))
        if _is_missing(answer) or (not answer.is_good and answer.status().is_other_uid):
            return False
        _good(ask, answer).see_done(ask)
        return True

    async def evict(
        self, pod: str, *, namespace: str, uid: str, grace_seconds: int | None = None, deadline_seconds: float = 10.0
    ) -> Eviction:
        """Ask for the eviction of the pod with this uid; `grace_seconds` None is the pod's own."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _options(uid, grace_seconds),
        }
        path = object_path(PODS, pod, namespace=namespace, subresource="eviction")
        ask = Ask("evict", title(PODS, pod, namespace=namespace), "POST", path, body=body)
        answer = await self._wire.call(ask, within(deadline_seconds), settled=is_settled)
        became = read_eviction(answer)
        if became is None:
            raise error_of(ask, answer.status())
        if answer.is_good:
            answer.see_done(ask)
        return became

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def _done(self, ask: Ask, deadline: Deadline, *, kind: str) -> Object:
        return _good(ask, await self._wire.call(ask, deadline)).document(ask, kind=kind)


def _good(ask: Ask, answer: Answer) -> Answer:
    if not answer.is_good:
        raise error_of(ask, answer.status())
    return answer


def _is_missing(answer: Answer) -> bool:
    return not answer.is_good and answer.status().is_missing


def _options(uid: str | None, grace_seconds: int | None) -> dict[str, Any]:
    """Return what a deletion and an eviction have in common."""
    grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
    return grace | ({} if uid is None else {"preconditions": {"uid": uid}})


def _checked(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation. Raises Refused for what is none: the server's answer would look as if a test had failed."""
    if operation.get("op") not in _OPERATIONS or not _is_pointer(operation.get("path")):
        raise Refused(f"{operation.get('op')!r} {operation.get('path')!r} is no operation of a JSON patch")
    return dict(operation)


def _many(resource: Resource, namespace: str | None) -> str:
    return f"the {resource.plural}" + (f" of {namespace}" if resource.namespaced and namespace else "")


def _name(body: Object) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""


def _is_pointer(path: object) -> bool:
    """Say whether it is a JSON pointer (RFC 6901); the empty one is the whole object."""
    return isinstance(path, str) and (not path or path.startswith("/"))
