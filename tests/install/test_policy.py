"""What an agent's token can do on a real API server: write for its own node, and nothing else."""

from typing import Any

import pytest

from gpuward.cli.manifests.installation import AGENT
from gpuward.cli.manifests.rights import ON_CALL
from gpuward.model.objects.owned import LEADER_LEASE, agent_lease
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES
from tests.install.site import Site, gpu_fault, gpu_node, grant, node_status, path_of, put_status
from tests.kit.controlplane.rest import JSON_PATCH, Api
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
NODES_PATH = path_of(GPU_NODES)
FAULTS_PATH = path_of(GPU_FAULTS)
EVIDENCE = {
    "at": "2026-11-30T03:12:07.000000Z",
    "level": "P0",
    "class": "hardware",
    "verdict": gpu_fault("any")["spec"]["verdict"],
    "last": {},
    "count": 2,
}
JUDGED = {
    "at": "2026-11-30T03:12:07.000000Z",
    "level": "P2",
    "class": "application",
    "seenLevel": "P0",
    "seenClass": "hardware",
}


def lease(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 60}}


def test_an_agent_creates_its_own_objects_and_writes_their_status(site: Site) -> None:
    node = site.node()
    agent = site.agent(node)
    agent.post(NODES_PATH, gpu_node(node)).ok()
    put_status(agent, f"{NODES_PATH}/{node}", node_status()).ok()
    fault = gpu_fault(node)
    name = agent.post(FAULTS_PATH, fault).ok()["metadata"]["name"]
    put_status(agent, f"{FAULTS_PATH}/{name}", {"evidence": EVIDENCE}).ok()
    assert agent.get(f"{FAULTS_PATH}/{name}").ok()["status"]["evidence"]["count"] == 2


