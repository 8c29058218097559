"""Fixtures of the tests of the steps."""

import pytest


@pytest.fixture(autouse=True)
def all_quiet(quiet: None) -> None:
    """Keep the log of each test to itself, and let no test leave the level debug behind, at which a pass takes a tenth longer."""
