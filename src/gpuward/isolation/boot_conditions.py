"""The questions that the table asks about a boot of the node that came by itself. Each is one fact."""

from gpuward.isolation.conditions import NOT_DONE, observing, settled, urgent, withdrawn
from gpuward.model.case import Case, Effect, EffectKind, Mode, Outcome
from gpuward.model.scene import Scene

MOST_TRIES = 4
"""So often in one state is asked for what a boot comes before; a node that boots again and again waits for a person."""


def is_of_an_earlier_boot(effect: Effect, scene: Scene) -> bool:
    """Return whether the node was booted since an effect was ordered; not known, it was not."""
    return bool(effect.boot and scene.node.told) and effect.boot != scene.node.told


def is_lifted(case: Case, scene: Scene) -> bool:
    """Return whether the drain that is wanted was ordered on an earlier boot: it does not stand any more."""
    kinds = (EffectKind.DRAIN, EffectKind.UNDRAIN)
    newest = next((one for one in reversed(case.effects) if one.kind in kinds), None)
    if newest is None or newest.kind is EffectKind.UNDRAIN or newest.outcome is Outcome.ASKED:
        return False
    return is_of_an_earlier_boot(newest, scene)


def evidence_was_cut(case: Case, scene: Scene) -> bool:
    """Return whether a boot came before the evidence, and it may be kept all the same."""
    newest = _cut(case, scene, EffectKind.EVIDENCE)
    return newest is not None and not is_over(case, scene) and is_left(case, EffectKind.EVIDENCE)


def evidence_and_urgent_drain_were_cut(case: Case, scene: Scene) -> bool:
    """Return whether a boot came before the evidence of an urgent case and lifted its drain, and both may be had."""
    return evidence_was_cut(case, scene) and urgent_drain_was_lifted_by_a_boot(case, scene)


def drain_was_lifted_by_a_boot(case: Case, scene: Scene) -> bool:
    """Return whether a boot lifted the drain, or came before it, and it may be drained again."""
    return is_lifted(case, scene) and not observing(case, scene) and is_left(case, EffectKind.DRAIN)


def urgent_drain_was_lifted_by_a_boot(case: Case, scene: Scene) -> bool:
    """Return whether a boot lifted the drain of an urgent case, and nothing else is under way."""
    goes_on = settled(case, scene) and urgent(case, scene) and not is_over(case, scene)
    return goes_on and drain_was_lifted_by_a_boot(case, scene)


def booted_instead_of_the_reset(case: Case, scene: Scene) -> bool:
    """Return whether a boot came before the reset was known to be done: it resets every GPU of the node."""
    return _cut(case, scene, EffectKind.RESET) is not None


def services_run_again(case: Case, scene: Scene) -> bool:
    """Return whether a boot came before or after services were stopped for a reset, and they may be stopped again."""
    return _is_unpaused(case, scene) and is_left(case, EffectKind.PAUSE)


def proof_was_cut(case: Case, scene: Scene) -> bool:
    """Return whether a boot came before the proof, which is no failure of it, and it may be asked for again."""
    return _cut(case, scene, EffectKind.VERIFY) is not None and is_left(case, EffectKind.VERIFY)


def boots_too_often(case: Case, scene: Scene) -> bool:
    """Return whether a boot came however often evidence, the stopping of services or the proof was asked for."""
    cut = [kind for kind in (EffectKind.EVIDENCE, EffectKind.VERIFY) if _cut(case, scene, kind) is not None]
    cut += [EffectKind.PAUSE] if _is_unpaused(case, scene) else []
    return not all(is_left(case, kind) for kind in cut)


def _cut(case: Case, scene: Scene, kind: EffectKind) -> Effect | None:
    """Return the newest effect of a kind in this state if it was not done, and the node was booted since."""
    newest = case.newest(kind)
    if newest is None or not settled(case, scene) or newest.outcome not in NOT_DONE:
        return None
    return newest if is_of_an_earlier_boot(newest, scene) else None


def _is_unpaused(case: Case, scene: Scene) -> bool:
    newest = case.newest(EffectKind.PAUSE)
    was_booted = newest is not None and is_of_an_earlier_boot(newest, scene)
    to_be_reset = scene.mode is Mode.REPAIR and case.newest(EffectKind.RESET) is None
    return settled(case, scene) and was_booted and to_be_reset


def is_left(case: Case, kind: EffectKind) -> bool:
    """Return whether an effect may be asked for once more in this state."""
    return sum(effect.kind is kind for effect in case.effects[case.entered_with :]) < MOST_TRIES


def is_over(case: Case, scene: Scene) -> bool:
    """Return whether nothing more is done for a case that is fenced."""
    return withdrawn(case, scene) or observing(case, scene)
