"""The notice: what a job is told before its pods are evicted, as the annotation of each of its pods holds it.

The case keeps what it told each job, so that the same is told again by whoever goes on with it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from gpuward.model.job import JobRef
from gpuward.model.objects.limits import NODE_NAME, OBJECT_NAME, SENTENCE, TIME, UID, WORDS, Items, Name, Text, Whole
from gpuward.model.objects.owned import CHECKPOINT
from gpuward.model.objects.values import ObjectError, read, write

MOST_BYTES = 65_536
"""A pod's annotations together hold four times as much (apimachinery, TotalAnnotationSizeLimitB)."""
MOST_BAD = 4
MOST_JOBS = 12
"""Of one case: an object holds 1.5 MiB."""
MOST_RANKS = 32
MOST_UNTOLD = 2
GPU = Name(64, pattern="^[A-Za-z0-9:-]+$")
GENERATION = Whole(1, 1_000_000)
_POD_UID = Name(40, pattern=UID.pattern)
_JOB = Name(UID.most, pattern="^[-A-Za-z0-9._:]*$", least=0)


class Verb(StrEnum):
    """What a rank is asked to do."""

    SAVE = "SAVE"
    """The step can still be finished: save its state."""
    PERSIST = "PERSIST"
    """It cannot: write out the newest snapshot that is in memory, without waiting for other ranks."""
    CANCEL = "CANCEL"
    """The eviction that was told is off; a job that saves and goes on has lost nothing."""


class After(StrEnum):
    """What a rank does when it has saved."""

    CONTINUE = "continue"
    """It goes on, until SIGTERM ends its pod. A pod that exits with 0 has its peers wait for it in vain."""
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class BadNode:
    """A node that is going out of service, and which of its GPUs are ill."""

    node: Annotated[str, NODE_NAME, "Its name."]
    gpus: Annotated[
        tuple[str, ...], Items(8, each=GPU), "The ill GPUs by UUID, by PCI address where that is not known."
    ]


@dataclass(frozen=True, slots=True)
class Notice:
    """What one pod is told. The same id, generation and verb is the same notice, however often it is written."""

    id: Annotated[str, OBJECT_NAME, "The GPUCase that it is for."]
    job: Annotated[str, _JOB, "The UID of the job, at the top of its owners; empty where only a label tells of it."]
    generation: Annotated[int, GENERATION, "Counts the notices of this job: a higher one replaces a lower one."]
    verb: Annotated[Verb, None, "What to do."]
    reason: Annotated[str, SENTENCE, "Why, in a sentence."]
    bad: Annotated[tuple[BadNode, ...], Items(MOST_BAD), "The nodes that go out of service."]
    issued: Annotated[float, TIME, "When it was decided."]
    deadline: Annotated[float, TIME, "When the pods on those nodes are evicted at the latest."]
    after: Annotated[After, None, "What to do then."]


@dataclass(frozen=True, slots=True)
class Noticed:
    """A job that is told to save. It stands in the case before the first of its pods is told."""

    job: Annotated[JobRef, None, "The job."]
    generation: Annotated[int, GENERATION, "Counts the notices of this job, of all cases."]
    issued: Annotated[float, TIME, "When it was decided."]
    deadline: Annotated[float, TIME, "When its pods on this node are evicted at the latest."]
    reason: Annotated[str, WORDS, "Why, in a sentence."] = ""
    bad: Annotated[tuple[BadNode, ...], Items(MOST_BAD), "The nodes that it is told of."] = ()
    persist: Annotated[
        tuple[str, ...], Items(MOST_RANKS, each=_POD_UID), "The pods, by UID, that cannot finish their step."
    ] = ()
    pods: Annotated[int, Whole(0, 1_000_000), "How many of its pods have the notice."] = 0
    told_at: Annotated[float | None, TIME, "When every pod that could be told had it."] = None
    untold: Annotated[tuple[str, ...], Items(MOST_UNTOLD, each=Text(200)), "Pods that could not be told, and why."] = ()
    withdrawn_at: Annotated[float | None, TIME, "When it was taken back: nothing is evicted after all."] = None
    cancelled_at: Annotated[float | None, TIME, "When every pod that had it was told so."] = None


def opted_in(labels: Mapping[str, str]) -> bool:
    """Return whether a pod with these labels wants notices: the label is there, and does not say `false`."""
    return labels.get(CHECKPOINT, "false").lower() != "false"


def write_notice(notice: Notice) -> str:
    """Return a notice as the annotation holds it; the same notice always in the same spelling. Raises ObjectError."""
    text = json.dumps(write(notice), separators=(",", ":"))
    if len(text) > MOST_BYTES:
        raise ObjectError(f"the notice has {len(text)} characters, more than {MOST_BYTES}")
    return text


def read_notice(text: str) -> Notice:
    """Return the notice that an annotation holds. Raises ObjectError when it holds none."""
    if len(text) > MOST_BYTES:
        raise ObjectError(f"the notice has more than {MOST_BYTES} characters")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ObjectError(f"the notice is not JSON: {error}") from error
    return read(Notice, value, "notice")
