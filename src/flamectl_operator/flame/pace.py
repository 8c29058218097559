"""The pauses between questions to a session manager, longer where it did not answer or its answers cost too much."""

from dataclasses import dataclass

#: Seconds between two questions while something is going on, where executors follow the demand of sessions or are protected
#: while they work, and at rest.
BUSY_PERIOD = 2.0
DEMAND_PERIOD = 5.0
IDLE_PERIOD = 30.0
#: Seconds between two questions at the least, however often somebody asks for an answer at once.
SHORTEST_PERIOD = 0.2
#: Seconds after the first failure, and the most after many.
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 30.0
#: The most seconds between two questions to a session manager that sends more than any answer of Flame takes.
LONGEST_PAUSE_OF_OFFENDERS = 600.0
#: Offences that a session manager still has after a restart, so that restarts do not win it questions. The pause before the first
#: one is half a minute, and the next session manager may be a good one.
KEPT_OFFENCES = 5
#: Largest share of a period that is added to it, so that the pollers of many clusters do not ask at the same moment.
JITTER = 0.2


@dataclass
class Record:
    """The results of the last questions."""

    failures: int = 0
    #: An answer that is too large adds two and any other answer subtracts one, so that alternating answers are slowed down as
    #: well.
    offences: int = 0

    def answered(self) -> None:
        """Note an answer."""
        self.failures, self.offences = 0, max(0, self.offences - 1)

    def failed(self, *, too_large: bool = False) -> None:
        """Note a question without an answer that can be read."""
        self.failures += 1
        self.offences += 2 * too_large
