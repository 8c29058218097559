"""Decides whether an executor's mark of the session manager's incarnation can be true, and by times where it cannot.

The mark is an annotation, and anybody who may write Pods may edit or remove it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER
from flamectl_operator.observed import pods

if TYPE_CHECKING:
    from flamectl_operator.observed.component import Component
    from flamectl_operator.observed.executor import Executor

#: A uid as the API server gives it.
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Digits of the largest count of restarts that the API server stores.
_MOST_DIGITS = 10


def misread(executor: Executor, manager: Component) -> bool:
    """Return whether the operator cannot have written an executor's mark, which differs from the present incarnation.

    It has no form of an incarnation, counts restarts that have not happened, or names another Pod although the executor was
    created when the present one existed. Creation times are both by the API server's clock.
    """
    incarnation, present = executor.session_manager_incarnation, manager.pod
    of, _, number = incarnation.partition(".")
    if not of or not number:
        return True
    if of == present.uid:
        if not number.isdecimal():
            return False
        written = len(number) <= _MOST_DIGITS and number == str(int(number))
        return not written or int(number) > pods.restarts(present, SESSION_MANAGER)
    if _is_uid(present.uid) and not _is_uid(of) and not _is_uid(incarnation.rpartition(".")[2]):
        return True
    born, there = executor.pod.metadata.creation_timestamp, present.metadata.creation_timestamp
    return born is not None and there is not None and born > there


def started_since(executor: Executor, manager: Component | None) -> bool:
    """Return whether an executor started when the session manager's container ran already."""
    started = pods.running_since(executor.pod, EXECUTOR_MANAGER)
    since = None if manager is None else pods.running_since(manager.pod, SESSION_MANAGER)
    return started is not None and since is not None and started >= since


def _is_uid(text: str) -> bool:
    return _UID.fullmatch(text) is not None
