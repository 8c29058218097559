"""The errors of a real node, each with its remedy."""

from __future__ import annotations

from tools.controlplane.errors import ControlPlaneError


class NodeError(ControlPlaneError):
    """Base of all errors of the real node."""


class ImageError(NodeError):
    """An image could not be built or imported: the message ends with the last lines of the output."""


class CommandError(NodeError):
    """A command on the node failed: the message has its output."""
