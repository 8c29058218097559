"""The real control plane of the end-to-end tests."""

from tests.e2e.conftest import control_plane, installed

__all__ = ["control_plane", "installed"]
