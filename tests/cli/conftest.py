"""What every test of a command needs: a width that the tester's own terminal does not choose."""

import pytest


@pytest.fixture(autouse=True)
def _no_width_of_the_tester(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
