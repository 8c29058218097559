"""`FlameCluster.spec`. The schema in `config/crd` is generated from these models and descriptions."""

import re
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field
from pydantic.alias_generators import to_camel

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.fields.autoscaling import Autoscaling, Idle
from flamectl_operator.api.fields.checked_template import CheckedAgainst
from flamectl_operator.api.fields.common_metadata import CommonAnnotations, CommonLabels
from flamectl_operator.api.fields.container import Environment, Image, ImagePullPolicy, ResourceRequirements
from flamectl_operator.api.fields.flame_options import ClientConfigSpec, Limits, Recovery, RuntimeStorage
from flamectl_operator.api.fields.network_policy import NetworkPolicySpec
from flamectl_operator.api.fields.object_cache import ObjectCacheSpec
from flamectl_operator.api.fields.persistence import PERSISTENT_STORAGE, Persistence
from flamectl_operator.api.fields.pod_template import ExecutorManagerPodTemplate, SessionManagerPodTemplate
from flamectl_operator.api.fields.slot import DEFAULT as DEFAULT_SLOT
from flamectl_operator.api.fields.slot import PATTERN_0_5, SlotText, readable_by_0_5
from flamectl_operator.api.fields.tls import ClusterTlsSpec
from flamectl_operator.api.fields.update_strategy import Drain, SessionManagerUpdateStrategy, UpdateStrategy
from flamectl_operator.api.model import Atomic, Flag, Int32, Model, Text
from flamectl_operator.api.rules import Rule

#: Executors of a manifest that says nothing about their number.
DEFAULT_REPLICAS = 1

FlameVersion = Literal["0.5", "0.6", "0.7"]
Shim = Literal["host", "wasm"]


class SessionManagerSpec(Model):
    """The session manager: the one coordinator of the cluster."""

    rules: ClassVar = (
        Rule(
            f"!has(self.persistence) || self.storage.matches(r'{PERSISTENT_STORAGE.pattern}')",
            lambda manager: manager.persistence is None or PERSISTENT_STORAGE.fullmatch(manager.storage),
            "must lie on the claim of persistence: fs:///var/lib/flame/session, or "
            "sqlite:///var/lib/flame/session/flame.db",
            ".storage",
        ),
    )

    image: Image = Field(description="Image of the session manager. Use an explicit version tag.")
    image_pull_policy: ImagePullPolicy = None
    resources: ResourceRequirements = Field(ResourceRequirements(), description="Compute resources of the container.")
    env: Environment = Field((), description="Environment variables to add to the container.")
    slot: SlotText = Field(
        DEFAULT_SLOT,
        description="Resources of one Flame executor (a process that runs tasks of a session) unless the session overrides them: "
        "whole cores, memory, and GPUs if any, as in cpu=1,mem=1g or cpu=2,mem=512Mi,gpu=1. Units are powers of 1024.",
    )
    policy: Text = Field(
        "priority", description="Scheduling policy of the cluster: priority, or drf. Flame 0.5 ignores it."
    )
    storage: Annotated[
        Text,
        Rule(
            "!self.matches('^[A-Za-z][-+.A-Za-z0-9]*://') || self.matches('^(sqlite|fs|file|filesystem)://')",
            lambda text: (
                re.match("[A-Za-z][-+.A-Za-z0-9]*://", text) is None
                or re.match("(sqlite|fs|file|filesystem)://", text) is not None
            ),
            "must be none, or begin with sqlite://, fs://, file:// or filesystem://: Flame opens nothing else",
        ),
    ] = Field(
        "sqlite://flame.db",
        description="Storage of sessions: none, a directory such as fs:///var/lib/flame/session, or an SQLite "
        "database.",
    )
    persistence: Persistence | None = Field(
        None,
        description="Claim for sessions and events, mounted at /var/lib/flame/session, where storage must lie. With it "
        "executors stay when the session manager restarts or is replaced.",
    )
    recovery: Recovery = Field(Recovery(), description="Handling of executors that fail to start a session.")
    update_strategy: SessionManagerUpdateStrategy = Field(
        SessionManagerUpdateStrategy(), description="Replacement of the session manager after a change of the spec."
    )
    pod_template: Annotated[dict[str, Any], CheckedAgainst(SessionManagerPodTemplate)] | None = Field(
        None,
        description="Additions to the Pod: a partial Pod template. Fields that the operator must set take precedence.",
    )


