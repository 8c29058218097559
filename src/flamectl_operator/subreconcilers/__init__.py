"""The pipeline of a pass: seven stages in their order, each with its parts. Each step has a file of its own name."""

from flamectl_operator.planning.children import NETWORK_POLICY
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.runtime.workflow import If, InOrder, Place, SideBySide, Stage, Workflow
from flamectl_operator.subreconcilers.add_services import AddServices
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.check_replacements import CheckReplacements
from flamectl_operator.subreconcilers.drain_executors import DrainExecutors
from flamectl_operator.subreconcilers.protect_executors import ProtectExecutors
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
from flamectl_operator.subreconcilers.update_status import OpenStatus, UpdateStatus
from flamectl_operator.subreconcilers.watch_session_manager import WatchSessionManager

#: The two phases of UpdateStatus.
OPENING = "opening"
CLOSING = "closing"
#: The place of what a pass does before its first step: it reads what the stores cannot show.
OBSERVE = Place("UpdateStatus", "Observe", OPENING)


def _why_pods_wait(pass_: Pass) -> str:
    """Return why AddServices ends before a Pod is created; empty when both go on side by side.

    Side by side they save a round trip. Where Pods become ready in no time, they also save updates of Endpoints, because the
    Endpoints exist before their Pods otherwise. No Pod misses a Service meanwhile: executors wait until the session manager
    answers under its name, and a Service is created faster than a container starts. A Service that is refused holds no Pod back
    in any case.
    """
    outdated = pass_.plan.outdated_children
    if NETWORK_POLICY in outdated:
        return "the NetworkPolicy protects Pods from their start"
    return "" if outdated.intersection(AddServices.children) else "the Services are as wanted"


#: The seven stages with their parts. If the opening UpdateStatus fails or stops the pass, nothing else runs. Otherwise an error
#: stops no other part, and UpdateStatus closes the pass.
PIPELINE: Workflow[Pass] = InOrder(
    Stage(
        "UpdateStatus",
        OpenStatus(),
        If("the pass goes on", lambda pass_: pass_.report.why_not_go_on, WatchSessionManager()),
        phase=OPENING,
    ),
    If(
        "the pass goes on",
        lambda pass_: pass_.report.why_not_go_on,
        InOrder(
            If(
                "the spec is valid and not paused",
                lambda pass_: pass_.why_not_act,
                InOrder(
                    Stage("UpdateConfigMap", UpdateConfigMap(), UpdateClientConfig()),
                    SideBySide(
                        "Services are due and no NetworkPolicy is",
                        _why_pods_wait,
                        Stage("AddServices", AddServices(), UpdateNetworkPolicy()),
                        InOrder(
                            Stage("AddSessionManager", UpdateClaims(), AddSessionManager(), ScaleObjectCache()),
                            Stage(
                                "ScaleExecutors",
                                ScaleExecutors(),
                                DrainExecutors(),
                                ReleaseLostNodes(),
                                ProtectExecutors(),
                            ),
                        ),
                    ),
                    Stage(
                        "ReplaceStalePods",
                        CheckReplacements(),
                        ReplaceStalePods(),
                        UpdateMetadata(),
                        ReleaseDeletionLock(),
                    ),
                ),
            ),
            Stage("UpdateStatus", UpdateStatus(), phase=CLOSING),
        ),
    ),
)
