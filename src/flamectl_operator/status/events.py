"""The changes of the status that are events. An unchanged condition is one event, in any number of passes."""

from collections.abc import Iterator

from flamectl_operator.api.status import Condition, ConditionType, FlameClusterStatus, find
from flamectl_operator.kube.views import EventKind
from flamectl_operator.planning.effective.idle import suspended_itself
from flamectl_operator.status.reason import IDLE_SUSPENDED

#: Conditions that are bad news when they become true or false, and conditions that are good news when they become true.
_WARN_WHEN_TRUE = (ConditionType.DEGRADED,)
_WARN_WHEN_FALSE = (ConditionType.CONFIG_VALID,)
_TELL_WHEN_TRUE = (ConditionType.READY, ConditionType.SUSPENDED, ConditionType.PAUSED)


def condition_events(before: FlameClusterStatus, after: FlameClusterStatus) -> Iterator[tuple[EventKind, str, str]]:
    """Yield type, reason and message of each event for a new status."""
    if (
        after.idle.suspended_generation is not None
        and after.idle.suspended_generation != before.idle.suspended_generation
    ):
        yield "Normal", IDLE_SUSPENDED, f"The cluster suspends itself: {suspended_itself(after.idle)}"
    # An invalid spec changes two conditions and is one event.
    yield from dict.fromkeys(_all_events(before, after))


def _all_events(before: FlameClusterStatus, after: FlameClusterStatus) -> Iterator[tuple[EventKind, str, str]]:
    for condition in after.conditions:
        known = find(before, condition.type)
        if _content(condition) == _content(known):
            continue
        text = condition.message or condition.reason
        if (condition.type in _WARN_WHEN_TRUE and condition.status == "True") or (
            condition.type in _WARN_WHEN_FALSE and condition.status == "False"
        ):
            yield "Warning", condition.reason, text
        elif condition.type in _TELL_WHEN_TRUE and condition.status == "True" and not _true(known):
            # Good news is one event; bad news is another event when it changes.
            yield "Normal", condition.type, text


def first_ready(before: FlameClusterStatus, after: FlameClusterStatus) -> bool:
    """Return whether a new status is the first one of the FlameCluster that is ready."""
    # A cluster that was ready before, or was created suspended, has been reconciled before.
    return _ready(after) and not _ready(before) and before.generations.reconciled == 0


def _content(condition: Condition | None) -> tuple[str, str, str] | None:
    return None if condition is None else (condition.status, condition.reason, condition.message)


def _ready(status: FlameClusterStatus) -> bool:
    return _true(find(status, ConditionType.READY))


def _true(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"
