"""The interface by which parts of the operator report on their work, without values that can be read at any time."""

from typing import Literal

from flamectl_operator.runtime.outcome import Result
from flamectl_operator.runtime.workflow import Place

#: How a pass ended, in the words of controller-runtime.
Ended = Literal["success", "error", "requeue", "requeue_after"]


class Telemetry:
    """Receives all reports and ignores them; subclasses override what they need. Durations are in seconds."""

    def key_added(self) -> None:
        """Note that a key was added to the queue."""

    def key_retried(self) -> None:
        """Note that a key was added to the queue with a delay."""

    def key_taken(self, waited: float) -> None:
        """Note that a worker took a key, and how long the key had waited."""

    def key_done(self, worked: float) -> None:
        """Note that a worker finished a key, and how long the work took."""

    def pass_ended(self, result: Ended, seconds: float) -> None:
        """Note that a pass over a key ended."""

    def bug_found(self) -> None:
        """Note an unexpected exception in a step, a whole pass or a question to a session manager, which is a bug."""

    def step_ended(self, place: Place, outcome: str, seconds: float, conflicts: int) -> None:
        """Note that a step of a pass ended; the outcome is `done`, `wait`, `stop` or `error`."""

    def cache_doubted(self) -> None:
        """Note that an answer contradicted the cache, so that everything is listed again."""

    def first_ready(self, seconds: float) -> None:
        """Note that an object became ready for the first time, and how long after its creation."""

    def request_answered(self, method: str, host: str, code: int | None) -> None:
        """Note that an attempt at a request got an answer with this status code, or no answer (None)."""

    def request_held_back(self, method: str, host: str, seconds: float) -> None:
        """Note how long a request waited for the operator's own limits before it was sent."""

    def request_ended(self, method: str, host: str, seconds: float) -> None:
        """Note that an attempt at a request ended, successfully or not; streams are not reported."""


def how_ended(result: Result) -> Ended:
    """Return the result of a pass in one word."""
    if result.errors:
        return "error"
    if result.delay is None:
        return "success"
    return "requeue_after" if result.delay > 0 else "requeue"


#: The telemetry of parts that need none.
UNMEASURED = Telemetry()
