"""The same application fault on many GPUs of one job: when it is the job's own, and when nobody can say."""

from gpuward.isolation.job_faults import JobFault, own_faults
from gpuward.model.job import JobRef

TRAIN = JobRef("JobSet", "jobset.x-k8s.io/v1alpha2", "ml", "train", "u1")
OTHER = JobRef("Job", "batch/v1", "ml", "other", "u2")


def on(number: int, *jobs: JobRef, name: str = "xid:31", gpu: str = "0000:3f:00") -> JobFault:
    return JobFault(f"f{number}", name, f"gpu-{number}", gpu, jobs or (TRAIN,))


def test_on_three_gpus_of_one_job_it_is_the_jobs() -> None:
    own = own_faults([on(1), on(2), on(3)])
    assert own == dict.fromkeys(
        ("f1", "f2", "f3"),
        "xid:31 came on 3 GPUs of JobSet ml/train, so it is that job's own fault and not the hardware's",
    )


def test_on_two_it_is_not() -> None:
    assert not own_faults([on(1), on(2)])


def test_the_same_gpu_counts_once() -> None:
    assert not own_faults([on(1), on(1), on(1), on(2)])


def test_gpus_of_one_node_count_each() -> None:
    assert len(own_faults([on(1), on(1, gpu="0000:40:00"), on(1, gpu="0000:41:00")])) == 1


def test_other_jobs_and_other_faults_count_by_themselves() -> None:
    found = own_faults([on(1), on(2), on(3, OTHER), on(4, name="xid:45")])
    assert not found
    assert set(own_faults([on(1), on(2), on(3), on(4, OTHER), on(5, name="xid:45")])) == {"f1", "f2", "f3"}


def test_a_gpu_that_several_jobs_hold_tells_nothing() -> None:
    assert not own_faults([on(1), on(2), on(3, TRAIN, OTHER)])
