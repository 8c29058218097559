"""The base of checks that see each change and compare it with an operator that nothing disturbs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.loop import VirtualLoop


@dataclass(frozen=True)
class Surroundings:
    """The parts of a world that checks use.

    Args:
        server: The API server.
        loop: Gives the time.
        blame: Called with a sentence when something is wrong.
        patience: Gives the seconds that an undisturbed operator may be behind.
        disturbed_until: Gives the end of the last disturbance, in seconds of the world.
    """

    server: ApiServer
    loop: VirtualLoop
    blame: Callable[[str], None]
    patience: Callable[[], float]
    disturbed_until: Callable[[], float]


class Check(ABC):
    """A check that sees each change of an object."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._server = surroundings.server
        self._loop = surroundings.loop
        self._blame = surroundings.blame
        self._patience = surroundings.patience
        self._disturbed_until = surroundings.disturbed_until
        surroundings.server.listeners.append(self._observe)

    @abstractmethod
    def _observe(self, change: Change) -> None:
        """Take notice of a change."""
