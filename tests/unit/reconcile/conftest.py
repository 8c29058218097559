"""Fixtures of the tests of the tools of a pass."""

from tests.unit.subreconcilers.conftest import all_quiet

__all__ = ["all_quiet"]