class ExecutorManagerSpec(Model):
    """The executor managers: the workers that run tasks."""

    rules: ClassVar = (
        # The API server fills in the default of replicas, 1, before it checks the rule. So 1 looks like an absent value.
        Rule(
            f"!has(self.autoscaling) || self.replicas == {DEFAULT_REPLICAS}",
            lambda executors: executors.autoscaling is None or executors.replicas == DEFAULT_REPLICAS,
            "must be left out where autoscaling is set, because autoscaling decides the number of executors; kubectl scale "
            "and a HorizontalPodAutoscaler cannot set it either: use autoscaling.minReplicas and autoscaling.maxReplicas",
            ".replicas",
        ),
        Rule(
            "self.shim != 'wasm' || !self.drain.onTermination.enabled",
            lambda executors: executors.shim != "wasm" or not executors.drain.on_termination.enabled,
            "must be false for shim wasm, whose tasks are no processes, so that nothing in the Pod shows whether one runs",
            ".drain.onTermination.enabled",
        ),
    )

    image: Image = Field(description="Image of the executor manager. Use an explicit version tag.")
    image_pull_policy: ImagePullPolicy = None
    replicas: Annotated[Int32, Field(ge=0)] = Field(
        DEFAULT_REPLICAS,
        description="Number of wanted executor managers; may be 0. Leave it out where autoscaling is set.",
    )
    autoscaling: Autoscaling | None = Field(
        None,
        description="Lets the number of executors follow the demand of Flame's sessions, in place of replicas; needs Flame "
        "0.6 or later.",
    )
    resources: ResourceRequirements = Field(ResourceRequirements(), description="Compute resources of each container.")
    env: Environment = Field((), description="Environment variables to add to the containers.")
    shim: Shim = Field("host", description="Runtime of tasks: processes of the host, or WebAssembly.")
    max_executors: Annotated[Int32, Field(ge=1)] = Field(
        10,
        description="The most Flame executors (processes) that one executor manager runs at one time. Flame 0.6 does not "
        "enforce it.",
    )
    runtime_storage: RuntimeStorage = Field(
        RuntimeStorage(), description="Storage for files that Flame writes while executors run."
    )
    update_strategy: UpdateStrategy = Field(
        UpdateStrategy(), description="Replacement of executors after a change of the spec."
    )
    drain: Drain = Field(
        Drain(), description="How executors end their work before they are deleted; needs Flame 0.6 or later."
    )
    pod_template: Annotated[dict[str, Any], CheckedAgainst(ExecutorManagerPodTemplate)] | None = Field(
        None,
        description="Additions to the Pods: a partial Pod template. Fields that the operator must set take precedence.",
    )


#: The identity of an operator deployment in a Lease. By default a namespace (63), a slash, and the name of a Lease (253).
LockIdentity = Annotated[str, Field(min_length=1, max_length=317)]


class LockOptions(Model):
    """Coordination of operators that see the same cluster."""

    disabled: Flag = Field(
        default=False, description="Whether the operator deletes Pods without holding the deletion lock."
    )
    deny_list: Annotated[Atomic[LockIdentity], Field(max_length=32)] = Field(
        (),
        description="Lock identities of operators that never delete Pods of this cluster. A lock that they hold is ignored.",
    )


def _not_in_0_5(attribute: str, why: str) -> Rule:
    """Return the rule that Flame 0.5 has no field of this attribute, such as `object_cache.tls`."""
    field = ".".join(map(to_camel, attribute.split(".")))
    return Rule(
        f"self.flameVersion != '0.5' || !has(self.{field})",
        lambda spec: spec.flame_version != "0.5" or attrgetter(attribute)(spec) is None,
        f"must not be set for Flame 0.5, {why}",
        f".{field}",
    )


#: The part of a spec that describes a component.
ComponentSpec: TypeAlias = SessionManagerSpec | ExecutorManagerSpec | ObjectCacheSpec


