"""Fixtures of the tests of the tools of a pass."""

from tests.unit.subreconcilers.conftest import quiet

__all__ = ["quiet"]
