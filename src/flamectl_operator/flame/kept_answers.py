"""The choice of the large answers that are given up, when all of them together take too much memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Key = tuple[str, str]


def to_give_up(sizes: Mapping[Key, int], newest: Key, most: int) -> tuple[Key, ...]:
    """Return the FlameClusters whose answers are given up, until the others fit.

    The namespace that keeps most gives up its largest answer, or the newest answer if that is its own. So a namespace keeps its
    share, whoever comes first and however many answers another one has.

    Args:
        sizes: Bytes of each answer, by the namespace and name of its FlameCluster.
        newest: The FlameCluster whose answer has just come.
        most: Bytes that all answers may take.

    Returns:
        The FlameClusters; only the newest one if its own namespace keeps most.
    """
    left, found = dict(sizes), list[Key]()
    while sum(left.values()) > most:
        kept: Counter[str] = Counter()
        for (namespace, _), size in left.items():
            kept[namespace] += size
        namespace = max(kept, key=lambda each: (kept[each], each == newest[0]))
        if namespace == newest[0]:
            return (newest,)
        found.append(max((key for key in left if key[0] == namespace), key=left.__getitem__))
        del left[found[-1]]
    return tuple(found)
