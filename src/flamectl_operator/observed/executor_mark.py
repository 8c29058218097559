"""Decides whether an executor's mark of the session manager's incarnation can be true, and by times where it cannot.

The mark is an annotation, and anybody who may write Pods may edit or remove it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from flamectl_operator.api.constants import EXECUTOR_MANAGER, SESSION_MANAGER
from flamectl_operator.observed import pods
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.incarnation import other_names

#: A uid as the API server gives it.
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Digits of the largest count of restarts that the API server stores.
_MAX_DIGITS = 10


@dataclass(frozen=True)
class Marks:
    """The marks of executors beside the present incarnation of the session manager.

    Args:
        incarnation: The incarnation; empty without a session manager.
        session_store: The identity of the storage that keeps the sessions; empty when they do not persist.
    """

    manager: Component | None
    incarnation: str
    session_store: str

    @cached_property
    def _present(self) -> tuple[str, ...]:
        """The marks of executors that belong to the present incarnation."""
        return (self.incarnation, *other_names(self.manager, self.session_store))

    def follows(self, executor: Executor) -> bool:
        """Return whether an executor belongs to the present incarnation of the session manager.

        An executor is rebound when it seems not to have started, but its kubelet may report the start too late. Then the times
        show that it started before this session manager, or in the same second. If the incarnation is that of a storage, which
        may have outlived session managers since, the times show that it started before it was rebound. Times of two clocks are
        compared only for rebound executors. Clock skew costs at most one extra replacement, because the replacement is not
        rebound. A node clock that is ahead may hide an executor that started too early.
        """
        if executor.session_manager_incarnation not in self._present:
            return self.is_invalid(executor) and _started_since(executor, self.manager)
        if not executor.rebound or self.manager is None:
            return True
        started = executor.running_since
        since = executor.rebound_at if self.session_store else pods.running_since(self.manager.pod, SESSION_MANAGER)
        return started is None or since is None or started > since

    def was_there_before(self, executor: Executor) -> bool:
        """Return whether an executor started before the session manager's container, as far as the clocks of their nodes tell."""
        return not _started_since(executor, self.manager)

    def is_invalid(self, executor: Executor) -> bool:
        """Return whether an executor's mark is not valid, because the operator cannot have written it.

        It has no form of an incarnation, counts restarts that have not happened, or names another Pod although the executor was
        created when the present one existed. Creation times are both by the API server's clock.
        """
        manager, incarnation = self.manager, executor.session_manager_incarnation
        if manager is None or not manager.live or incarnation in self._present:
            return False
        of, _, number = incarnation.partition(".")
        if not of or not number:
            return True
        present = manager.pod
        if of == present.uid:
            if not number.isdecimal():
                return False
            written = len(number) <= _MAX_DIGITS and number == str(int(number))
            return not written or int(number) > pods.restarts(present, SESSION_MANAGER)
        if _is_uid(present.uid) and not _is_uid(of) and not _is_uid(incarnation.rpartition(".")[2]):
            return True
        born, there = executor.pod.metadata.creation_timestamp, present.metadata.creation_timestamp
        return born is not None and there is not None and born > there


def _started_since(executor: Executor, manager: Component | None) -> bool:
    """Return whether an executor started when the session manager's container ran already."""
    started = pods.running_since(executor.pod, EXECUTOR_MANAGER)
    since = None if manager is None else pods.running_since(manager.pod, SESSION_MANAGER)
    return started is not None and since is not None and started >= since


def _is_uid(text: str) -> bool:
    return _UID.fullmatch(text) is not None
