"""The parts that all FlameClusters of a controller share. Kubernetes' controllers have the same name for theirs."""

from dataclasses import dataclass, field

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.events import EventRecorder
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.reconcile.stores.stores import Stores
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry


@dataclass(frozen=True)
class ControllerContext:
    """The parts that a controller uses for all FlameClusters. The renderer may outlive it."""

    stores: Stores
    client: Client
    events: EventRecorder
    clock: Clock
    lock_identity: str
    telemetry: Telemetry = UNMEASURED
    renderer: SpecRenderer = field(default_factory=SpecRenderer)
