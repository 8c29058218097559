"""A transport that limits the number of concurrent requests; the API server's priority and fairness limits their rate."""

from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.transport import Transport, WrappedTransport
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.slots import Slots
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry


class LimitedTransport(WrappedTransport):
    """Limits the number of concurrent requests; streams, which last for ever, are not counted.

    Namespaces take turns and leave some to others, because requests about one may take long, as when its webhook does not answer.
    It wraps the transport inside the retries: each attempt counts, the wait for the next one does not. Requests that must not
    wait, such as the renewal of a Lease, use the inner transport.
    """

    def __init__(
        self, transport: Transport, clock: Clock, *, max_in_flight: int, telemetry: Telemetry = UNMEASURED
    ) -> None:
        super().__init__(transport)
        self._clock = clock
        self._telemetry = telemetry
        self._slots = Slots(max_in_flight, leave_room=True)

    def resize(self, *, max_in_flight: int) -> None:
        """Change the limit, also for requests that already wait."""
        self._slots.resize(max_in_flight)

    async def send(self, request: Request) -> bytes:
        """Send a request when its turn comes; then its timeout begins, and its guard is called."""
        asked = self._clock.monotonic()
        await self._slots.take(group=request.namespace)
        try:
            self._telemetry.request_held_back(request.method, self.host, self._clock.monotonic() - asked)
            return await self._transport.send(request)
        finally:
            self._slots.give_back(group=request.namespace)
