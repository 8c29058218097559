"""The annotations of executors in which the operator keeps its state: how they are written, and how they are read.

Anybody who may write Pods may edit or remove them, so a time that cannot be read is None.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from flamectl_operator.api.constants import (
    DO_NOT_DISRUPT_ANNOTATION,
    DRAINING_ANNOTATION,
    DRAINING_SINCE_ANNOTATION,
    PROTECTION_ANNOTATION,
    REBOUND_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    SESSION_MANAGER_ANNOTATION,
)
from flamectl_operator.kube.views import parse_time

#: The annotations that the cluster autoscaler and Karpenter read.
PROTECTION = {SAFE_TO_EVICT_ANNOTATION: "false", DO_NOT_DISRUPT_ANNOTATION: "true"}
#: Annotations of a patch; None removes one.
AnnotationChanges = Mapping[str, str | None]


class DrainReason(StrEnum):
    """Why an executor is drained."""

    #: There are too many executors.
    SURPLUS = "Surplus"
    #: The executor is stale; its place is kept until it is gone.
    STALE = "Stale"


def executor_annotations(session_manager_incarnation: str) -> dict[str, str]:
    """Return the annotation that binds a new executor to the present incarnation of the session manager."""
    return {SESSION_MANAGER_ANNOTATION: session_manager_incarnation}


def rebinding_annotations(session_manager_incarnation: str, now: datetime) -> dict[str, str]:
    """Return the annotations that bind an executor which has not started yet to another incarnation of the session manager."""
    return executor_annotations(session_manager_incarnation) | {REBOUND_ANNOTATION: _written(now)}


def rebound_at(annotations: Mapping[str, str]) -> datetime | None:
    """Return when an executor was bound to another incarnation; earlier versions wrote no time."""
    return parse_time(annotations.get(REBOUND_ANNOTATION))


def drain_annotations(why: str, now: datetime) -> dict[str, str]:
    """Return the annotations that mark an executor for draining."""
    return {DRAINING_ANNOTATION: why, **since_annotation(now)}


def since_annotation(since: datetime) -> dict[str, str]:
    """Return the annotation that says from when a drain counts."""
    return {DRAINING_SINCE_ANNOTATION: _written(since)}


def draining_since(annotations: Mapping[str, str]) -> datetime | None:
    """Return from when a drain counts."""
    return parse_time(annotations.get(DRAINING_SINCE_ANNOTATION))


def protection_annotation(now: datetime, ours: Iterable[str]) -> dict[str, str]:
    """Return the annotation that says when the operator changed the annotations that protect, and which of them it set."""
    return {PROTECTION_ANNOTATION: f"{_written(now)} {','.join(ours)}".rstrip()}


def protection(annotations: Mapping[str, str]) -> tuple[datetime | None, tuple[str, ...]]:
    """Return when the operator changed the annotations that protect, and which of them it set."""
    changed, _, keys = annotations.get(PROTECTION_ANNOTATION, "").partition(" ")
    return parse_time(changed), tuple(key for key in keys.split(",") if key)


def _written(time: datetime) -> str:
    return time.replace(microsecond=0).isoformat()