class FlameClusterSpec(Model):
    """The desired state of a Flame cluster."""

    rules: ClassVar = (
        Rule(
            f"self.flameVersion != '0.5' || self.sessionManager.slot.matches(r'{PATTERN_0_5}')",
            lambda spec: spec.flame_version != "0.5" or readable_by_0_5(spec.session_manager.slot),
            "must be like cpu=1,mem=512m for Flame 0.5: k, m or g as unit of mem, and no gpu",
            ".sessionManager.slot",
        ),
        _not_in_0_5("client_config", "whose clients read another file: give them the variable FLAME_ENDPOINT"),
        _not_in_0_5("tls", "which knows no TLS"),
        _not_in_0_5("object_cache.tls", "which knows no TLS"),
        Rule(
            "self.flameVersion != '0.7' || !has(self.objectCache.tls)",
            lambda spec: spec.flame_version != "0.7" or spec.object_cache.tls is None,
            "must not be set for Flame 0.7, whose services share the certificate of spec.tls",
            ".objectCache.tls",
        ),
        Rule(
            "self.flameVersion != '0.7' || !has(self.tls) || has(self.tls.trustDomain)",
            lambda spec: spec.flame_version != "0.7" or spec.tls is None or spec.tls.trust_domain is not None,
            "must have a trustDomain for Flame 0.7, to which the certificates of nodes and users belong",
            ".tls",
        ),
        Rule(
            "self.flameVersion == '0.7' || !has(self.tls) || !has(self.tls.trustDomain)",
            lambda spec: spec.flame_version == "0.7" or spec.tls is None or spec.tls.trust_domain is None,
            "must not have a trustDomain before Flame 0.7, which brings it",
            ".tls",
        ),
        Rule(
            "self.flameVersion != '0.5' || !has(self.sessionManager.persistence) || "
            "self.sessionManager.storage.startsWith('sqlite:')",
            lambda spec: (
                spec.flame_version != "0.5"
                or spec.session_manager.persistence is None
                or spec.session_manager.storage.startswith("sqlite:")
            ),
            "must be an SQLite database for Flame 0.5, such as sqlite:///var/lib/flame/session/flame.db",
            ".sessionManager.storage",
        ),
        Rule(
            "self.flameVersion != '0.5' || !self.executorManager.drain.onTermination.enabled",
            lambda spec: spec.flame_version != "0.5" or not spec.executor_manager.drain.on_termination.enabled,
            "must be false for Flame 0.5, whose nodes cannot be released, so that they would get new work to the end",
            ".executorManager.drain.onTermination.enabled",
        ),
        Rule(
            "self.flameVersion != '0.5' || self.sessionManager.updateStrategy.type != 'WhenIdle'",
            lambda spec: spec.flame_version != "0.5" or spec.session_manager.update_strategy.type != "WhenIdle",
            "must not be WhenIdle for Flame 0.5, which cannot be asked for its sessions",
            ".sessionManager.updateStrategy.type",
        ),
        _not_in_0_5("executor_manager.autoscaling", "which cannot be asked for its sessions"),
        _not_in_0_5("idle", "which cannot be asked for its sessions"),
        _not_in_0_5("object_cache.image", "which has no object cache"),
    )

    session_manager: SessionManagerSpec = Field(description="The session manager, the one coordinator of the cluster.")
    executor_manager: ExecutorManagerSpec = Field(description="The executor managers, the workers that run tasks.")
    object_cache: ObjectCacheSpec = Field(ObjectCacheSpec(), description="The object cache.")
    flame_version: FlameVersion = Field(
        "0.6",
        description="Version of Flame in the images, which decides their command line and the format of flame-cluster.yaml. Put "
        "the value in quotes.",
    )
    schedule_interval: Annotated[Int32, Field(ge=1)] | None = Field(
        None,
        description="Milliseconds between two rounds of the scheduler; Flame's default, 100, when left out. Flame 0.5 "
        "ignores it.",
    )
    limits: Limits = Field(Limits(), description="Limits of the whole cluster.")
    tls: ClusterTlsSpec | None = Field(
        None, description="Certificate of the session manager for TLS. No TLS when left out."
    )
    client_config: ClientConfigSpec | None = Field(
        None,
        description="Creates a ConfigMap with the file flame.yaml, which clients mount at ~/.flame; {} is enough. No ConfigMap "
        "when left out.",
    )
    network_policy: NetworkPolicySpec | None = Field(
        None,
        description="Creates a NetworkPolicy, so that only the cluster's executors, the operator and the listed clients can "
        "connect; {} lists no clients. No NetworkPolicy when left out.",
    )
    idle: Idle | None = Field(
        None,
        description="Suspends the cluster after a time without a session in use. No automatic suspension when left out.",
    )
    # The API server does not fill in the default: so `suspend: false` is a change that starts a cluster which suspended itself.
    suspend: Flag = Field(
        default=False,
        description="Whether the cluster is suspended: the operator deletes all its Pods and keeps its configuration and "
        "Services. The same as false when left out.",
        json_schema_extra={"default": None},
    )
    paused: Flag = Field(
        default=False, description="Whether the operator is paused for this cluster: it changes only the status."
    )
    lock_options: LockOptions = Field(
        LockOptions(),
        description="Deletion lock, which allows only one operator at a time to delete Pods of this cluster.",
    )
    common_labels: CommonLabels = Field(
        {}, description="Labels of every object that the operator creates for the cluster. A change restarts no Pod."
    )
    common_annotations: CommonAnnotations = Field(
        {},
        description="Annotations of every object that the operator creates for the cluster. A change restarts no Pod.",
    )
    config_overrides: dict[str, Any] = Field(
        {},
        description="Values to merge last into flame-cluster.yaml, for options without a field in this API, such as "
        "cluster.pprof.port.",
    )

    @property
    def components(self) -> dict[str, ComponentSpec]:
        """The part of each component, by the component's name."""
        return {
            SESSION_MANAGER: self.session_manager,
            EXECUTOR_MANAGER: self.executor_manager,
            OBJECT_CACHE: self.object_cache,
        }

    @property
    def session_manager_verifiable(self) -> bool:
        """Whether the operator can verify the session manager, or need not. Flame 0.7 also asks for a client's certificate."""
        return self.tls is None or (self.flame_version != "0.7" and self.tls.ca_bundle is not None)
