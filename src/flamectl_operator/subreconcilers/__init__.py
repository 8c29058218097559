"""The pipeline of a pass: every step in its order. Each step has a file of its own name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.runtime.workflow import Always, If, InOrder, Sequential
from flamectl_operator.subreconcilers.acquire_deletion_lock import AcquireDeletionLock
from flamectl_operator.subreconcilers.add_services import AddServices
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.check_replacements import CheckReplacements
from flamectl_operator.subreconcilers.drain_executors import DrainExecutors
from flamectl_operator.subreconcilers.record_before_acting import RecordBeforeActing
from flamectl_operator.subreconcilers.release_deletion_lock import ReleaseDeletionLock
from flamectl_operator.subreconcilers.release_lost_nodes import ReleaseLostNodes
from flamectl_operator.subreconcilers.replace_stale_pods import ReplaceStalePods
from flamectl_operator.subreconcilers.scale_executors import ScaleExecutors
from flamectl_operator.subreconcilers.scale_object_cache import ScaleObjectCache
from flamectl_operator.subreconcilers.update_claims import UpdateClaims
from flamectl_operator.subreconcilers.update_client_config import UpdateClientConfig
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from flamectl_operator.subreconcilers.update_metadata import UpdateMetadata
from flamectl_operator.subreconcilers.update_network_policy import UpdateNetworkPolicy
from flamectl_operator.subreconcilers.update_status import UpdateStatus
from flamectl_operator.subreconcilers.watch_session_manager import WatchSessionManager

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass
    from flamectl_operator.runtime.workflow import Workflow

#: If RecordBeforeActing fails or stops the pass, no other step runs. Otherwise an error of a step stops no other step, and
#: UpdateStatus closes the pass.
PIPELINE: Workflow[Pass] = Sequential(
    RecordBeforeActing(),
    Always(
        InOrder(
            If("the state has changed", lambda pass_: pass_.stored_state_outdated, UpdateStatus()),
            WatchSessionManager(),
            If(
                "the spec is valid and not paused",
                lambda pass_: pass_.may_act,
                InOrder(
                    UpdateConfigMap(),
                    AddServices(),
                    UpdateNetworkPolicy(),
                    UpdateClientConfig(),
                    CheckReplacements(),
                    AcquireDeletionLock(),
                    UpdateClaims(),
                    AddSessionManager(),
                    ScaleObjectCache(),
                    ScaleExecutors(),
                    ReplaceStalePods(),
                    DrainExecutors(),
                    ReleaseLostNodes(),
                    UpdateMetadata(),
                    ReleaseDeletionLock(),
                ),
            ),
        ),
        closing=UpdateStatus(),
    ),
)
