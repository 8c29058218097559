"""Specs of a tenant who writes what costs most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.namespace import E2ENamespace

#: Bytes of a hostile spec, just below what the API server stores.
SIZE = 1_200_000


def hostile_overrides(depth: int) -> dict[str, Any]:
    """Lists within each other, as many as fit, and a letter that takes the slow way of rendering.

    Args:
        depth: How many lists are within each other.
    """
    nested: Any = "é"
    for _ in range(depth):
        nested = [nested]
    return {"x": [nested] * (SIZE // (len(json.dumps(nested, ensure_ascii=False).encode()) + 1))}


def in_state(world: E2ENamespace, state: str) -> set[str]:
    """Names of the FlameClusters in a state, from the table that the API server prints: the objects may have megabytes.

    Args:
        world: The namespace.
        state: Of `status.state`.
    """
    rows = [line.split() for line in world.kubectl("get", "flameclusters", "--no-headers").splitlines()]
    return {row[0] for row in rows if row[1:2] == [state]}
