"""How often the interpreter looks for cycles of objects that nothing uses."""

from __future__ import annotations

import gc

#: Objects more than were freed after which the youngest generation is examined, and how many such runs make one of the next
#: generation. By default an examination of all objects comes every 70,000 objects, and with a thousand FlameClusters the event
#: loop stands still for a quarter of a second meanwhile. The operator frees nearly everything without this.
THRESHOLDS = (20_000, 20, 20)


def collect_rarely() -> None:
    """Examine new objects less often, and those of the imports never again, because modules stay for as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
