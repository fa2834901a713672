"""The story of a case as a person reads it: line, row, rule, plan, steps, proof; and the report of a while."""

from collections import Counter
from collections.abc import Iterator

from gpuward.cli.fleet.values import proof_of
from gpuward.cli.fleet.words import Look, names, place_of, table
from gpuward.cli.meaning import sentence_of
from gpuward.cli.times import as_shown
from gpuward.controller.desk.reading import Indices
from gpuward.controller.desk.reporting import Came, Report
from gpuward.controller.desk.story import Story, is_heard
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.model.case import ENDED, Effect
from gpuward.model.counted import many
from gpuward.model.happening import What
from gpuward.model.objects.gpu_case import CaseOrder, CaseStatus, GpuCase, TimelineEntry, Victim
from gpuward.model.objects.notice import Noticed

_MOST_PODS = 20


def story_lines(story: Story, look: Look) -> Iterator[str]:
    """Yield the story of a case, from the line in the log to its proof and how to undo it."""
    case, status = story.case, story.case.status
    state = case.spec.state if status is None else status.state
    since = case.spec.opened_at if status is None else status.since
    drill = "" if case.spec.drill is None else f", a drill of mode {case.spec.drill}: nothing is changed by it"
    yield f"case {case.head.name}: {state} since {look.since(since)}{drill}"
    yield f"where    {_place(story)}"
    yield f"what     {case.spec.title}: {case.spec.level if status is None else status.level} {case.spec.fault_class}"
    yield from _from_line_to_verdict(story)
    yield from _had_gpu(story)
    yield from (f"job      {job.kind} {job.name} in {job.namespace} had the GPU" for job in case.spec.jobs)
    yield f"plan     {', '.join(story.plan) or 'nothing is done in this mode'}"
    for effect in case.spec.effects if status is None else status.effects:
        yield f"step     {_step(effect, look)}"
    if status is not None:
        yield from (f"told     {_notice(one, look)}" for one in status.noticed)
        yield from (f"told     {one}" for one in (status.passed_over,) if one)
        yield from _pods(status, look)
        if status.standby:
            job = status.owner or status.job
            yield f"standby  {status.standby}" + (f" for {job}" if job else "")
    proof = proof_of(case)
    yield f"proof    {'none was asked for yet' if proof is None else _proof(proof)}"
    yield f"opened   {as_shown(case.spec.opened_at, look.zone)}  {case.spec.because}"
    yield from (f"then     {entry_line(entry, look)}" for entry in told_of(status))
    yield from (f"order    {_order(case, order)}" for order in case.spec.orders)
    yield from _ending(case, state in ENDED)


def told_of(status: CaseStatus | None) -> tuple[TimelineEntry, ...]:
    """Return what is told of a timeline; effects are told with their outcome, as steps."""
    return () if status is None else tuple(entry for entry in status.timeline if entry.what is not What.EFFECT)


def entry_line(entry: TimelineEntry, look: Look) -> str:
    """Return one thing that happened in a case."""
    state = "" if entry.state is None else f"-> {entry.state}: "
    return f"{as_shown(entry.at, look.zone)}  {entry.what}  {state}{entry.because}"


def effect_line(effect: Effect) -> str:
    """Return one effect and what became of it."""
    why = f": {effect.why}" if effect.why else ""
    return f"{effect.number} {effect.kind} {effect.outcome}{why}"


def _place(story: Story) -> str:
    spec, node = story.case.spec, story.node
    if spec.gpu is None:
        return f"{spec.node}, the whole node"
    gpu = None if node is None else node.gpu_named("", pci=spec.gpu)
    number = "" if story.index is None else f" {story.index}"
    now = f"; now {gpu.state}, {gpu.health}" if gpu is not None else ""
    return f"{spec.node} GPU{number} at {spec.gpu}, {spec.gpu_uuid or 'its UUID is not known'}{now}"


def _from_line_to_verdict(story: Story) -> Iterator[str]:
    spec, verdict = story.case.spec, story.verdict
    yield from (f"line     {line}" for line in story.lines)
    if story.trouble:
        yield f"line     {story.trouble}"
    xid = load().xid(spec.code) if spec.code is not None and spec.kind.startswith("xid") else None
    named, word = (spec.kind, spec.kind) if xid is None else (f"Xid {spec.code}", str(spec.code))
    asks = "" if xid is None else f"; NVIDIA asks for {xid.immediate_action}"
    yield f"row      {named}{asks}; `gpuward explain {word}` tells all of it"
    for name in story.rules:
        rule = load_rules().rule(name)
        yield f"rule     {name}" + (f": {sentence_of(rule)}" if rule is not None and rule.say else "")
    yield f"verdict  {spec.because if verdict is None else verdict.because}"
    if verdict is not None and verdict.action:
        yield f"do       {verdict.action}"


