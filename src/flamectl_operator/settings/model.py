"""The operator's own settings, which a platform team sets for all FlameClusters.

The model follows Kubernetes' component configurations. Unknown keys and bad values are rejected with the path of the field,
because a misspelt safety setting must not pass as its default. Settings that are not marked `AtStart` take effect without a
restart.
"""

import re
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from flamectl_operator.settings.names import Identity, Namespace, OwnNamespace, Subdomain

T = TypeVar("T")

#: Marks a setting that is read only when the process starts, so that a change needs a restart.
AT_START = "read at the start"
AtStart = Annotated[T, AT_START]


class Section(BaseModel):
    """Base of all sections: camelCase keys, no unknown keys, immutable."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_in_it(cls, value: object) -> object:
        """Read null as an empty section, because a section whose settings are all comments is null in YAML."""
        return {} if value is None else value


#: The longest duration, a year, because more is a typing error and would overflow the clock.
LONGEST_DURATION = 366 * 24 * 3600.0

#: The longest time that a deletion lock may last, in seconds. No operator believes a Lease that says more.
MAX_LOCK_DURATION = 300.0

#: The factor by which jitter may lengthen the wait between two attempts on the Lease, as in client-go.
LEASE_JITTER = 1.2

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:\s]*):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65535


#: The type of errors about settings that contradict each other.
COMBINATION = "combination"


def _conflict(message: str) -> PydanticCustomError:
    return PydanticCustomError(COMBINATION, "{message}", {"message": message})


def listen_on(bind_address: str) -> tuple[str, int] | None:
    """Return host and port of a `bindAddress`, an empty host for all interfaces; None for `0`. Raise ValueError if not valid."""
    if bind_address == "0":
        return None
    found = _ADDRESS.fullmatch(bind_address)
    if found is None or int(found["port"]) > _LARGEST_PORT:
        raise ValueError("must be HOST:PORT, or :PORT for all interfaces, or 0 for none")
    return found["host"].strip("[]"), int(found["port"])


#: The placeholder in `flame.sessionManagerEndpoint` for the IP address of the session manager's Pod.
POD_IP = "{podIP}"


@lru_cache
def endpoint(template: str, *, name: str, namespace: str, cluster_domain: str, pod_ip: str) -> tuple[str, int]:
    """Return host and port of a session manager by a template; raise ValueError if the template has another form.

    The template is HOST:PORT with the placeholders {podIP}, {name}, {namespace} and {clusterDomain}.
    """
    filled = template.replace(POD_IP, f"[{pod_ip}]" if ":" in pod_ip else pod_ip)
    for placeholder, value in (("name", name), ("namespace", namespace), ("clusterDomain", cluster_domain)):
        filled = filled.replace(f"{{{placeholder}}}", value)
    found = _ADDRESS.fullmatch(filled)
    # The backend needs a port as well.
    if found is None or not found["host"] or re.search(r"[{}]", filled) or int(found["port"]) >= _LARGEST_PORT:
        raise ValueError(
            "must be HOST:PORT with the placeholders {podIP}, {name}, {namespace} and {clusterDomain}, or empty"
        )
    return found["host"].strip("[]"), int(found["port"])


def _bind_address(value: object) -> object:
    """Return the address as text, because `0` is a number in YAML."""
    value = "0" if value == 0 and not isinstance(value, bool) else value
    if isinstance(value, str):
        listen_on(value)
    return value


Seconds = Annotated[float, Field(ge=0, le=LONGEST_DURATION, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, le=LONGEST_DURATION, allow_inf_nan=False)]
BindAddress = Annotated[str, BeforeValidator(_bind_address)]


class ClientConnectionSettings(Section):
    """Limits on the operator's load on the API server."""

    max_in_flight: int = Field(128, ge=1, description="Concurrent requests, except watches.")


