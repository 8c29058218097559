"""The annotations that mark an executor for draining."""

from __future__ import annotations

from datetime import datetime

from flamectl_operator.api.constants import DRAINING_ANNOTATION, DRAINING_SINCE_ANNOTATION
from flamectl_operator.planning.parts import DrainReason


def drain_annotations(why: DrainReason, now: datetime) -> dict[str, str]:
    """Return the annotations that mark an executor."""
    return {DRAINING_ANNOTATION: str(why), **since_annotation(now)}


def since_annotation(since: datetime) -> dict[str, str]:
    """Return the annotation that says from when a drain counts."""
    return {DRAINING_SINCE_ANNOTATION: since.replace(microsecond=0).isoformat()}
