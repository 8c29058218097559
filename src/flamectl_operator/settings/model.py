"""The operator's own settings: what a platform team decides once for all FlameClusters.

In the manner of Kubernetes' component configurations. Unknown keys and bad values are refused with the path of the field,
for a misspelt safety setting must not pass as its default. What is not marked `AtStart` takes effect without a restart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from pydantic import ValidationInfo

T = TypeVar("T")

#: Marks a setting that is read when the process starts: changing it takes a restart.
AT_START = "read at the start"
AtStart = Annotated[T, AT_START]


class Section(BaseModel):
    """Base of all sections: camelCase keys, nothing unknown, nothing changed after reading."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_in_it(cls, value: object) -> object:
        """A section all of whose settings are comments is null in YAML."""
        return {} if value is None else value


#: Longest of all durations, a year: more is a slip of the pen, and would not fit the clock.
LONGEST = 366 * 24 * 3600.0

#: Largest `burst`, as good as none at all: far more would not fit into a float.
MOST_AT_ONCE = 1_000_000

#: How much longer than asked for the wait between two attempts at a lease may become, as in client-go.
LEASE_JITTER = 1.2

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:\s]*):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65535


#: The type of errors about settings that are fine each, but do not go together.
COMBINATION = "combination"


def _conflict(message: str) -> PydanticCustomError:
    return PydanticCustomError(COMBINATION, "{message}", {"message": message})


def listen_on(bind_address: str) -> tuple[str, int] | None:
    """Host and port of a `bindAddress`, an empty host for all interfaces; None when it is `0`: do not listen.

    Raises:
        ValueError: It is neither.
    """
    if bind_address == "0":
        return None
    found = _ADDRESS.fullmatch(bind_address)
    if found is None or int(found["port"]) > _LARGEST_PORT:
        raise ValueError("must be HOST:PORT, or :PORT for all interfaces, or 0 for none")
    return found["host"].strip("[]"), int(found["port"])


def _bind_address(value: object) -> object:
    """`0` is a number in YAML."""
    value = "0" if value == 0 and not isinstance(value, bool) else value
    if isinstance(value, str):
        listen_on(value)
    return value


Seconds = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]
BindAddress = Annotated[str, BeforeValidator(_bind_address)]


class ClientConnectionSettings(Section):
    """How hard the operator may press the API server."""

    qps: float = Field(
        0,
        ge=0,
        allow_inf_nan=False,
        description="Requests a second, watches aside; 0 means as many as the API server's own flow control lets through.",
    )
    burst: int = Field(
        0,
        ge=0,
        le=MOST_AT_ONCE,
        description="Requests that may be sent at once before `qps` holds them back; 0 means those of one second.",
    )
    max_in_flight: int = Field(64, ge=1, description="Requests under way at the same time, watches aside.")


class LeaderElectionSettings(Section):
    """Which of several replicas works. The lengths are those of the other Kubernetes components."""

    leader_elect: AtStart[bool] = Field(
        default=False, description="Whether to work only while holding the lease; needed for more than one replica."
    )
    lease_duration_seconds: AtStart[SomeSeconds] = Field(
        15, description="How long the others wait for a leader that is silent until one of them takes over."
    )
    renew_deadline_seconds: AtStart[SomeSeconds] = Field(
        10, validate_default=True, description="How long the leader tries to renew the lease until it gives up."
    )
    retry_period_seconds: AtStart[SomeSeconds] = Field(
        2, validate_default=True, description="Wait between two attempts to take or to renew the lease."
    )
    resource_name: AtStart[Name] = Field("flamectl-operator", description="Name of the Lease.")
    resource_namespace: AtStart[str] = Field("", description="Namespace of the Lease; empty means the operator's own.")

    @field_validator("renew_deadline_seconds")
    @classmethod
    def _before_the_lease_ends(cls, value: float, info: ValidationInfo) -> float:
        """Who cannot renew must have given up before another one takes over."""
        lease = info.data.get("lease_duration_seconds", LONGEST)
        if value >= lease:
            raise _conflict(f"must be less than leaseDurationSeconds ({value:g} is not less than {lease:g})")
        return value

    @field_validator("retry_period_seconds")
    @classmethod
    def _often_enough(cls, value: float, info: ValidationInfo) -> float:
        """There must be time for a second attempt."""
        deadline = info.data.get("renew_deadline_seconds", LONGEST)
        if value * LEASE_JITTER >= deadline:
            raise _conflict(
                f"{LEASE_JITTER:g} times as long must be less than renewDeadlineSeconds"
                f" ({value * LEASE_JITTER:g} is not less than {deadline:g})"
            )
        return value