def test_an_agent_keeps_its_own_lease_and_reads_the_leaders(site: Site) -> None:
    node = site.node()
    agent = site.agent(node)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{site.installation.namespace}/leases"
    agent.post(leases, lease(agent_lease(node))).ok()
    renewed = [{"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 61}]
    agent.patch(f"{leases}/{agent_lease(node)}", renewed, content=JSON_PATCH).ok()
    assert "its own node only" in agent.post(leases, lease(LEADER_LEASE)).text
    assert "its own node only" in agent.post(leases, lease(agent_lease(f"{node}-2"))).text
    site.controller().post(leases, lease(LEADER_LEASE)).ok()
    assert agent.get(f"{leases}/{LEADER_LEASE}").good
    patched = agent.patch(f"{leases}/{LEADER_LEASE}", renewed, content=JSON_PATCH)
    assert (patched.code, "its own node only" in patched.text) == (403, True)


@pytest.fixture(scope="module", params=["as installed", "with every right of RBAC"])
def rights(request: pytest.FixtureRequest, site: Site) -> Any:
    """Let the agents do what they may, and then all that RBAC can allow: the policy holds alone."""
    if request.param == "as installed":
        yield site
        return
    with site.wide(site.installation.user(AGENT)):
        yield site


def refused(site: Site, node: str, act: str) -> tuple[int, str]:
    """Do one of the forbidden things as the agent of `node` and return the answer."""
    other = site.node(f"{node}-2")  # a name that begins with the whole name of ours
    make_other(site.api, other)
    agent = site.agent(node)
    make_own(site.api, node)
    reply = _ACTS[act](agent, node, other)
    return reply.code, reply.text


def make_other(admin: Api, other: str) -> None:
    admin.post(NODES_PATH, gpu_node(other, spec={"mode": "observe"})).ok()
    admin.post(FAULTS_PATH, gpu_fault(other)).ok()


def make_own(admin: Api, node: str) -> None:
    admin.post(NODES_PATH, gpu_node(node)).ok()
    admin.post(FAULTS_PATH, gpu_fault(node)).ok()


def _spec(agent: Api, path: str) -> Any:
    return agent.patch(path, [{"op": "add", "path": "/spec", "value": {"mode": "repair"}}], content=JSON_PATCH)


_ACTS: dict[str, Any] = {
    "write the status of another node": lambda agent, _, other: put_status(
        agent, f"{NODES_PATH}/{other}", node_status()
    ),
    "write the status of another node's fault": lambda agent, _, other: put_status(
        agent, f"{FAULTS_PATH}/{other}.1a2b3c4d.k1", {"evidence": EVIDENCE}
    ),
    "create the GPUNode of a node whose name begins with its own": lambda agent, node, _: agent.post(
        NODES_PATH, gpu_node(f"{node}-3")
    ),
    "create a fault of a node whose name begins with its own": lambda agent, node, _: agent.post(
        FAULTS_PATH, gpu_fault(f"{node}-3")
    ),
    "create a fault under a name that begins with its own": lambda agent, node, other: agent.post(
        FAULTS_PATH, gpu_fault(node, "k9", name=f"{other}.1a2b3c4d.k9")
    ),
    "create a GPUNode with orders": lambda agent, node, _: agent.post(
        f"{NODES_PATH}?dryRun=All", gpu_node(node, spec={"mode": "repair"})
    ),
    "write the spec of its own GPUNode": lambda agent, node, _: _spec(agent, f"{NODES_PATH}/{node}"),
    "label its own GPUNode": lambda agent, node, _: agent.patch(
        f"{NODES_PATH}/{node}", {"metadata": {"labels": {"mine": "yes"}}}
    ),
    "delete its own GPUNode": lambda agent, node, _: agent.delete(f"{NODES_PATH}/{node}"),
    "delete its own fault": lambda agent, node, _: agent.delete(f"{FAULTS_PATH}/{node}.1a2b3c4d.k1"),
    "delete all faults": lambda agent, _node, _other: agent.delete(FAULTS_PATH),
    "create a GPUCase": lambda agent, node, _: agent.post(path_of(GPU_CASES), gpu_case(node)),
}


_BY_THE_SCHEMA = {"create a fault under a name that begins with its own": 422}
"""What the definition refuses to everybody, before the policy is asked."""


def gpu_case(node: str) -> dict[str, Any]:
    spec = {
        "node": node,
        "fault": f"{node}.1a2b3c4d.k1",
        "kind": "xid",
        "title": "fell off the bus",
        "level": "P0",
        "class": "hardware",
        "openedAt": "2026-11-30T03:12:07.000000Z",
    }
    return {
        "apiVersion": GPU_CASES.api_version,
        "kind": "GPUCase",
        "metadata": {"name": f"c-{node}.1a2b3c4d.k1"},
        "spec": spec,
    }


def drill_case(of: str, **spec: Any) -> dict[str, Any]:
    """Return the case of a drill, as the command creates it."""
    fault = f"{of}.drill.xid-79-0000-3b-00-1"
    body = gpu_case(of)
    return {
        **body,
        "metadata": {"name": f"c-{fault}"},
        "spec": {**body["spec"], "fault": fault, "gpu": "0000:3b:00", "drill": "repair", **spec},
    }


@pytest.fixture(scope="module")
def on_call(site: Site) -> Api:
    """Give the server as people on call see it."""
    user = site.plane.user("on-call-drills")
    grant(site, ON_CALL, user.name)
    until(lambda: user.api.get(path_of(GPU_CASES)).good, "they may look")
    until(lambda: _is_kept_from_opening(site, user.api), "the policy keeps them from opening cases")
    return user.api


def _is_kept_from_opening(site: Site, user: Api) -> bool:
    return "people create drills only" in user.post(f"{path_of(GPU_CASES)}?dryRun=All", gpu_case(site.node())).text


def test_people_on_call_open_drills_and_no_real_case(site: Site, on_call: Api) -> None:
    node = site.node()
    real = on_call.post(path_of(GPU_CASES), gpu_case(node))
    assert (real.code, "people create drills only" in real.text) == (403, True)
    made = on_call.post(path_of(GPU_CASES), drill_case(node)).ok()
    assert made["spec"]["drill"] == "repair"
    real_from_it = [{"op": "remove", "path": "/spec/drill"}]
    changed = on_call.patch(path_of(GPU_CASES, made["metadata"]["name"]), real_from_it, content=JSON_PATCH)
    assert (changed.code, "stays as it was" in changed.text) == (422, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fault": "{node}.1a2b3c4d.k1"}, "a name of its own"),
        ({"node": "another"}, "a name of its own"),
        ({"fault": "{node}.drill.1a2b3c4d.k1"}, "a name of its own"),
        ({"gpu": None}, "is of one GPU"),
        ({"state": "parked"}, "begins as suspect"),
        (
            {"effects": [{"number": 1, "kind": "drain", "askedAt": "2026-11-30T03:12:07.000000Z"}]},
            "begins as suspect",
        ),
    ],
)
def test_a_drill_takes_no_real_cases_name_and_asks_for_nothing(
    site: Site, on_call: Api, change: dict[str, Any], words: str
) -> None:
    node = site.node()
    body = drill_case(node, **{key: _filled(value, node) for key, value in change.items()})
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    if "fault" in change:
        body["metadata"]["name"] = f"c-{body['spec']['fault']}"
    reply = on_call.post(path_of(GPU_CASES), body)
    assert (reply.code, words in reply.text) == (403, True), reply.text


def _filled(value: Any, node: str) -> Any:
    return value.format(node=node) if isinstance(value, str) else value


def test_the_controller_and_an_administrator_open_real_cases(site: Site) -> None:
    for api in (site.controller(), site.api):
        api.post(path_of(GPU_CASES), gpu_case(site.node())).ok()


@pytest.mark.parametrize("act", list(_ACTS))
def test_an_agent_cannot(rights: Site, act: str) -> None:
    code, text = refused(rights, rights.node(), act)
    assert code == _BY_THE_SCHEMA.get(act, 403), text


def test_a_token_without_a_node_writes_nothing(rights: Site) -> None:
    node = rights.node()
    make_own(rights.api, node)
    unbound = rights.account(AGENT).api
    assert unbound.post(NODES_PATH, gpu_node(rights.node())).code == 403
    answer = put_status(unbound, f"{NODES_PATH}/{node}", node_status())
    assert (answer.code, "bound to a node" in answer.text) == (403, True)


def test_an_agent_judges_nothing_and_holds_nothing_back(rights: Site) -> None:
    node = rights.node()
    make_own(rights.api, node)
    agent, path = rights.agent(node), f"{FAULTS_PATH}/{node}.1a2b3c4d.k1"
    assert "judges nothing" in put_status(agent, path, {"judged": JUDGED}).text
    put_status(rights.controller(), path, {"judged": JUDGED}).ok()
    assert "judges nothing" in put_status(agent, path, {"evidence": EVIDENCE}).text, "that would take the judgement"
    put_status(agent, path, {"evidence": EVIDENCE, "judged": JUDGED}).ok()
    held = gpu_fault(node, "k2")
    held["metadata"]["finalizers"] = ["example.com/mine"]
    assert "no finalizers" in agent.post(FAULTS_PATH, held).text
