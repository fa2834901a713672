"""The orders of a node as they are kept: stored before they are done, and gone on with after a crash."""

from collections.abc import Mapping
from typing import Any

from gpuward.agent.orders import Ledger, Taken, after_boot
from gpuward.isolation.packed import pack_case, pack_plain, unpack_case
from gpuward.isolation.saved import SavedError
from gpuward.model.case import Mode, Outcome
from gpuward.ports import Refused, Store

REMEDY = "look which GPUs are drained (`nvidia-smi drain`), undo that, then remove the file"


class OrderBook:
    """The ledger, the mode last seen and what else its owner saves with them, in one store.

    `ledger` and `mode` are what is stored: what could not be saved is not taken over, and so is not done.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._more: Mapping[str, Any] = {}
        self.ledger = Ledger()
        self.mode = Mode.OBSERVE
        self.held = ""
        """Why the leader's brake held when it was last heard of; empty when it did not."""
        self.is_of_this_boot = True
        """What was taken over was saved on this boot."""

    def load(self, boot: str, *, at: float) -> Mapping[str, Any]:
        """Take over what was saved, as this boot finds it, and return what was saved with it.

        Raises Refused when it cannot be used: marks of ours may stand on the machine.
        """
        saved = self._store.load()
        if saved is None:
            return {}
        try:
            ledger = _unpacked(saved)
            self.mode, self.held = Mode(saved["mode"]), str(saved["held"])
            self.is_of_this_boot = saved["boot"] == boot
            self._more = dict(saved["more"])
        except (SavedError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(f"the saved orders cannot be used ({error!r}); {REMEDY}") from error
        self.ledger = ledger if self.is_of_this_boot else after_boot(ledger, at=at)
        return self._more

    def keep(self, ledger: Ledger, boot: str, *, mode: Mode, held: str, more: Mapping[str, Any]) -> None:
        """Save all of it, then take it over. Raises Refused when it cannot be saved; then nothing has changed."""
        if (ledger, mode, held, more) == (self.ledger, self.mode, self.held, self._more):
            return
        self._store.save(
            {
                "boot": boot,
                "mode": mode,
                "held": held,
                "cases": [pack_case(case) for case in ledger.cases.values()],
                "taken": [pack_plain(one) for one in ledger.taken.values()],
                "past": list(ledger.past),
                "more": dict(more),
            }
        )
        self.ledger, self.mode, self.held, self._more = ledger, mode, held, more


def _unpacked(saved: Mapping[str, Any]) -> Ledger:
    cases = [unpack_case(one) for one in saved["cases"]]
    taken = [Taken(**{**one, "outcome": Outcome(one["outcome"])}) for one in saved["taken"]]
    return Ledger(
        cases={case.id: case for case in cases},
        taken={one.id: one for one in taken},
        past=tuple(str(one) for one in saved["past"]),
    )
