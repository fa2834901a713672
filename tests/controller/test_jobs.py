"""Which job a pod belongs to: its chain of owners, a label where an owner cannot be read, and what is read for it."""

from dataclasses import replace
from typing import Any, cast

import pytest

from gpuward.controller.jobs import KNOWN_SECONDS, UNREAD_SECONDS, Jobs
from gpuward.controller.pace import Pace
from gpuward.model.job import JOB, JOB_SET, PYTORCH_JOB, TRAIN_JOB, JobKind, JobRef, is_part, selector_of
from gpuward.model.objects.gpu_fault import FaultHolder, FaultPod, FaultPods, FaultStatus, PodRef, gpu_fault
from gpuward.model.pod import pod_of
from gpuward.model.resource import DAEMON_SETS, PODS, Resource
from gpuward.ports import Cluster, Object, Refused, Unreachable
from tests.controller.fleet import Fleet
from tests.kit.merging import told, xid

VERSIONS = {"Job": "v1", "JobSet": "v1alpha2", "PyTorchJob": "v1", "TrainJob": "v1alpha1"}
SET_LABELS = {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/jobset-uid": "s-1"}


class Reading:
    """A cluster of which single objects are read only: counted, and some kinds fail."""

    def __init__(self, fleet: Fleet) -> None:
        self.read: list[str] = []
        self.fails: dict[str, Exception] = {}
        self._fleet = fleet

    async def get(self, resource: Resource, name: str, **how: Any) -> Object | None:
        """Return what is there, or fail."""
        self.read.append(f"{resource.plural}/{name}")
        if resource.plural in self.fails:
            raise self.fails[resource.plural]
        return await self._fleet.cluster.get(resource, name, **how)


class Told(Fleet):
    """A fleet with somebody who asks whose its pods are."""

    def __init__(self) -> None:
        super().__init__()
        reading = Reading(self)
        self.read, self.fails = reading.read, reading.fails
        self.jobs = Jobs(cast("Cluster", reading), pace=Pace(self.time, self.time.doze, lambda: 0.5))

    def owned(self, kind: JobKind, name: str, owners: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """Make a job, and return how what it owns says so."""
        resource = kind.resource(VERSIONS[kind.kind])
        metadata = {"name": name} | ({"ownerReferences": owners} if owners else {})
        made = self.server.create(resource, {"metadata": metadata, "spec": {}}, namespace="work")
        one = {"apiVersion": resource.api_version, "kind": kind.kind, "name": name, "uid": made["metadata"]["uid"]}
        return [{**one, "controller": True}]

    async def job_of(self, name: str, **metadata: Any) -> JobRef | None:
        """Return the job of a pod, which is made if need be."""
        if self.server.get(PODS, name, namespace="work") is None:
            self.pod(name, **metadata)
        return await self.time.run(self.jobs.job_of(pod_of(self.get(PODS, name, space="work"))))


async def test_the_chain_is_climbed_to_its_top() -> None:
    fleet = Told()
    train = fleet.owned(TRAIN_JOB, "llm")
    a_set = fleet.owned(JOB_SET, "llm", train)
    job = fleet.owned(JOB, "llm-node-0", a_set)
    found = await fleet.job_of("llm-node-0-0", ownerReferences=job)
    assert found == JobRef("TrainJob", "trainer.kubeflow.org/v1alpha1", "work", "llm", train[0]["uid"])
    assert fleet.read == ["jobs/llm-node-0", "jobsets/llm"]


async def test_a_job_that_nothing_of_ours_owns_is_the_top() -> None:
    fleet = Told()
    other = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c-1", "controller": True}]
    job = fleet.owned(JOB, "nightly-1", other)
    assert str(await fleet.job_of("nightly-1-0", ownerReferences=job)) == "Job work/nightly-1"
    fleet.read.clear()
    torch = fleet.owned(PYTORCH_JOB, "bert")
    assert str(await fleet.job_of("bert-0", ownerReferences=torch)) == "PyTorchJob work/bert"
    assert fleet.read == []


async def test_what_owns_a_pod_and_is_no_job_that_we_know_is_still_whose_it_is() -> None:
    fleet = Told()
    volcano = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "v-1", "controller": True}
    assert await fleet.job_of("v-0", ownerReferences=[volcano]) == JobRef(
        "Job", "batch.volcano.sh/v1alpha1", "work", "v", "v-1"
    )
    assert str(await fleet.job_of("bare")) == "Pod work/bare"
    assert fleet.read == []


async def test_a_pod_of_the_node_has_no_job() -> None:
    fleet = Told()
    assert await fleet.job_of("exporter", ownerReferences=fleet.owner(DAEMON_SETS, "exporter")) is None
    assert await fleet.job_of("static", annotations={"kubernetes.io/config.mirror": "x"}) is None


@pytest.mark.parametrize("error", [Refused("no"), Unreachable("gone")])
async def test_where_an_owner_cannot_be_read_its_pods_label_is_believed(error: Exception) -> None:
    fleet = Told()
    job = fleet.owned(JOB, "llm-node-0", fleet.owned(JOB_SET, "llm"))
    fleet.fails["jobs"] = error
    labels = {**SET_LABELS, "batch.kubernetes.io/job-name": "llm-node-0"}
    found = await fleet.job_of("llm-node-0-0", ownerReferences=job, labels=labels)
    assert found == JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "work", "llm", "s-1")
    plain = await fleet.job_of("other", ownerReferences=job, labels={"batch.kubernetes.io/job-name": "llm-node-0"})
    assert plain == JobRef("Job", "batch/v1", "work", "llm-node-0", job[0]["uid"])