class LeaderElectionSettings(Section):
    """Leader election between replicas. The durations are those of the other Kubernetes components."""

    leader_elect: AtStart[bool] = Field(
        default=False, description="Whether to work only while holding the Lease; required for more than one replica."
    )
    lease_duration_seconds: AtStart[SomeSeconds] = Field(
        15, description="Seconds without a sign of the leader after which another replica takes over."
    )
    renew_deadline_seconds: AtStart[SomeSeconds] = Field(
        10, validate_default=True, description="Seconds that the leader tries to renew the Lease before it gives up."
    )
    retry_period_seconds: AtStart[SomeSeconds] = Field(
        2, validate_default=True, description="Seconds between two attempts to acquire or renew the Lease."
    )
    resource_name: AtStart[Subdomain] = Field("flamectl-operator", description="Name of the Lease.")
    resource_namespace: AtStart[OwnNamespace] = Field(
        "", description="Namespace of the Lease; empty means the operator's own."
    )

    @field_validator("renew_deadline_seconds")
    @classmethod
    def _before_the_lease_ends(cls, value: float, info: ValidationInfo) -> float:
        """Check that a leader that cannot renew gives up before another replica takes over."""
        lease = info.data.get("lease_duration_seconds", LONGEST_DURATION)
        if value >= lease:
            raise _conflict(f"must be less than leaseDurationSeconds ({value:g} is not less than {lease:g})")
        return value

    @field_validator("retry_period_seconds")
    @classmethod
    def _often_enough(cls, value: float, info: ValidationInfo) -> float:
        """Check that there is time for a second attempt."""
        deadline = info.data.get("renew_deadline_seconds", LONGEST_DURATION)
        if value * LEASE_JITTER >= deadline:
            raise _conflict(
                f"{LEASE_JITTER:g} times as long must be less than renewDeadlineSeconds"
                f" ({value * LEASE_JITTER:g} is not less than {deadline:g})"
            )
        return value


class ControllerSettings(Section):
    """The reconciliation of FlameClusters."""

    namespaces: AtStart[tuple[Namespace, ...]] = Field((), description="Namespaces to watch; an empty list means all.")
    workers: AtStart[int] = Field(32, ge=1, le=256, description="FlameClusters that are reconciled in parallel.")
    resync_seconds: SomeSeconds = Field(600, description="Seconds after which each FlameCluster is reconciled again.")
    max_creates_per_pass: int = Field(
        5000, ge=1, description="The most Pods that one pass creates; it also ends after 10 s, to write the status."
    )
    max_writes_in_flight: int = Field(64, ge=1, description="Concurrent writes of one pass.")
    lock_duration_seconds: float = Field(
        60,
        gt=0,
        le=MAX_LOCK_DURATION,
        allow_inf_nan=False,
        description="Seconds that a FlameCluster's deletion lock lasts unless it is extended.",
    )
    lock_identity: AtStart[Identity] = Field(
        "", description="Identity of this operator in deletion locks; empty derives it from the operator's namespace."
    )


class PodPolicy(Section):
    """Rights that FlameClusters may give their Pods.

    The operator creates Pods with its own rights. Without this policy, a user who may write a FlameCluster could use service
    accounts, Secrets or host access beyond their own rights, through a podTemplate or `env`. Everything is off by default.
    Lists hold exact names; `*` allows any name. `labels` and `annotations` hold patterns of keys.
    """

    service_accounts: tuple[str, ...] = Field((), description="Service accounts that Pods may use besides `default`.")
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
    priority_classes: tuple[str, ...] = Field((), description="Priority classes that are allowed.")
    runtime_classes: tuple[str, ...] = Field((), description="Runtime classes that are allowed.")
    node_names: bool = Field(default=False, description="Whether nodeName, which bypasses the scheduler, is allowed.")
    labels: tuple[str, ...] = Field(
        ("*",),
        description="Patterns of keys of labels that a podTemplate may set. `*` allows every key except well-known keys"
        " that grant identity, networks, sidecars, Secrets or devices. Any other pattern also allows the well-known keys that it"
        " matches.",
    )
    annotations: tuple[str, ...] = Field(
        ("*",),
        description="Patterns of keys of annotations that a podTemplate may set. `*` allows keys without `/` and dots, and"
        " prefixes known to give a Pod no rights, such as `prometheus.io/*`; docs/security.md lists them. Other keys need a"
        " pattern.",
    )


