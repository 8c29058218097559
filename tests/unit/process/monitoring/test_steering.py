"""The kernel refuses connections of chosen addresses, and no others."""

import socket
import sys
from contextlib import ExitStack

import pytest

from flamectl_operator.process.monitoring import steering
from flamectl_operator.process.monitoring.steering import MAX_ADDRESSES, Steering

REAL_TIME = True
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the program runs in Linux' kernel")

#: More attempts than the shortest queue takes.
SEVERAL = 4


class Port:
    """A listener and its clients.

    Args:
        address: Of this machine.
        stack: Closes all sockets.
    """

    def __init__(self, address: str, stack: ExitStack) -> None:
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._stack = stack
        self._listener = stack.enter_context(socket.socket(self._family))
        self._listener.bind((address, 0))
        self._listener.settimeout(0)
        self.target = self._listener.getsockname()
        self.steering = Steering(self._listener, 8)
        stack.callback(self.steering.close)

    def connects(self, sender: str) -> bool:
        """Whether all of several attempts from an address reach the listener."""
        for _ in range(SEVERAL):
            client = self._stack.enter_context(socket.socket(self._family))
            client.settimeout(0)
            client.bind((sender, 0))
            client.connect_ex(self.target)
        return sum(map(self._accepted, range(SEVERAL))) == SEVERAL

    def _accepted(self, _number: int) -> bool:
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize(
    ("address", "sender", "others"), [("127.0.0.1", "127.0.0.2", ["127.0.0.1", "127.0.0.3"]), ("::1", "::1", [])]
)
def test_chosen_address_is_refused_until_another_is_chosen(address: str, sender: str, others: list[str]) -> None:
    with ExitStack() as stack:
        port = Port(address, stack)
        assert port.connects(sender)
        assert port.steering.turn_away([sender, "192.0.2.1", "2001:db8::1"])
        assert not port.connects(sender)
        assert all(map(port.connects, others))
        assert port.steering.turn_away(["192.0.2.1", "2001:db8::1", "fe80::1%eth0"])
        assert port.connects(sender)


def test_last_of_as_many_addresses_as_a_program_has_room_for_is_refused() -> None:
    with ExitStack() as stack:
        port = Port("127.0.0.1", stack)
        port.steering.turn_away([f"10.0.{number // 250}.{number % 250}" for number in range(MAX_ADDRESSES - 1)])
        assert port.connects("127.0.0.2")
        port.steering.turn_away(
            [*(f"10.0.{number // 250}.{number % 250}" for number in range(MAX_ADDRESSES - 1)), "127.0.0.2"]
        )
        assert not port.connects("127.0.0.2")


def test_all_are_accepted_where_the_kernel_knows_no_such_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "_SO_ATTACH_REUSEPORT_CBPF", 9999)
    with ExitStack() as stack:
        port = Port("127.0.0.1", stack)
        assert not port.steering.turn_away(["127.0.0.2"])
        assert port.connects("127.0.0.2")


def test_port_is_taken_for_everybody_else() -> None:
    with ExitStack() as stack:
        port = Port("127.0.0.1", stack)
        other = stack.enter_context(socket.socket())
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(port.target)
