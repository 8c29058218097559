"""The prerequisites of executors: the ConfigMap that they mount, the session manager that they serve, and the object caches."""

from dataclasses import dataclass
from datetime import datetime

from flamectl_operator.observed.incarnation import on_claim


@dataclass(frozen=True)
class SessionStore:
    """The storage in which a new session manager finds its sessions.

    Only the Pod records the uid of a claim that a user created. The operator takes a claim with the same name for the same claim.
    A session manager that starts on another claim has another incarnation, and then its executors are replaced.

    Args:
        name: Its identity without the claim; empty when the sessions do not persist.
        claim: The uid of the claim, which is empty while there is none; None when a user created the claim.
    """

    name: str
    claim: str | None

    def finds(self, incarnation: str) -> bool:
        """Return whether a new session manager finds the sessions of an incarnation of the session manager."""
        if self.claim is None:
            return bool(self.name) and incarnation.rpartition(".")[0] == self.name
        return bool(self.name and self.claim) and incarnation == on_claim(self.name, self.claim)


@dataclass(frozen=True, kw_only=True)
class Prerequisites:
    """The prerequisites of executors.

    Args:
        config_map_current: Whether the ConfigMap is ours and current, so that Pods that mount it may be created.
        session_manager_first: Whether stale executors have to wait for the session manager.
        session_manager_refused: Since when, by `boottime`, a quota that is used up alone keeps the session manager from being
            created; None otherwise.
        object_caches_first: Whether stale executors have to wait for object caches.
        session_manager_asked_next: Whether the session manager is asked when the next pass begins, and not before.
        next_attempt: The time before which no session manager is created; None when it may be created.
    """

    config_map_current: bool
    session_manager_first: bool
    session_manager_refused: float | None
    object_caches_first: bool
    session_manager_asked_next: bool
    next_attempt: datetime | None
    wanted_session_store: SessionStore
