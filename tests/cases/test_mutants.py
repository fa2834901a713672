"""The table mutated: each wrong row breaks a law or sends a life another way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, wraps

import pytest

from gpuward.isolation import laws
from gpuward.isolation.move import Move
from gpuward.isolation.table import MOVES
from gpuward.model.case import Case, CaseState, EffectKind
from gpuward.model.scene import Scene
from tests.kit.all_lives import chance_life, directed_lives
from tests.kit.lives import Life, asked


def _mutants() -> list[tuple[str, int, tuple[Move, ...]]]:
    mutants: list[tuple[str, int, tuple[Move, ...]]] = []
    for number, move in enumerate(MOVES):
        where = f"{move.state}/{move.condition.__name__}"
        without = (*MOVES[:number], *MOVES[number + 1 :])
        mutants.append((f"{where} dropped", number, without))
        others = [to for to in CaseState if to is not move.to]
        mutants += [(f"{where} to {to}", number, _with(number, replace(move, to=to))) for to in others]
        for at in range(len(move.effects)):
            fewer = (*move.effects[:at], *move.effects[at + 1 :])
            mutants.append((f"{where} without {move.effects[at]}", number, _with(number, replace(move, effects=fewer))))
    return mutants


def _with(number: int, move: Move) -> tuple[Move, ...]:
    return (*MOVES[:number], move, *MOVES[number + 1 :])


LIVES = 300
ENOUGH = 20
"""Lives of chance after which a difference in one of them is taken for the answer, though a law might still break."""

Seen = tuple[list[CaseState], list[EffectKind], list[str]]


@dataclass(frozen=True)
class TrueLife:
    """A life by the true table: what came of it, and the rows that were taken, also those that changed nothing."""

    seen: Seen
    rows: frozenset[int]


def _lives(moves: Sequence[Move]) -> list[Callable[[], Life]]:
    return [*directed_lives(moves), *(partial(chance_life, seed, moves=moves) for seed in range(LIVES))]


def _seen(life: Life) -> Seen:
    return life.states, asked(life.case), life.said


@cache
def _true_lives() -> list[TrueLife]:
    rows: set[int] = set()

    def watched(number: int, move: Move) -> Move:
        @wraps(move.condition)
        def condition(case: Case, scene: Scene) -> bool:
            holds = move.condition(case, scene)
            rows.update((number,) if holds else ())
            return holds

        return replace(move, condition=condition)

    found = []
    for live in _lives([watched(number, move) for number, move in enumerate(MOVES)]):
        rows.clear()
        found.append(TrueLife(_seen(live()), frozenset(rows)))
    return found


def _verdict(row: int, moves: tuple[Move, ...]) -> str:
    """Return how a table with a wrong row shows: `law` when a law breaks, `life` when a life changes, else nothing.

    A life whose moves never take the row goes as it goes by the true table.
    """
    if not (laws.every_state_is_reachable(moves) and laws.no_dead_ends(moves)):
        return "law"
    shown, lived, directed = "", 0, len(directed_lives())
    for number, (live, true) in enumerate(zip(_lives(moves), _true_lives(), strict=True)):
        if row not in true.rows:
            continue
        life = live()
        if life.broken:
            return "law"
        if _seen(life) != true.seen:
            shown = "life"
        lived += number >= directed
        if shown and lived >= ENOUGH:
            break
    return shown


def test_a_life_whose_moves_never_take_a_row_goes_the_same_way_without_it() -> None:
    for number, (live, true) in enumerate(zip(_lives(MOVES), _true_lives(), strict=True)):
        if number % 20 == 0:
            assert _seen(live()) == true.seen
            idle = frozenset(range(len(MOVES))) - true.rows
            assert _seen(_lives([move for row, move in enumerate(MOVES) if row not in idle])[number]()) == true.seen


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(4))
def test_every_wrong_table_is_caught_by_a_law_or_changes_a_life(part: int) -> None:
    verdicts = {name: _verdict(row, moves) for name, row, moves in _mutants()[part::4]}
    assert [name for name, verdict in verdicts.items() if not verdict] == []
    by_law = sum(verdict == "law" for verdict in verdicts.values())
    assert by_law >= len(verdicts) * 2 // 5
