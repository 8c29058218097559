"""A telemetry object that writes everything down."""

from flamectl_operator.runtime.telemetry import Ended, Telemetry
from flamectl_operator.runtime.workflow import Place


class Notes(Telemetry):
    """A telemetry object that records all reports in their order."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, float]] = []
        self.passes: list[tuple[Ended, float]] = []
        self.crashes = 0
        self.steps: list[tuple[str, str, int]] = []
        self.places: list[Place] = []
        self.ready: list[float] = []
        self.answers: list[tuple[str, str, int | None]] = []
        self.requests: list[tuple[str, str, float]] = []

    def key_added(self) -> None:
        self.keys.append(("added", 0))

    def key_retried(self) -> None:
        self.keys.append(("retried", 0))

    def key_taken(self, waited: float) -> None:
        self.keys.append(("taken", waited))

    def key_done(self, worked: float) -> None:
        self.keys.append(("done", worked))

    def pass_ended(self, result: Ended, seconds: float) -> None:
        self.passes.append((result, seconds))

    def bug_found(self) -> None:
        self.crashes += 1

    def step_ended(self, place: Place, outcome: str, seconds: float, conflicts: int) -> None:  # noqa: ARG002 - the contract of Telemetry
        self.steps.append((place.part or place.subreconciler, outcome, conflicts))
        self.places.append(place)

    def first_ready(self, seconds: float) -> None:
        self.ready.append(seconds)

    def request_answered(self, method: str, host: str, code: int | None) -> None:
        self.answers.append((method, host, code))

    def request_ended(self, method: str, host: str, seconds: float) -> None:
        self.requests.append((method, host, seconds))
