"""A session manager that has not answered for minutes: what the operator leaves undone meanwhile, as a notice for a person.

The time is that of the condition `SessionManagerReachable`, which survives a restart of the operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import Condition, ConditionType
from flamectl_operator.planning.effective_group import EffectiveGroup
from flamectl_operator.planning.effective_spec import EffectiveSpec
from flamectl_operator.runtime.text import joined
from flamectl_operator.status.notice import Notice
from flamectl_operator.status.reason import SESSION_MANAGER_NOT_REACHABLE

#: Seconds after which the status reports a session manager that has answered before. The operator believes its last answer for
#: longer, and one answer ends the silence, so that single requests that fail are not reported.
SILENT_AFTER_SECONDS = 60.0
#: The same for a session manager that has never answered: perhaps this operator is not meant to reach it.
FIRST_ANSWER_TIMEOUT_SECONDS = 300.0
_REACHABLE = ConditionType.SESSION_MANAGER_REACHABLE


def silence(conditions: Iterable[Condition], effective: EffectiveSpec) -> Notice | None:
    """Return since when the session manager does not answer; None when it does, or when nothing depends on its answers."""
    found = {each.type: each for each in conditions}
    reachable = found.get(_REACHABLE)
    if reachable is None or reachable.status != "False" or not effective.flame_can_be_asked:
        return None
    if not (left_undone := list(_left_undone(effective.desired.spec, effective.group))):
        return None
    # Only an answer brings this condition, or a Pod without an address, which cannot answer.
    patience = SILENT_AFTER_SECONDS if ConditionType.EXECUTORS_REGISTERED in found else FIRST_ANSWER_TIMEOUT_SECONDS
    since = reachable.last_transition_time
    undone = f"Since {since:%Y-%m-%d %H:%M:%S} UTC, and until it answers, {', '.join(left_undone)}"
    return Notice(
        SESSION_MANAGER_NOT_REACHABLE, joined([reachable.message, undone]), since + timedelta(seconds=patience)
    )


def told_silence(conditions: Iterable[Condition], effective: EffectiveSpec, now: datetime) -> tuple[Notice, ...]:
    """Return the silence that has lasted long enough to be reported, if there is one; see `silence`."""
    found = silence(conditions, effective)
    return (found,) if found is not None and found.told_at <= now else ()


def _left_undone(spec: FlameClusterSpec, group: EffectiveGroup) -> Iterator[str]:
    """Yield what does not happen without answers, as clauses."""
    if group.replicas:
        yield "executors that do not register are not replaced"
        if group.drain_timeout:
            yield "executors are deleted without a drain"
    if group.scaling is not None:
        yield "the number of executors does not follow the demand"
    if spec.idle is not None and not group.suspended:
        yield "an idle cluster does not suspend itself"
