"""The fleet as the JSON objects that other programs read. The keys are a promise; see docs/json.md."""

from typing import Any

from gpuward.cli.fleet.next_steps import next_of
from gpuward.cli.times import as_json
from gpuward.controller.desk.glance import CaseGlance, LeaseGlance, NodeGlance, node_glance
from gpuward.controller.desk.naming import Named
from gpuward.controller.desk.pausing import Paused
from gpuward.controller.desk.reading import Board, Indices, indices_of, lacks
from gpuward.controller.desk.reporting import Group, Incident, Report
from gpuward.controller.desk.story import Story, is_heard
from gpuward.model.case import EffectKind
from gpuward.model.objects.gpu_case import GpuCase, TimelineEntry, Victim
from gpuward.model.objects.notice import Noticed
from gpuward.model.objects.pause import Pause
from gpuward.model.objects.standby_pool import StandbyPool

NO_AGENT = "no agent"
"""The state of a node with GPUs on which no agent ever ran."""


def board_value(board: Board) -> dict[str, Any]:
    """Return the fleet at one look; what is not known is null."""
    indices = indices_of(board.nodes)
    return {
        "at": as_json(board.now),
        "well": board.is_well,
        "modes": modes_of(board.nodes),
        "paused": pause_value(board.pause),
        "leader": leader_value(board.leader, leads=board.leads),
        "nodes": len(board.nodes) + len(board.agentless or ()),
        "silent": [{"node": name, "since": as_json(since)} for name, since in board.silent]
        if board.has_leases
        else None,
        "agentless": None if board.agentless is None else list(board.agentless),
        "held": [{"node": node.name, "because": node.held} for node in board.nodes if node.held],
        "gpus": dict(sorted(board.states.items())),
        "pools": list(map(pool_value, board.pools)),
        "cases": [case_value(case, indices=indices) for case in board.cases],
        "troubles": list(board.troubles),
    }


def modes_of(nodes: tuple[NodeGlance, ...]) -> dict[str, int]:
    """Return how many nodes the controller lets go how far; `none`: it has said nothing yet."""
    counted: dict[str, int] = {}
    for node in nodes:
        counted[node.wanted or "none"] = counted.get(node.wanted or "none", 0) + 1
    return dict(sorted(counted.items()))


def case_value(case: CaseGlance, *, indices: Indices) -> dict[str, Any]:
    """Return a case as a row."""
    return {
        "case": case.name,
        "node": case.node or None,
        "gpu": indices.get((case.node, case.gpu)),
        "pci": case.gpu or None,
        "uuid": case.gpu_uuid or None,
        "kind": case.kind,
        "code": case.code,
        "title": case.title,
        "level": case.level,
        "class": case.fault_class,
        "state": case.state,
        "opened_at": as_json(case.opened_at),
        "since": as_json(case.since),
        "because": case.because,
        "next": next_of(case),
        "undo": undo_of(case),
        "drill": case.drill or None,
        "standby": case.standby or None,
        "pods_left": len(case.pods_left),
        "passed_over": case.passed_over,
        "unheard": case.unheard,
    }


def undo_of(case: CaseGlance) -> str | None:
    """Return the command that undoes every mark of a case; None for one that has ended."""
    return f"gpuward release {case.name}" if case.is_open else None


def nodes_value(board: Board) -> dict[str, Any]:
    """Return the GPU servers, those without an agent last; of these nothing is known but that they are there."""
    untold = [node_value(node_glance({"metadata": {"name": name}}), board) for name in board.agentless or ()]
    return {
        "nodes": [node_value(node, board) for node in board.nodes] + untold,
        "troubles": list(board.troubles),
    }


def state_of(name: str, board: Board) -> str | None:
    """Return whether the agent of a node is heard of: `heard`, `silent`, `no agent`; None where nobody can see it."""
    if name in (board.agentless or ()):
        return NO_AGENT
    if not board.has_leases:
        return None
    lease = board.agents.get(name)
    return "silent" if lease is None or lease.is_silent(board.now) else "heard"


def node_value(node: NodeGlance, board: Board) -> dict[str, Any]:
    """Return a GPU server as a row."""
    lease, state = board.agents.get(node.name), state_of(node.name, board)
    return {
        "node": node.name,
        "state": state,
        "gpus": [
            {
                "gpu": gpu.index,
                "pci": gpu.pci or None,
                "uuid": gpu.uuid or None,
                "model": gpu.model or None,
                "state": gpu.state,
                "health": gpu.health,
                "because": gpu.because,
            }
            for gpu in node.gpus
        ],
        "mode": node.wanted or None,
        "agent_mode": node.mode or None,
        "agent": node.agent or None,
        "driver": node.driver or None,
        "heard_at": None if lease is None else as_json(lease.renewed),
        "silent": None if state is None else state != "heard",
        "held": node.held or None,
        "trouble": node.trouble or None,
        "cases": [case.name for case in board.cases if case.node == node.name],
    }


def pool_value(pool: StandbyPool) -> dict[str, Any]:
    """Return a standby pool."""
    status = pool.status
    return {
        "pool": pool.head.name,
        "product": pool.spec.shape.product,
        "size": pool.spec.size,
        "ready": [] if status is None else list(status.ready),
        "short": lacks(pool),
        "because": "" if status is None else status.because,
    }


def pause_value(pause: Pause) -> dict[str, Any] | None:
    """Return who paused the fleet, when and why; None while it is not."""
    return {"by": pause.by, "at": as_json(pause.at), "because": pause.because} if pause.on else None