class FlameSettings(Section):
    """Settings of Flame's Pods, and of waits for them. Durations are in seconds."""

    init_image: str = Field("", description="Image of the executors' init container; empty for the executors' image.")
    cluster_domain: Subdomain = Field("cluster.local", description="The cluster's DNS domain.")
    termination_grace_period_seconds: int = Field(
        10, ge=0, description="Default of every Pod. Short, because Flame's processes ignore SIGTERM."
    )
    executor_toleration_seconds: int = Field(
        60,
        ge=0,
        description="Seconds that an executor stays bound to a node that is not ready or unreachable. Flame gives up on such"
        " a node after 45 s, so Kubernetes' default of 300 s would only delay the replacement.",
    )
    force_delete_after_seconds: Seconds = Field(
        60,
        description="Seconds after the grace period until the operator force-deletes a terminating session manager or object"
        " cache, because it needs the name; also the wait of Recreate for an old executor that does not terminate.",
    )
    terminal_pod_retention_seconds: Seconds = Field(
        30, description="Seconds that a failed or completed executor is kept, so that its logs can be read."
    )
    backoff_base_seconds: SomeSeconds = Field(10, description="Seconds before the second consecutive replacement.")
    backoff_limit_seconds: SomeSeconds = Field(300, description="Longest time between two replacements, in seconds.")
    stable_after_seconds: SomeSeconds = Field(
        600, description="Seconds that Pods must be ready before earlier failures are forgotten."
    )
    session_manager_endpoint: str = Field(
        "{podIP}:8080",
        description="Address of a session manager for the operator: host and port of its frontend; the backend has the next port."
        " A name in place of `{podIP}` lets everybody who can change what the name leads to redirect the operator."
        " Empty: the operator asks no session manager and decides only by the status of Pods.",
    )
    registration_deadline_seconds: SomeSeconds = Field(
        120,
        description="Seconds that an executor may run without being registered with its session manager before it is replaced.",
    )
    pod_policy: PodPolicy = PodPolicy()

    @field_validator("session_manager_endpoint")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        """Check that the operator can fill it in for any FlameCluster."""
        if value:
            for pod_ip in ("192.0.2.1", "2001:db8::1"):
                endpoint(value, name="a", namespace="a", cluster_domain="a", pod_ip=pod_ip)
        return value


LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]


class LoggingSettings(Section):
    """The log."""

    format: AtStart[LogFormat] = Field(
        "auto", description="`json` for machines, `console` for people; `auto` is `console` on a terminal, else `json`."
    )
    level: LogLevel = Field("info", description="The lowest level that is logged.")


class MetricsSettings(Section):
    """The metrics for Prometheus."""

    bind_address: AtStart[BindAddress] = Field(":8080", description="Address of the metrics; `0` serves none.")


class HealthSettings(Section):
    """The health checks for the kubelet."""

    bind_address: AtStart[BindAddress] = Field(":8081", description="Address of the health checks; `0` serves none.")
    stuck_after_seconds: AtStart[SomeSeconds] = Field(
        600,
        description="Seconds without progress of a pass after which /healthz fails, so that the process is restarted.",
    )


class OperatorConfig(Section):
    """All settings."""

    api_version: Literal["config.flame.xflops.io/v1alpha1"] = "config.flame.xflops.io/v1alpha1"
    kind: Literal["OperatorConfig"] = "OperatorConfig"
    client_connection: ClientConnectionSettings = ClientConnectionSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    controller: ControllerSettings = ControllerSettings()
    flame: FlameSettings = FlameSettings()
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    health: HealthSettings = HealthSettings()