def _had_gpu(story: Story) -> Iterator[str]:
    """Yield the pods that had the GPU when the fault came, and why others may have had it; nothing without a fault."""
    if story.fault is None or story.case.spec.gpu is None:
        return
    pods, trouble = names(story.had_gpu, _MOST_PODS), story.had_gpu_trouble
    others = f"{'of others it is ' if pods else ''}not known: {trouble}" if trouble else ""
    yield f"had GPU  {'; '.join(filter(None, (pods, others))) or 'no pod'}"


def _step(effect: Effect, look: Look) -> str:
    at = effect.asked_at if effect.ended_at is None else effect.ended_at
    return f"{as_shown(at, look.zone)}  {effect_line(effect)}"


def _notice(one: Noticed, look: Look) -> str:
    """Return a job that was told to save, until when, and who could not be told."""
    if one.withdrawn_at is not None:
        return f"{one.job} was told to save, and that nothing is evicted after all"
    untold = f"; not told: {'; '.join(one.untold)}" if one.untold else ""
    told = many(one.pods, "pod knows it", "pods know it")
    return f"{one.job} has until {as_shown(one.deadline, look.zone)} to save, {told}{untold}"


def _pods(status: CaseStatus, look: Look) -> Iterator[str]:
    for victim in status.victims[:_MOST_PODS]:
        yield f"pod      {_pod(victim, look)}"
    if len(status.victims) > _MOST_PODS:
        yield f"pod      and {len(status.victims) - _MOST_PODS} more"


def _pod(victim: Victim, look: Look) -> str:
    owner = f" of {victim.owner}" if victim.owner and not victim.owner.startswith("Pod/") else ""
    if victim.gone_at is not None:
        return f"{victim.pod}{owner}: gone {as_shown(victim.gone_at, look.zone)}"
    return f"{victim.pod}{owner}: still there" + (f", {victim.because}" if victim.because else "")


def _proof(proof: dict[str, object]) -> str:
    return f"{proof['outcome']}" + (f": {proof['why']}" if proof["why"] else "")


def _order(case: GpuCase, order: CaseOrder) -> str:
    forced = ", forced" if order.forced else ""
    because = f": {order.because}" if order.because else ""
    heard = "heard" if is_heard(case, order) else "not heard yet"
    return f"{order.number} {order.what} by {order.by or 'somebody'}{forced}, {heard}{because}"


def _ending(case: GpuCase, ended: bool) -> Iterator[str]:  # noqa: FBT001  one fact of two
    status = case.status
    due = case.spec.due if status is None else status.due
    yield f"now      {case.spec.because if status is None else status.because}"
    if due:
        yield f"due      {due}"
    if not ended:
        yield f"undo     gpuward release {case.head.name}"


def report_lines(report: Report, look: Look, *, indices: Indices) -> Iterator[str]:
    """Yield what came of the faults of a while, by code and class, then case by case."""
    yield f"since {look.since(report.since)}"
    if not report.groups:
        yield "no fault was told of since then"
        return
    heads = ("CAME", "CLASS", "CODE", "LEVEL", "FAULTS", "NODES", "PODS", "WHAT", "WHY")
    rows = [
        (
            str(group.came),
            group.fault_class,
            group.kind if group.code is None else f"{group.kind} {group.code}",
            group.level,
            str(group.count),
            str(group.nodes),
            str(group.pods),
            group.title,
            group.why,
        )
        for group in report.groups
    ]
    yield from table(heads, rows)
    yield ""
    for one in report.incidents:
        pods = f", with work of {names(one.pods)}" if one.pods else ", with no pod on it that is known"
        where = place_of(one.case, indices.get((one.case.node, one.case.gpu)))
        yield f"{as_shown(one.case.opened_at, look.zone)}  {one.came}: {where}{pods}  ({one.case.name})"
        yield f"                     {one.why}"
    yield _sum_of(report)


def _sum_of(report: Report) -> str:
    counted = Counter(one.came for one in report.incidents)
    said = ", ".join(f"{counted[came]} {came}" for came in Came if counted[came]) or "none"
    drills = f"; {many(report.drills, 'drill is', 'drills are')} left out" if report.drills else ""
    return f"cases: {said}{drills}; in mode observe the brake and the budgets are not asked"
