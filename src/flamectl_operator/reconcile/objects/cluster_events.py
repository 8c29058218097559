"""The events about one FlameCluster, which the log repeats."""

from functools import partial

import structlog

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.errors import KubernetesError, NamespaceTerminatingError
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.kube.views import EventKind
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.runtime.turns import in_turn

_LOG = structlog.get_logger(component="events")


class ClusterEvents:
    """Records the events about one FlameCluster."""

    def __init__(self, owner: Identity, context: ControllerContext) -> None:
        self._owner = owner
        self._client = context.client
        self._recorder = context.events
        self._about = ObjectReference(API_VERSION, KIND, owner.namespace, owner.name, owner.uid)
        #: Whether the namespace is being deleted, so that children that vanish need no warning.
        self.namespace_going = False

    def record_normal(self, reason: str, message: str) -> None:
        """Record a Normal event, and log it."""
        in_turn(partial(self._record, "Normal", reason, message))

    def record_warning(self, reason: str, message: str) -> None:
        """Record a Warning event, and log it; in a namespace that is being deleted the log has it as information."""
        in_turn(partial(self._record, "Warning", reason, message))

    def _record(self, kind: EventKind, reason: str, message: str) -> None:
        log = _LOG.warning if kind == "Warning" and not self.namespace_going else _LOG.info
        log(message, reason=reason)
        self._recorder.event(self._about, kind, reason, message)

    async def check_namespace(self) -> None:
        """Find out by a dry run whether the namespace is being deleted, because the operator may not read namespaces.

        Kubernetes refuses each creation in such a namespace before it looks at the object. Another refusal says that it is not.
        """
        metadata = {"name": names.config_map(self._owner.name), "namespace": self._owner.namespace}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            await self._client.dry_run_create(CONFIG_MAPS, self._owner.namespace, manifest)
        except NamespaceTerminatingError:
            self.namespace_going = True
        except KubernetesError:
            return
