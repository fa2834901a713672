"""Where the tests find the corpus of real outputs. Other fixtures stand with their tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real outputs with their facts: GPUWARD_CORPUS, else beside the checkout; skip without it."""
    named = os.environ.get("GPUWARD_CORPUS")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}: set GPUWARD_CORPUS to its folder")
    return folder
