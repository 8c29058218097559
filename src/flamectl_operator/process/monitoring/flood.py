"""Tells a flood of new connections from the kubelet's, by how often each address tries to connect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flamectl_operator.process.monitoring.steering import MAX_ADDRESSES

#: The new connections that are accepted in a second, whatever their addresses. After them, only addresses that try less than half
#: as often as the average are accepted.
MAX_RATE = 64
#: The tries within two seconds that are always accepted: those of an address that has sent a complete request before, more than
#: a kubelet, Prometheus and a person make; and those of any other address, because a flood may come from hundreds of addresses.
MAX_CALM_TRIES = 12
MAX_CALM_TRIES_OF_UNKNOWN = 2
#: The most addresses whose tries are counted.
MAX_COUNTED = 4096
#: The refused tries within a second, of all addresses together, from which the kernel refuses the addresses that try most often;
#: and for how many seconds it does.
MAX_REFUSED = 64
TURNED_AWAY = 20


class Flood:
    """The tries to connect to one listener. All times are seconds of the event loop."""

    def __init__(self) -> None:
        self._second = 0  # in which tries are counted
        self._accepted = 0  # in this second, whatever the address
        self._total = self._total_before = 0  # tries of all addresses
        self._tries: Counter[str] = Counter()  # by address
        self._tries_before: Counter[str] = Counter()  # in the second before
        self._served: dict[str, None] = {}  # addresses that have sent a complete request, the last one last
        self._refused: Counter[str] = Counter()  # refused tries in this second, by address
        self._turned_away: dict[str, int] = {}  # the second until which the kernel refuses an address

    def note_served(self, address: str) -> None:
        """Record that an address has sent a complete request."""
        self._served.pop(address, None)
        self._served[address] = None
        if len(self._served) > MAX_COUNTED:
            del self._served[next(iter(self._served))]

    def refuses(self, address: str, second: int) -> bool:
        """Count a try to connect; return whether to refuse it, because there are too many and the address tries often."""
        if second != self._second:
            follows = second == self._second + 1
            self._tries_before, self._total_before = (self._tries, self._total) if follows else (Counter(), 0)
            self._second, self._tries, self._total, self._accepted = second, Counter(), 0, 0
            self._refused.clear()
        if address in self._tries or len(self._tries) < MAX_COUNTED:
            self._tries[address] += 1
            self._total += 1
        if self._accepted < MAX_RATE:
            self._accepted += 1
            return False
        addresses = max(len(self._tries), len(self._tries_before))
        own = self._tries[address] + self._tries_before[address]
        calm = MAX_CALM_TRIES if address in self._served else MAX_CALM_TRIES_OF_UNKNOWN
        if own <= calm or 2 * own * addresses < self._total + self._total_before:
            return False
        self._refused[address] += 1
        return True

    def too_many_refused(self) -> bool:
        """Return whether the kernel has to refuse further addresses, because so many tries were refused in this second."""
        if self._refused.total() < MAX_REFUSED:
            return False
        until = self._second + TURNED_AWAY
        self._turned_away |= {each: until for each, _ in self._refused.most_common(MAX_ADDRESSES)}
        self._refused.clear()
        return True

    def turned_away(self, second: int) -> Iterable[str]:
        """Return the addresses that the kernel has to refuse."""
        self._turned_away = {each: until for each, until in self._turned_away.items() if until > second}
        return self._turned_away.keys()
