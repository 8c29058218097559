"""The steps of a pass, in their order. One file a step, named like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.subreconcilers.add_services import AddServices
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.release_lock import ReleaseLock
from flamectl_operator.subreconcilers.replace_stale_pods import ReplaceStalePods
from flamectl_operator.subreconcilers.scale_executors import ScaleExecutors
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from flamectl_operator.subreconcilers.update_status import CloseStatus, OpenStatus

if TYPE_CHECKING:
    from flamectl_operator.subreconcilers.base import Subreconciler

#: Every step runs in every pass, unless one before it stops the pass, and leaves early when it has nothing to do.
SUBRECONCILERS: tuple[Subreconciler, ...] = (
    OpenStatus(),
    UpdateConfigMap(),
    AddServices(),
    AddSessionManager(),
    ScaleExecutors(),
    ReplaceStalePods(),
    ReleaseLock(),
)

#: UpdateStatus again. Runs at the end of every pass, whatever became of it.
CLOSING: Subreconciler = CloseStatus()
