"""Free ports on loopback, each for one listener of the control plane."""

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, fields

LOOPBACK = "127.0.0.1"

# Below the range that Linux and macOS take for outgoing connections (from 32768 and 49152), so that none of the many
# connections of the control plane itself sits on a port that a restarted component has to bind again.
_FIRST = 20000
_LAST = 32000


@dataclass(frozen=True, slots=True)
class Ports:
    """One port for each listener.

    Attributes:
        etcd_peer: For other members, of which there are none; etcd insists on it.
    """

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's listeners do: connections that are still in TIME_WAIT don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def pick_ports(*, free: Callable[[int], bool] = is_free, source: random.Random | None = None) -> Ports:
    """Pick free ports at random. Somebody may still take one before it is used: then pick others."""
    order = (source or random.SystemRandom()).sample(range(_FIRST, _LAST), k=_LAST - _FIRST)
    candidates = (port for port in order if free(port))
    return Ports(**{field.name: next(candidates) for field in fields(Ports)})
