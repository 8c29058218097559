"""Recognizes a flood of connections by how often each address tries, and lets the kernel refuse those of chosen addresses.

A process that accepts and closes each connection of a flood may get too little of a processor to keep up. Then the kernel's
queue of new connections stays full for everybody. So the listener shares its port with a second socket, whose queue nobody
accepts, and a program in the kernel sends the chosen addresses there. When that queue is full, the kernel drops their attempts,
which costs this process nothing. The program needs Linux, but no privilege; elsewhere there is no second socket.
"""

import ctypes
import socket
import struct
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address

import structlog

#: The new connections that are accepted in a second, whatever their addresses. After them, only addresses that try less than half
#: as often as the average are accepted.
MAX_RATE = 64
#: The tries within two seconds that are always accepted: of an address that has sent a complete request before, and of any other
#: address. The first number is more than a kubelet, Prometheus and a person make. The second is small, because a flood may come
#: from hundreds of addresses.
MAX_CALM_TRIES = 12
MAX_CALM_TRIES_OF_UNKNOWN = 2
#: The most addresses whose tries are counted.
MAX_COUNTED = 4096
#: The refused tries within a second, of all addresses together, from which the kernel refuses the addresses that try most often;
#: and for how many seconds it does.
MAX_REFUSED = 64
TURNED_AWAY = 20


class Flood:
    """The attempts to connect to one listener, which tell a flood from the kubelet. All times are seconds of the event loop."""

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


_Instruction = tuple[int, int, int, int]

#: The most addresses of a program, which has at most 4,096 instructions, nine of them for an IPv6 address.
MAX_ADDRESSES = 400
#: `SO_ATTACH_REUSEPORT_CBPF` of <asm-generic/socket.h>.
_SO_ATTACH_REUSEPORT_CBPF = 51
#: From <linux/filter.h>: where the head of the IP packet begins, and what instructions do: load a word, compare, return.
_NETWORK_HEAD = 0xFFF00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
#: The offset of the sender's address in that head, by the size of an address.
_SENDER = {4: 12, 16: 8}
#: The sockets of the port, in the order in which they began to listen.
_ACCEPTED, _IGNORED = 0, 1


class Steering:
    """The listeners of one port, of which the first is a bound socket that does not listen yet."""

    def __init__(self, listener: socket.socket, backlog: int) -> None:
        self._listener = listener
        self._family = listener.family
        self._ignored: socket.socket | None = None
        try:
            # Only now, so that a port that somebody else has could not be bound.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.listen(backlog)
            self._attach([])
            self._ignored = _twin(listener)
        except (OSError, AttributeError) as error:
            structlog.get_logger(component="http").debug("the kernel cannot refuse connections", error=str(error))
            listener.listen(backlog)

    def turn_away(self, addresses: Iterable[str]) -> bool:
        """Send the attempts of these addresses alone to where nobody accepts them; return whether the kernel does so."""
        if self._ignored is None:
            return False
        own = [packed for each in addresses if len(packed := _packed(each)) == _size(self._family)][:MAX_ADDRESSES]
        self._attach(own)
        self._forget_ignored()
        return True

    def close(self) -> None:
        """Close both sockets."""
        self._listener.close()
        if self._ignored is not None:
            self._ignored.close()

    def _forget_ignored(self) -> None:
        """Close the connections that wait in the queue, because their address may be welcome by now."""
        assert self._ignored is not None
        try:
            while True:
                self._ignored.accept()[0].close()
        except OSError:
            pass  # there are no more

    def _attach(self, addresses: Iterable[bytes]) -> None:
        program = [each for address in addresses for each in _to_ignored(address)]
        program.append((_RETURN, 0, 0, _ACCEPTED))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
        option = struct.pack("HP", len(program), ctypes.addressof(code))
        self._listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, option)


def _twin(listener: socket.socket) -> socket.socket:
    """Return another socket that listens on the port, with the shortest queue."""
    twin = socket.socket(listener.family, listener.type)
    try:
        twin.settimeout(0)
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if listener.family == socket.AF_INET6:
            only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            twin.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        twin.bind(listener.getsockname())
        twin.listen(0)
    except OSError:
        twin.close()
        raise
    return twin


def _to_ignored(address: bytes) -> list[_Instruction]:
    """Return instructions that choose the second socket for a sender, and go on behind them for any other."""
    words = [int.from_bytes(address[at : at + 4]) for at in range(0, len(address), 4)]
    code: list[_Instruction] = []
    for number, word in enumerate(words):
        behind = 2 * (len(words) - number) - 1
        code += [(_LOAD, 0, 0, _NETWORK_HEAD + _SENDER[len(address)] + 4 * number), (_EQUAL, 0, behind, word)]
    return [*code, (_RETURN, 0, 0, _IGNORED)]


def _packed(address: str) -> bytes:
    return ip_address(address.partition("%")[0]).packed


def _size(family: int) -> int:
    return 16 if family == socket.AF_INET6 else 4
