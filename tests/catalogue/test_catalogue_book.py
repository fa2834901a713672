"""The book knows every row of its files, and says None for the rest."""

import pytest

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.load import load
from gpuward.isolation.catalogue.rows import ACTION_WORDS
from gpuward.model.level import Level


def test_the_book_is_read_once() -> None:
    assert load() is load()


def test_every_xid_has_a_policy_and_is_found_by_its_code(book: Book) -> None:
    assert len(book.codes()) == 176
    for code in book.codes():
        row, policy = book.xid(code), book.policy(code)
        assert row is not None
        assert policy is not None
        assert row.code == policy.code == code


def test_every_sxid_is_found_by_its_code(book: Book) -> None:
    assert len(book.sxid_codes()) == 399
    assert all((row := book.sxid(code)) is not None and row.code == code for code in book.sxid_codes())


def test_what_the_book_does_not_know_is_none(book: Book) -> None:
    assert book.xid(99998) is None
    assert book.sxid(99998) is None
    assert book.policy(99998) is None
    assert book.other("gremlin") is None
    assert book.nvlink(79) == ()
    assert book.register_bit(1, 2) is None
    assert book.action("KICK_IT") is None
    assert book.recovery_by_label("Kick it") is None
    assert book.recovery_by_value(99) is None


def test_decode_rows_keep_their_number_in_the_file(book: Book) -> None:
    rows = [row for code in book.codes() for row in book.nvlink(code)]
    assert [row.number for row in rows] == list(range(1, 99))


def test_every_bucket_word_has_an_imperative_of_one_sentence(book: Book) -> None:
    assert set(book.actions) == ACTION_WORDS
    for word in ACTION_WORDS:
        row = book.action(word)
        assert row is not None
        for sentence in (row.sentence, row.once_free):
            assert sentence[0].isupper()
            assert sentence[0].lower() + sentence[1:] != sentence
            assert sentence.endswith(".")
            assert ". " not in sentence


@pytest.mark.parametrize(
    ("label", "value", "level"),
    [
        ("None", 0, Level.IGNORE),
        ("GPU Reset Required", 1, Level.P0),
        ("PF FLR", 1, Level.P0),
        ("Node Reboot Required", 2, Level.P0),
        ("Drain P2P", 3, Level.P1),
        ("Drain and Reset", 4, Level.P1),
        ("Recover IMEX Domain", 5, Level.P1),
        ("Bus Reset", 6, Level.P0),
        ("System Reboot", 7, Level.P0),
    ],
)
def test_a_recovery_action_is_found_by_any_spelling_of_its_label_and_by_its_value(
    book: Book, label: str, value: int, level: Level
) -> None:
    row = book.recovery_by_label(f" {label.upper()} ")
    assert row is not None
    assert (row.value, row.level) == (value, level)
    by_value = book.recovery_by_value(value)
    assert by_value is not None
    assert by_value.level is level


BENIGN = {
    *((1, bit) for bit in (0, 1, 20, 23, 27, 29, 30)),
    *((3, bit) for bit in (17, 18)),
    *((4, bit) for bit in (16, 17)),
    *((5, bit) for bit in (20, 23, 26, 29)),
}
SERIOUS = {
    *((1, bit) for bit in (4, 5, 8, 9, 12, 16, 17, 21, 22, 24, 28)),
    *((3, bit) for bit in (0, 1, 2, 6, 13, 16, 19)),
    (4, 18),
    *((5, bit) for bit in (18, 19, 21, 22, 24, 25, 27, 28)),
}


def test_the_register_bits_of_xid_74_are_benign_or_serious_as_the_rules_say(book: Book) -> None:
    assert {place for place, row in book.registers.items() if row.benign} == BENIGN
    assert {place for place, row in book.registers.items() if not row.benign} == SERIOUS