def leader_value(leader: LeaseGlance | None, *, leads: bool) -> dict[str, Any] | None:
    """Return who leads; None where nobody does, or ever did."""
    if leader is None or not leader.holder:
        return None
    return {
        "name": leader.holder,
        "since": as_json(leader.since),
        "heard_at": as_json(leader.renewed),
        "leads": leads,
    }


def paused_value(paused: Paused) -> dict[str, Any]:
    """Return what became of a word to pause or to go on."""
    return {"paused": pause_value(paused.now), "changed": paused.changed, "before": pause_value(paused.before)}


def meant_value(named: Named, stories: list[Story]) -> dict[str, Any]:
    """Return all that `why` tells of a name."""
    return {"name": named.name, "what": str(named.what), "stories": list(map(story_value, stories))}


def story_value(story: Story) -> dict[str, Any]:
    """Return one story."""
    case, status, verdict = story.case, story.case.status, story.verdict
    return {
        "case": case.head.name,
        "node": case.spec.node,
        "gpu": story.index,
        "pci": case.spec.gpu,
        "uuid": case.spec.gpu_uuid,
        "state": str(case.spec.state if status is None else status.state),
        "level": str(case.spec.level if status is None else status.level),
        "class": str(case.spec.fault_class),
        "drill": None if case.spec.drill is None else str(case.spec.drill),
        "fault": case.spec.fault,
        "kind": case.spec.kind,
        "code": case.spec.code,
        "title": case.spec.title,
        "lines": list(story.lines),
        "rules": list(story.rules),
        "verdict": case.spec.because if verdict is None else verdict.because,
        "action": None if verdict is None else verdict.action,
        "plan": list(story.plan),
        "effects": [
            {
                "number": effect.number,
                "effect": str(effect.kind),
                "asked_at": as_json(effect.asked_at),
                "ended_at": as_json(effect.ended_at),
                "outcome": str(effect.outcome),
                "why": effect.why,
            }
            for effect in (case.spec.effects if status is None else status.effects)
        ],
        "had_gpu": list(story.had_gpu),
        "had_gpu_trouble": story.had_gpu_trouble,
        "jobs": [f"{job.kind}/{job.namespace}/{job.name}" for job in case.spec.jobs],
        "notices": [] if status is None else list(map(_notice, status.noticed)),
        "passed_over": "" if status is None else status.passed_over,
        "pods": [] if status is None else list(map(_pod, status.victims)),
        "standby": None
        if status is None or not status.standby
        else {"node": status.standby, "job": status.job or None},
        "proof": proof_of(case),
        "timeline": [] if status is None else list(map(_entry, status.timeline)),
        "orders": [
            {
                "number": one.number,
                "what": str(one.what),
                "forced": one.forced,
                "by": one.by,
                "because": one.because,
                "heard": is_heard(case, one),
            }
            for one in case.spec.orders
        ],
        "because": case.spec.because if status is None else status.because,
        "due": case.spec.due if status is None else status.due,
        "trouble": story.trouble,
    }


def proof_of(case: GpuCase) -> dict[str, Any] | None:
    """Return what became of the newest proof of the GPU; None where none was asked for."""
    effects = () if case.status is None else case.status.effects
    proof = next((one for one in reversed(effects) if one.kind is EffectKind.VERIFY), None)
    if proof is None:
        return None
    return {"at": as_json(proof.ended_at), "outcome": str(proof.outcome), "why": proof.why}


def report_value(report: Report, *, indices: Indices) -> dict[str, Any]:
    """Return a report."""
    return {
        "since": as_json(report.since),
        "until": as_json(report.now),
        "groups": list(map(_group, report.groups)),
        "cases": [_incident(one, index=indices.get((one.case.node, one.case.gpu))) for one in report.incidents],
        "drills": report.drills,
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "came": str(group.came),
        "class": group.fault_class,
        "kind": group.kind,
        "code": group.code,
        "title": group.title,
        "level": group.level,
        "count": group.count,
        "nodes": group.nodes,
        "pods": group.pods,
        "why": group.why,
    }


def _incident(one: Incident, *, index: int | None) -> dict[str, Any]:
    return {
        "case": one.case.name,
        "node": one.case.node,
        "gpu": index,
        "pci": one.case.gpu or None,
        "opened_at": as_json(one.case.opened_at),
        "came": str(one.came),
        "why": one.why,
        "pods": list(one.pods),
    }


def _notice(one: Noticed) -> dict[str, Any]:
    return {
        "job": f"{one.job.kind}/{one.job.namespace}/{one.job.name}",
        "generation": one.generation,
        "issued": as_json(one.issued),
        "deadline": as_json(one.deadline),
        "told_at": as_json(one.told_at),
        "told": one.pods,
        "untold": list(one.untold),
        "withdrawn_at": as_json(one.withdrawn_at),
    }


def _pod(victim: Victim) -> dict[str, Any]:
    return {
        "pod": victim.pod,
        "uid": victim.uid or None,
        "owner": victim.owner or None,
        "asked_at": as_json(victim.asked_at),
        "gone_at": as_json(victim.gone_at),
        "because": victim.because,
    }


def _entry(entry: TimelineEntry) -> dict[str, Any]:
    return {
        "at": as_json(entry.at),
        "what": str(entry.what),
        "state": None if entry.state is None else str(entry.state),
        "because": entry.because,
    }
