"""The job that a pod is part of: which kinds of owners are jobs, and how pods of each are known. It reads nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuward.model.found import is_name
from gpuward.model.pod import Owner, PodSight
from gpuward.model.resource import Resource


@dataclass(frozen=True, slots=True)
class JobRef:
    """What runs in pods, at the top of its chain of owners. `uid` is empty where only a label tells of it."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        """Return it as people name it."""
        return f"{self.kind} {self.namespace}/{self.name}"

    def is_same(self, other: "JobRef") -> bool:
        """Return whether both are one job, as far as is known: one of the same name made later is another."""
        mine, others = (self.kind, self.namespace, self.name), (other.kind, other.namespace, other.name)
        return mine == others and (self.uid == other.uid or not (self.uid and other.uid))


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job. Of its version the reference to it tells: that changes with the software."""

    group: str
    plural: str
    kind: str
    label: str
    """On each of its pods: its name."""
    uid_label: str = ""
    """On each of its pods: its UID."""
    climbs: bool = False
    """Another of these kinds may own it, so it must be read."""

    def resource(self, api_version: str) -> Resource:
        """Return where an object of the kind is read, in the version of a reference to it."""
        return Resource(self.group, api_version.rpartition("/")[2], self.plural, self.kind, namespaced=True)


_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOB = JobKind(
    "batch",
    "jobs",
    "Job",
    label="batch.kubernetes.io/job-name",
    uid_label="batch.kubernetes.io/controller-uid",
    climbs=True,
)
"""Kubernetes' own (batch/v1, labels since 1.27)."""
JOB_SET = JobKind(
    "jobset.x-k8s.io",
    "jobsets",
    "JobSet",
    label=_JOBSET_NAME,
    uid_label="jobset.sigs.k8s.io/jobset-uid",
    climbs=True,
)
PYTORCH_JOB = JobKind("kubeflow.org", "pytorchjobs", "PyTorchJob", label="training.kubeflow.org/job-name")
TRAIN_JOB = JobKind("trainer.kubeflow.org", "trainjobs", "TrainJob", label=_JOBSET_NAME)
"""Its JobSet has its name (Kubeflow Trainer v2), and it has no label of its own on the pods."""
JOB_KINDS = (JOB, JOB_SET, PYTORCH_JOB, TRAIN_JOB)
_BY_LABEL = (JOB_SET, PYTORCH_JOB, JOB)
"""Whose label is believed when an owner cannot be read, the highest in the chain first."""
_NO_JOBS = frozenset({"DaemonSet", "Node"})
"""What owns pods that belong to the node, and not to a job."""
_API = {JOB.kind: "batch/v1", JOB_SET.kind: "jobset.x-k8s.io/v1alpha2", PYTORCH_JOB.kind: "kubeflow.org/v1"}
"""The version of a kind where nothing but a label tells of it."""


def job_kind_of(kind: str, api_version: str) -> JobKind | None:
    """Return the row of an owner's kind, None for one that is not here."""
    group = api_version.rpartition("/")[0]
    return next((row for row in JOB_KINDS if (row.kind, row.group) == (kind, group)), None)


def is_of_the_node(pod: PodSight) -> bool:
    """Return whether a pod belongs to its node and to no job."""
    return pod.mirror or (pod.owner is not None and pod.owner.kind in _NO_JOBS)


def owned_by(owner: Owner, namespace: str) -> JobRef:
    """Return the owner of a pod as a job."""
    return JobRef(owner.kind, owner.api_version, namespace, owner.name, owner.uid)


def labelled(labels: Mapping[str, str], namespace: str) -> JobRef | None:
    """Return the job that a pod's labels name, None where they name none."""
    row = next((row for row in _BY_LABEL if is_name(labels.get(row.label, ""))), None)
    if row is None:
        return None
    return JobRef(row.kind, _API[row.kind], namespace, labels[row.label], labels.get(row.uid_label, ""))


def alone(pod: PodSight) -> JobRef:
    """Return a pod that nobody owns as the job that it is."""
    return JobRef("Pod", "v1", pod.namespace, pod.name, pod.uid)


def selector_of(job: JobRef) -> str:
    """Return the label selector that its pods have in common within its namespace; empty: its kind has none."""
    row = job_kind_of(job.kind, job.api_version)
    return "" if row is None else f"{row.label}={job.name}"


def is_part(pod: PodSight, job: JobRef) -> bool:
    """Return whether a pod of the job's namespace is the job's, as its owner or its labels tell."""
    row = job_kind_of(job.kind, job.api_version)
    owner = "" if pod.owner is None else pod.owner.uid
    if pod.namespace != job.namespace:
        return False
    if job.uid and job.uid in {owner, pod.uid if pod.owner is None else ""}:
        return True
    if row is None:
        return False
    if pod.labels.get(row.label) != job.name:
        return False
    # A label may be old, or anybody's; where a UID stands beside it, that is believed.
    uid = pod.labels.get(row.uid_label, "") if row.uid_label else owner if row is PYTORCH_JOB else ""
    return not (uid and job.uid) or uid == job.uid
