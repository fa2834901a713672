"""The questions that the table asks about a reboot of the node of a GPU. Each is one fact."""

from gpuward.isolation.conditions import NOT_DONE, held, idle, isolating, obstructed, settled
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Outcome
from gpuward.model.scene import Scene


def is_due(case: Case, scene: Scene) -> bool:
    """Return whether the node is to be rebooted for a GPU on which nothing runs, and may be now."""
    return _is_wanted(case, scene) and _may(scene) and not scene.reboot.waits


def waits(case: Case, scene: Scene) -> bool:
    """Return whether the node is to be rebooted, and others are on it that this would hit."""
    return _is_wanted(case, scene) and _may(scene) and bool(scene.reboot.waits)


def is_next(case: Case, scene: Scene) -> bool:
    """Return whether the reset has just failed, and the node may be rebooted."""
    newest = case.newest(EffectKind.RESET)
    failed = newest is not None and newest.outcome is Outcome.FAILED
    return settled(case, scene) and failed and _may(scene) and not isolating(case, scene)


def was_rebooted(case: Case, scene: Scene) -> bool:
    """Return whether the node was rebooted and answers."""
    newest = case.newest(EffectKind.REBOOT)
    return settled(case, scene) and newest is not None and newest.outcome is Outcome.DONE


def not_rebooted(case: Case, scene: Scene) -> bool:
    """Return whether the reboot was refused or failed."""
    newest = case.newest(EffectKind.REBOOT)
    return settled(case, scene) and newest is not None and newest.outcome in NOT_DONE


def is_held(case: Case, scene: Scene) -> bool:
    """Return whether a reboot that was not asked for yet may not be any more."""
    hindered = held(case, scene) or isolating(case, scene) or not _may(scene) or bool(scene.reboot.waits)
    return _is_begun(case, scene) and hindered


def to_do(case: Case, scene: Scene) -> bool:
    """Return whether evidence is kept, and only the reboot itself is left."""
    newest = case.newest(EffectKind.EVIDENCE)
    return _is_begun(case, scene) and newest is not None and newest.outcome is Outcome.DONE


def _may(scene: Scene) -> bool:
    return EffectKind.REBOOT in scene.reach and not scene.reboot.why_not


def _is_free(case: Case, scene: Scene) -> bool:
    return settled(case, scene) and idle(case, scene) and not isolating(case, scene)


def _is_wanted(case: Case, scene: Scene) -> bool:
    cures = obstructed(case, scene) and scene.reboot.cures
    return _is_free(case, scene) and (cures or _has_failed_to_reset(case))


def _is_begun(case: Case, scene: Scene) -> bool:
    """Return whether the case is on the way to a reboot, which stops no services, and it was not asked for yet."""
    on_its_way = case.state is CaseState.REPAIRING and case.newest(EffectKind.PAUSE) is None
    return settled(case, scene) and on_its_way and case.newest(EffectKind.REBOOT) is None


def _has_failed_to_reset(case: Case) -> bool:
    newest = _last_repair(case)
    return newest is not None and newest.kind is EffectKind.RESET and newest.outcome is Outcome.FAILED


def _last_repair(case: Case) -> Effect | None:
    kinds = (EffectKind.RESET, EffectKind.REBOOT)
    return next((one for one in reversed(case.effects) if one.kind in kinds), None)
