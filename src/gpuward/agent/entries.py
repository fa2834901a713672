"""What an agent writes into its journal, alone or in a cluster, as values. Writing them is not here."""

from gpuward.model.case import Case, Effect
from gpuward.model.fault import Fault
from gpuward.model.happening import Happening, What


def observed(fault: Fault, node: str, *, at: float) -> Happening:
    """Return that a fault was seen, in the words of its newest line."""
    return Happening(
        at=at,
        what=What.OBSERVED,
        node=node,
        gpu=fault.pci or "",
        rule=" ".join(fault.verdict.rules),
        outcome=str(fault.verdict.level),
        because=fault.evidence[-1].text if fault.evidence else fault.title,
    )


def done(case: Case, effect: Effect) -> Happening:
    """Return what became of an effect that has its outcome."""
    return Happening(
        at=effect.asked_at if effect.ended_at is None else effect.ended_at,
        what=What.EFFECT,
        node=case.node,
        gpu=case.gpu,
        case=case.id,
        effect=str(effect.kind),
        target=case.gpu,
        outcome=str(effect.outcome),
        because=effect.why,
    )


def said(because: str, node: str, *, gpu: str, at: float) -> Happening:
    """Return what a person should know, in a sentence."""
    return Happening(at=at, what=What.SAID, node=node, gpu=gpu, because=because)
