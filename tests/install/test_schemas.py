"""What a real API server takes and refuses of our objects: by the schemas that are made from the model."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from gpuward.model.objects.gpu_case import PEOPLE, CaseSpec, GpuCase, read_gpu_case, write_gpu_case
from gpuward.model.objects.gpu_fault import GpuFault, read_gpu_fault, write_gpu_fault
from gpuward.model.objects.gpu_node import GpuNode, read_gpu_node, write_gpu_node
from gpuward.model.objects.kinds import KINDS, ObjectKind
from gpuward.model.objects.shapes import shape_of
from gpuward.model.objects.standby_pool import StandbyPool, read_standby_pool, write_standby_pool
from gpuward.model.objects.values import ObjectError, read
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, STANDBY_POOLS
from tests.install.site import Site, gpu_fault, gpu_node, node_status, path_of, put_status
from tests.kit import objects as kit
from tests.kit.controlplane.rest import JSON_PATCH, Api

pytestmark = [pytest.mark.real, pytest.mark.long]
_ON_THE_SERVER = settings(max_examples=25, suppress_health_check=list(HealthCheck))
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def created(api: Api, kind: ObjectKind, body: Any, *, dry: bool = False) -> Any:
    query = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
    return api.post(f"{path_of(kind.resource)}{query}", body)


def whole(kind: ObjectKind, *, other: bool = False) -> Any:
    """Return a whole object in which every field is told."""
    spec = kit.full(shape_of(kind.spec), other=other)
    name = ".".join(spec[part] for part in ("nodeName", "boot", "cursor")) if kind.resource == GPU_FAULTS else "full"
    resource = kind.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_an_object_with_every_field_is_kept_as_it_was_written(site: Site, kind: ObjectKind) -> None:
    body = whole(kind)
    kept = created(site.api, kind, body).ok()
    try:
        assert kept["spec"] == body["spec"]
        status = kit.full(shape_of(kind.status))
        path = path_of(kind.resource, body["metadata"]["name"])
        assert put_status(site.api, path, status).ok()["status"] == status
    finally:
        site.api.delete(path_of(kind.resource, body["metadata"]["name"])).ok()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_server_and_reader_refuse_the_same_specs_and_name_the_field(site: Site, kind: ObjectKind) -> None:
    body = whole(kind)
    created(site.api, kind, body, dry=True).ok()
    taken, misnamed = [], []
    for where, spec in kit.broken(shape_of(kind.spec), body["spec"], "spec"):
        reply = created(site.api, kind, {**body, "spec": spec}, dry=True)
        if reply.good:
            taken.append(where)
        elif where not in reply.text:
            misnamed.append((where, reply.text[:300]))
        with pytest.raises(ObjectError) as refused:
            read(kind.spec, spec, "spec")
        assert where in str(refused.value)
    assert (taken, misnamed) == ([], [])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_server_and_reader_refuse_the_same_statuses_and_name_the_field(site: Site, kind: ObjectKind) -> None:
    body = whole(kind)
    name = created(site.api, kind, body).ok()["metadata"]["name"]
    path = path_of(kind.resource, name)
    good = kit.full(shape_of(kind.status))
    taken, misnamed = [], []
    try:
        for where, status in kit.broken(shape_of(kind.status), good, "status"):
            reply = put_status(site.api, path, status)
            if reply.good:
                taken.append(where)
            elif where not in reply.text:
                misnamed.append((where, reply.text[:300]))
            with pytest.raises(ObjectError) as refused:
                read(kind.status, status, "status")
            assert where in str(refused.value)
    finally:
        site.api.delete(path).ok()
    assert (taken, misnamed) == ([], [])


@_ON_THE_SERVER
@given(case=kit.GPU_CASES)
def test_the_server_takes_every_case_that_the_model_writes(site: Site, case: GpuCase) -> None:
    kept = created(site.api, KINDS[2], write_gpu_case(case), dry=True).ok()
    assert read_gpu_case(kept).spec == case.spec


@_ON_THE_SERVER
@given(fault=kit.gpu_faults())
def test_the_server_takes_every_fault_that_the_model_writes(site: Site, fault: GpuFault) -> None:
    kept = created(site.api, KINDS[1], write_gpu_fault(fault), dry=True).ok()
    assert read_gpu_fault(kept).spec == fault.spec


@_ON_THE_SERVER
@given(node=kit.GPU_NODES)
def test_the_server_takes_every_node_that_the_model_writes(site: Site, node: GpuNode) -> None:
    kept = created(site.api, KINDS[0], write_gpu_node(node), dry=True).ok()
    assert read_gpu_node(kept).spec == node.spec


@_ON_THE_SERVER
@given(pool=kit.STANDBY_POOLS)
def test_the_server_takes_every_pool_that_the_model_writes(site: Site, pool: StandbyPool) -> None:
    kept = created(site.api, KINDS[3], write_standby_pool(pool), dry=True).ok()
    assert read_standby_pool(kept).spec == pool.spec


@pytest.mark.parametrize(
    "key", ["gpu.infra.status/hardware-fault", "gpuward.io/reserved-for", "node.kubernetes.io/not-ready"]
)
def test_a_sick_node_can_never_look_like_one_that_stands_by(site: Site, key: str) -> None:
    spec = {"shape": {"product": "H100", "count": 8}, "size": 1, "taint": {"key": key}}
    body = {"apiVersion": STANDBY_POOLS.api_version, "kind": "StandbyPool", "metadata": {"name": "p"}, "spec": spec}
    reply = site.api.post(f"{path_of(STANDBY_POOLS)}?dryRun=All", body)
    assert (reply.code, "must be the pool's own" in reply.text) == (422, True)


def test_a_fault_never_changes_once_it_is_told(site: Site) -> None:
    node = site.node()
    name = site.api.post(path_of(GPU_FAULTS), gpu_fault(node)).ok()["metadata"]["name"]
    path = path_of(GPU_FAULTS, name)
    for change in ({"level": "P2"}, {"count": 2}, {"gpu": None}, {"process": "python"}):
        reply = site.api.patch(path, {"spec": change})
        assert (reply.code, "stays as it was" in reply.text) == (422, True)


def test_a_faults_name_is_its_node_boot_and_cursor_as_a_whole(site: Site) -> None:
    for name in ("gpu-1.1a2b3c4d.k1.more", "gpu-1.1a2b3c4d", "gpu-1-2.1a2b3c4d.k1", "any"):
        reply = site.api.post(path_of(GPU_FAULTS), gpu_fault("gpu-1", name=name))
        assert (reply.code, "as a whole" in reply.text) == (422, True)


def test_of_a_case_only_the_orders_change_and_only_those_of_people(site: Site) -> None:
    kind = next(kind for kind in KINDS if kind.resource == GPU_CASES)
    body, changed = whole(kind), whole(kind, other=True)
    created(site.api, kind, body).ok()
    path = path_of(GPU_CASES, body["metadata"]["name"])
    fields = shape_of(CaseSpec).members
    for member in fields:
        for operation in (
            {"op": "replace", "value": changed["spec"][member.spelled]},
            *([] if member.required else [{"op": "remove"}]),
        ):
            reply = site.api.patch(path, [{**operation, "path": f"/spec/{member.spelled}"}], content=JSON_PATCH)
            if member.spelled == PEOPLE:
                assert reply.good, reply.text
            else:
                assert (reply.code, f"{member.spelled} stays as it was" in reply.text) == (422, True), reply.text
    assert len(fields) > 15
    site.api.delete(path).ok()


def test_what_a_case_did_not_tell_at_its_creation_is_not_told_later(site: Site) -> None:
    kind = next(kind for kind in KINDS if kind.resource == GPU_CASES)
    body = whole(kind)
    optional = {member.spelled for member in shape_of(CaseSpec).members if not member.required}
    body["spec"] = {name: value for name, value in body["spec"].items() if name not in optional}
    created(site.api, kind, body).ok()
    path = path_of(GPU_CASES, "full")
    for name in optional - {PEOPLE}:
        reply = site.api.patch(path, {"spec": {name: kit.full(shape_of(CaseSpec))[name]}})
        assert (reply.code, "stays as it was" in reply.text) == (422, True), reply.text
    site.api.delete(path).ok()


def test_unknown_words_and_unknown_fields_are_refused(site: Site) -> None:
    wrong = site.api.post(path_of(GPU_NODES), gpu_node(site.node(), spec={"mode": "destroy"}))
    assert (wrong.code, "Unsupported value" in wrong.text) == (422, True)
    node = site.node()
    unknown = site.api.post(f"{path_of(GPU_NODES)}?fieldValidation=Strict", gpu_node(node, spec={"modus": "repair"}))
    assert (unknown.code, "unknown field" in unknown.text) == (400, True)
    site.api.post(path_of(GPU_NODES), gpu_node(node)).ok()
    answer = put_status(site.api, path_of(GPU_NODES, node), node_status(gpus=[{"pci": "0000:3b:00"}]))
    assert (answer.code, "status.gpus[0].state" in answer.text) == (422, True)


def test_orders_of_one_id_are_refused(site: Site) -> None:
    node = site.node()
    order = kit.full(shape_of(KINDS[0].spec))["orders"][0]
    twice = site.api.post(path_of(GPU_NODES), gpu_node(node, spec={"orders": [order, order]}))
    assert (twice.code, "Duplicate value" in twice.text) == (422, True)


def test_a_table_of_cases_reads_well(site: Site) -> None:
    kind = next(kind for kind in KINDS if kind.resource == GPU_CASES)
    body = whole(kind)
    created(site.api, kind, body).ok()
    status = {**kit.full(shape_of(kind.status)), "state": "fenced", "since": body["spec"]["openedAt"]}
    put_status(site.api, path_of(GPU_CASES, "full"), status).ok()
    table = site.api.request("GET", path_of(GPU_CASES), accept=_TABLE).ok()
    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert shown == ["Name", "Node", "GPU", "Kind", "Code", "Level", "State", "Since", "Age"]
    assert [column["name"] for column in table["columnDefinitions"] if column["priority"]] == [
        "Class",
        "Drill",
        "Due",
        "Because",
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:7] == ["full", "gpu-1", "0000:3b:00", "gpu-1", 0, "ignore", "fenced"]
    site.api.delete(path_of(GPU_CASES, "full")).ok()


def test_faults_that_nobody_judged_are_found_by_the_server(site: Site) -> None:
    node = site.node()
    for cursor in ("k1", "k2"):
        site.api.post(path_of(GPU_FAULTS), gpu_fault(node, cursor)).ok()
    judged = {
        "at": "2026-11-30T03:12:07.000000Z",
        "level": "P0",
        "class": "hardware",
        "seenLevel": "P0",
        "seenClass": "hardware",
    }
    put_status(site.api, path_of(GPU_FAULTS, f"{node}.1a2b3c4d.k1"), {"judged": judged}).ok()
    chosen = f"fieldSelector=spec.nodeName%3D{node}%2Cstatus.judged.level%3D"
    found = site.api.get(f"{path_of(GPU_FAULTS)}?{chosen}").ok()["items"]
    assert [one["metadata"]["name"] for one in found] == [f"{node}.1a2b3c4d.k2"]


def test_people_find_all_of_it_by_short_names_and_one_category(site: Site) -> None:
    served = site.api.get("/apis/gpuward.io/v1alpha1").ok()["resources"]
    short = {one["name"]: one["shortNames"] for one in served if "shortNames" in one and "/" not in one["name"]}
    assert short == {"gpunodes": ["gpun"], "gpufaults": ["gpuf"], "gpucases": ["gpuc"], "standbypools": ["sbp"]}
    assert all(one["categories"] == ["gpuward"] for one in served if "/" not in one["name"])