async def test_an_owner_of_the_same_name_that_came_later_tells_nothing() -> None:
    fleet = Told()
    job = fleet.owned(JOB, "llm-node-0", fleet.owned(JOB_SET, "llm"))
    stale = [{**job[0], "uid": "another"}]
    assert await fleet.job_of("a", ownerReferences=stale) == JobRef("Job", "batch/v1", "work", "llm-node-0", "another")


async def test_pods_of_one_job_cost_one_look_and_a_failure_is_not_tried_at_once_again() -> None:
    fleet = Told()
    job = fleet.owned(JOB, "train")
    for number in range(3):
        await fleet.job_of(f"train-{number}", ownerReferences=job)
    assert fleet.read == ["jobs/train"]
    await fleet.time.pass_by(KNOWN_SECONDS)
    fleet.fails["jobs"] = Unreachable("gone")
    for number in range(3):
        await fleet.job_of(f"train-{number}")
    assert len(fleet.read) == 2
    fleet.fails.clear()
    await fleet.time.pass_by(UNREAD_SECONDS)
    await fleet.job_of("train-0")
    assert len(fleet.read) == 3


async def test_the_jobs_that_held_a_gpu_are_told_by_the_pods_that_its_fault_names() -> None:
    fleet = Told()
    fleet.pod("train-0", ownerReferences=fleet.owned(JOB, "train"))
    fleet.pod("train-1", ownerReferences=fleet.get(PODS, "train-0", space="work")["metadata"]["ownerReferences"])
    fleet.pod("alone")
    uids = {name: fleet.get(PODS, name, space="work")["metadata"]["uid"] for name in ("train-0", "train-1", "alone")}
    (one,) = told([xid(31, 0.0)]).faults
    fault = gpu_fault(one, "gpu-1")
    spec = replace(
        fault.spec,
        holders=(
            FaultHolder(1, pod=PodRef("work", "train-1", uids["train-1"])),
            FaultHolder(2, pod=PodRef("work", "alone", "an-earlier-one")),
            FaultHolder(3),
            FaultHolder(4, pod=PodRef(uid="of-unknown-name")),
        ),
    )
    given = FaultPods(1.0, (FaultPod("work", "train-0", uids["train-0"]), FaultPod("work", "gone", "u-9")))
    found = await fleet.time.run(fleet.jobs.holding(replace(fault, spec=spec, status=FaultStatus(pods=given))))
    assert [str(job) for job in found] == ["Job work/train"]


@pytest.mark.parametrize(
    ("job", "labels", "owner", "is_its"),
    [
        (JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "work", "llm", "s-1"), SET_LABELS, "j-1", True),
        (JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "work", "llm", "s-2"), SET_LABELS, "j-1", False),
        (JobRef("TrainJob", "trainer.kubeflow.org/v1alpha1", "work", "llm", "t-1"), SET_LABELS, "j-1", True),
        (JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "other", "llm", "s-1"), SET_LABELS, "j-1", False),
        (JobRef("Job", "batch/v1", "work", "a", "j-1"), {"batch.kubernetes.io/job-name": "a"}, "j-1", True),
        (JobRef("Job", "batch/v1", "work", "a", "j-1"), {"batch.kubernetes.io/job-name": "b"}, "j-1", True),
        (JobRef("Job", "batch/v1", "work", "a", "j-1"), {"batch.kubernetes.io/job-name": "b"}, "j-2", False),
        (
            JobRef("PyTorchJob", "kubeflow.org/v1", "work", "a", "p-1"),
            {"training.kubeflow.org/job-name": "a"},
            "",
            True,
        ),
        (
            JobRef("PyTorchJob", "kubeflow.org/v1", "work", "a", "p-1"),
            {"training.kubeflow.org/job-name": "a"},
            "p-2",
            False,
        ),
        (JobRef("RayCluster", "ray.io/v1", "work", "r", "r-1"), {}, "r-1", True),
        (JobRef("RayCluster", "ray.io/v1", "work", "r", "r-1"), {}, "r-2", False),
        (JobRef("Pod", "v1", "work", "x", "x-uid"), {}, "", True),
    ],
)
def test_a_pod_is_a_jobs_by_label_and_uid(job: JobRef, labels: dict[str, str], owner: str, *, is_its: bool) -> None:
    owners = [{"kind": "Any", "name": "o", "uid": owner, "controller": True}] if owner else []
    metadata = {"namespace": "work", "name": "x", "uid": "x-uid", "labels": labels, "ownerReferences": owners}
    assert is_part(pod_of({"metadata": metadata}), job) is is_its


def test_the_pods_of_a_train_job_are_found_by_its_set() -> None:
    train = JobRef("TrainJob", "trainer.kubeflow.org/v1alpha1", "work", "llm", "t-1")
    assert selector_of(train) == "jobset.sigs.k8s.io/jobset-name=llm"
    assert selector_of(JobRef("RayCluster", "ray.io/v1", "work", "r", "r-1")) == ""