class ControllerSettings(Section):
    """How the controller works through its FlameClusters."""

    namespaces: AtStart[tuple[Name, ...]] = Field((), description="Namespaces to watch; none means all.")
    workers: AtStart[int] = Field(8, ge=1, le=256, description="FlameClusters that are reconciled at the same time.")
    resync_seconds: SomeSeconds = Field(600, description="Each FlameCluster is looked at at least this often.")
    max_creates_per_pass: int = Field(
        500, ge=1, description="Pods that one pass creates at the most, so that a huge cluster lets others have a turn."
    )
    max_writes_in_flight: int = Field(32, ge=1, description="Requests that one pass has under way at the same time.")
    lock_duration_seconds: SomeSeconds = Field(
        60, description="How long the lease of a FlameCluster holds unless it is renewed."
    )
    lock_identity: AtStart[str] = Field(
        "", description="Who this operator is in leases of FlameClusters; empty means derived from where it runs."
    )


class PodPolicy(Section):
    """What FlameClusters may ask of their Pods beyond the harmless.

    The operator creates Pods with its own rights. Without this policy whoever may write a FlameCluster could, through a
    podTemplate or `env`, use service accounts, Secrets or host access that they were never given. Everything is off by
    default. Lists hold exact names; `*` allows any.
    """

    service_accounts: tuple[str, ...] = Field((), description="Service accounts Pods may run as, beside `default`.")
    token_mounts: bool = Field(
        default=False, description="Whether Pods may mount credentials of their service account."
    )
    host_paths: tuple[str, ...] = Field((), description="Directories below which hostPath volumes are allowed.")
    host_namespaces: bool = Field(
        default=False, description="Whether hostPID, hostIPC and host ports are allowed (hostNetwork never is)."
    )
    privileged: bool = Field(
        default=False, description="Whether settings beyond the baseline Pod Security level are allowed."
    )
    secrets: tuple[str, ...] = Field((), description="Secrets that volumes, `env` and `envFrom` may read.")
    projected_volumes: bool = Field(default=False, description="Whether projected volumes are allowed.")
    csi_drivers: tuple[str, ...] = Field((), description="CSI drivers whose inline volumes are allowed.")
    priority_classes: tuple[str, ...] = Field((), description="Priority classes that may be named.")
    runtime_classes: tuple[str, ...] = Field((), description="Runtime classes that may be named.")
    node_names: bool = Field(default=False, description="Whether nodeName, which bypasses the scheduler, is allowed.")


class FlameSettings(Section):
    """What Pods of Flame get, and how patient the operator is with them. Durations are in seconds."""

    init_image: str = Field("busybox:1.37", min_length=1, description="Image of the executors' init container.")
    cluster_domain: str = Field("cluster.local", min_length=1, description="The cluster's DNS domain.")
    termination_grace_period_seconds: int = Field(
        10, ge=0, description="Given to every Pod. Short, because Flame's processes ignore SIGTERM."
    )
    executor_toleration_seconds: int = Field(
        60,
        ge=0,
        description="How long an executor stays bound to a node that is not ready or unreachable. Flame gives up on such"
        " a node after 45 s, so Kubernetes' own 300 s would only keep the replacement away.",
    )
    force_delete_after_seconds: Seconds = Field(
        60,
        description="How long after its deletion was due a session manager is deleted by force. Its name is needed.",
    )
    terminal_pod_retention_seconds: Seconds = Field(
        30, description="How long a failed or completed executor stays, so that its logs can be read."
    )
    backoff_base_seconds: SomeSeconds = Field(10, description="Wait before the second replacement in a row.")
    backoff_limit_seconds: SomeSeconds = Field(300, description="Longest wait between replacements.")
    stable_after_seconds: SomeSeconds = Field(
        600, description="How long Pods must have been ready until earlier failures are forgotten."
    )
    pod_policy: PodPolicy = PodPolicy()


class LoggingSettings(Section):
    """What is logged, and how."""

    format: AtStart[Literal["json", "console"]] = Field(
        "json", description="`json` for machines, `console` for people."
    )
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="The lowest level that is logged.")


class MetricsSettings(Section):
    """Where Prometheus finds the metrics."""

    bind_address: AtStart[BindAddress] = Field(":8080", description="Where metrics are served; `0` means nowhere.")


class HealthSettings(Section):
    """What the kubelet is told."""

    bind_address: AtStart[BindAddress] = Field(":8081", description="Where health is served; `0` means nowhere.")
    stuck_after_seconds: AtStart[SomeSeconds] = Field(
        600,
        description="A pass of which nothing at all gets on for so long makes /healthz fail, so that the process is started"
        " again.",
    )


class OperatorConfig(Section):
    """The whole file."""

    api_version: Literal["config.flame.xflops.io/v1alpha1"] = "config.flame.xflops.io/v1alpha1"
    kind: Literal["OperatorConfig"] = "OperatorConfig"
    client_connection: ClientConnectionSettings = ClientConnectionSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    controller: ControllerSettings = ControllerSettings()
    flame: FlameSettings = FlameSettings()
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    health: HealthSettings = HealthSettings()
