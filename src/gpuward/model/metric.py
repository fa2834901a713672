"""What is counted and measured for a monitoring system, as rows. Who counts, and how it is shown, is not here.

The number of series is bounded: a label's values are a closed set, or the names of pools, of which there are few. No
label is a node, a GPU, a pod or a case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuward.model.case import CaseState, EffectKind, Outcome
from gpuward.model.level import FaultClass, Level

OTHER = "other"
"""What a label says of a value that is not of its set, or of one too many."""
MOST_NAMES = 64
"""So many names a label without a closed set may have."""


class MetricKind(StrEnum):
    """How a metric behaves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label; `values` empty: names that people gave, MOST_NAMES at most."""

    name: str
    says: str
    values: tuple[str, ...] = ()

    def value_of(self, value: str) -> str:
        """Return the value as it is shown."""
        return value if not self.values or value in self.values else OTHER


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets` are the upper ends of a histogram's, in seconds."""

    name: str
    kind: MetricKind
    says: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    looked: bool = False
    """A counter that somebody else keeps, and that is looked at; a gauge always is."""

    @property
    def is_counted(self) -> bool:
        """Whether it is counted as things happen, and not looked at when somebody asks."""
        return self.kind is not MetricKind.GAUGE and not self.looked


_OPEN = tuple(str(state) for state in CaseState if state not in {CaseState.CLOSED, CaseState.WITHDRAWN})
_STATE = Label("state", "where the case is", _OPEN)
_LEVEL = Label("level", "what is done about it", (str(Level.P0), str(Level.P1)))
_CLASS = Label("class", "whose fault it is", tuple(map(str, FaultClass)))
_HOW = Label("how", "how it ended", ("returned", "closed", "withdrawn", "drill"))
_BY = Label("by", "what holds it", ("observe", "job", "brake", "budget", "approval", "standby"))
_EFFECT = Label("effect", "what was asked for", tuple(map(str, EffectKind)))
_OUTCOME = Label("outcome", "what became of it", tuple(map(str, Outcome)))
_POOL = Label("pool", "the pool of the settings that the node is of")
_STANDBY_POOL = Label("pool", "the StandbyPool")
_VERB = Label("verb", "what was asked", ("list", "watch", "get", "create", "patch", "delete", "evict"))
_ANSWER = Label("answer", "what came of it", ("done", "unreachable", "refused", "conflict"))
_SAYS = Label("status", "what the condition says", ("True", "False", "Unknown"))
_KIND = Label("kind", "the kind of object", ("nodes", "gpu_nodes", "faults", "cases", "pools", "pause"))
_PRUNED = Label("kind", "what was taken away", ("gpufaults", "gpucases", "gpunodes", "leases"))
_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM
_FAST = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_ROUND = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

METRICS: tuple[Metric, ...] = (
    Metric("gpuward_leader", _G, "1 while this controller leads, else 0."),
    Metric("gpuward_cases_open", _G, "Cases that have not ended, drills not counted.", (_STATE, _LEVEL, _CLASS)),
    Metric("gpuward_cases_held", _G, "Open cases of which nothing is done yet.", (_BY, _POOL)),
    Metric("gpuward_cases_ended_total", _C, "Cases that ended while this controller led.", (_HOW,)),
    Metric("gpuward_effects_total", _C, "Effects whose outcome became known.", (_EFFECT, _OUTCOME)),
    Metric(
        "gpuward_fault_to_taint_seconds",
        _H,
        "From the first line of a fault, by its node's clock, until its taint was seen.",
        buckets=_FAST,
    ),
    Metric("gpuward_nodes", _G, "GPU nodes by what their condition GPUFault says.", (_SAYS,)),
    Metric(
        "gpuward_agents_silent", _G, "GPU nodes whose agent has not said for three minutes that it lives; the leader's."
    ),
    Metric("gpuward_standby_ready", _G, "Healthy nodes that stand by.", (_STANDBY_POOL,)),
    Metric("gpuward_standby_short", _G, "Nodes that a pool lacks.", (_STANDBY_POOL,)),
    Metric(
        "gpuward_round_seconds",
        _H,
        "How long a round of the loop took; its count is that of the rounds.",
        buckets=_ROUND,
    ),
    Metric("gpuward_round_nodes", _G, "Nodes that had something to decide in the newest round."),
    Metric("gpuward_troubles_total", _C, "Troubles that rounds ended with, each counted in every round."),
    Metric("gpuward_picture_age_seconds", _G, "For how long nothing was heard of a kind of object.", (_KIND,)),
    Metric("gpuward_api_calls_total", _C, "Calls to the API server, after all their tries.", (_VERB, _ANSWER)),
    Metric("gpuward_pruned_total", _C, "Old objects that were taken away.", (_PRUNED,), looked=True),
    Metric("gpuward_events_written_total", _C, "Events that the API server has taken.", looked=True),
    Metric("gpuward_events_dropped_total", _C, "Events that were never sent, for too many waited.", looked=True),
)
BY_NAME: Mapping[str, Metric] = {row.name: row for row in METRICS}
