"""The code book of the package, for the tests of the catalogue. Records come from `kit`."""

import pytest

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.load import load


@pytest.fixture(scope="session")
def book() -> Book:
    return load()
