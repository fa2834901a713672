"""Where the tests find the corpus of real outputs, and how patient they are. Other fixtures stand with their tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # the machine may be busy or slow, and that is no fault of the code


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real outputs with their facts: GPUWARD_CORPUS, else beside the checkout; skip without it."""
    named = os.environ.get("GPUWARD_CORPUS")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "corpus"
    if not folder.is_dir():
        pytest.skip(f"no corpus at {folder}: set GPUWARD_CORPUS to its folder")
    return folder
