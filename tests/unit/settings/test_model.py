"""The operator's own settings."""

import pytest
from pydantic import ValidationError

from flamectl_operator.settings.document import parse
from flamectl_operator.settings.layers import SettingsError, merge
from flamectl_operator.settings.model import OperatorConfig, listen_on

HEAD = "apiVersion: config.flame.xflops.io/v1alpha1\nkind: OperatorConfig\n"


def _load(text: str) -> OperatorConfig:
    return merge([parse(text, "here")]).config


def test_defaults_equal_the_documented_ones() -> None:
    config = OperatorConfig()

    assert config.controller.namespaces == ()
    assert (config.controller.workers, config.controller.resync_seconds) == (32, 600)
    assert config.flame.init_image == ""
    assert config.flame.termination_grace_period_seconds == 10
    assert config.flame.force_delete_after_seconds == 60
    assert config.flame.terminal_pod_retention_seconds == 30
    assert (config.flame.backoff_base_seconds, config.flame.backoff_limit_seconds) == (10, 300)
    assert config.flame.stable_after_seconds == 600
    assert (config.logging.format, config.logging.level) == ("auto", "info")
    election = config.leader_election
    assert not election.leader_elect
    assert (election.lease_duration_seconds, election.renew_deadline_seconds, election.retry_period_seconds) == (
        15,
        10,
        2,
    )
    assert (config.metrics.bind_address, config.health.bind_address) == (":8080", ":8081")


def test_pod_policy_allows_nothing_by_default() -> None:
    policy = OperatorConfig().flame.pod_policy
    assert not any(policy.model_dump(exclude={"labels", "annotations"}).values())
    assert policy.labels == policy.annotations == ("*",)  # all but well-known keys


@pytest.mark.parametrize("text", ["", HEAD, "---\n", "{}"], ids=["empty", "head", "document", "object"])
def test_empty_file_means_the_defaults(text: str) -> None:
    assert _load(text) == OperatorConfig()


def test_settings_are_read_from_a_file() -> None:
    config = _load(
        f"{HEAD}"
        "controller: {namespaces: [a, b], workers: 3, maxCreatesPerPass: 10}\n"
        "flame:\n"
        "  initImage: mirror/busybox:1\n"
        "  podPolicy: {hostPaths: [/data], secrets: ['*'], tokenMounts: true}\n"
        "logging: {format: console, level: debug}\n"
    )

    assert config.controller.namespaces == ("a", "b")
    assert (config.controller.workers, config.controller.max_creates_per_pass) == (3, 10)
    assert config.flame.init_image == "mirror/busybox:1"
    assert config.flame.pod_policy.host_paths == ("/data",)
    assert config.flame.pod_policy.secrets == ("*",)
    assert config.flame.pod_policy.token_mounts
    assert config.logging.format == "console"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param("wrokers: 3", "wrokers", id="unknown at the top"),
        pytest.param("controller: {wrokers: 3}", "controller.wrokers", id="unknown in a section"),
        pytest.param("flame: {podPolicy: {hostPath: [/]}}", "flame.podPolicy.hostPath", id="unknown further down"),
        pytest.param("flame: {pod_policy: {}}", "flame.pod_policy", id="a name that is not a key of the file"),
        pytest.param(
            "controller: {max_creates_per_pass: 5}", "controller.max_creates_per_pass", id="another such name"
        ),
        pytest.param("controller: {workers: 0}", "controller.workers", id="too small"),
        pytest.param("controller: {workers: 257}", "controller.workers", id="too large"),
        pytest.param("controller: {workers: many}", "controller.workers", id="no number"),
        pytest.param("controller: {namespaces: default}", "controller.namespaces", id="no list"),
        pytest.param("controller: {namespaces: ['']}", "controller.namespaces[0]", id="a namespace without a name"),
        pytest.param("controller: {namespaces: [a, 5]}", "controller.namespaces[1]", id="an entry of a list"),
        pytest.param("controller: []", "controller", id="no section"),
        pytest.param("flame: {clusterDomain: ''}", "flame.clusterDomain", id="empty"),
        pytest.param("flame: {backoffBaseSeconds: 0}", "flame.backoffBaseSeconds", id="zero"),
        pytest.param("flame: {backoffLimitSeconds: .nan}", "flame.backoffLimitSeconds", id="not a number"),
        pytest.param("flame: {forceDeleteAfterSeconds: .inf}", "flame.forceDeleteAfterSeconds", id="infinite delay"),
        pytest.param("flame: {stableAfterSeconds: .inf}", "flame.stableAfterSeconds", id="infinite time"),
        pytest.param(
            "flame: {backoffLimitSeconds: 1.0e+300}", "flame.backoffLimitSeconds", id="beyond the range of datetime"
        ),
        pytest.param("logging: {level: loud}", "logging.level", id="no such choice"),
        pytest.param("clientConnection: {maxInFlight: 0}", "clientConnection.maxInFlight", id="no request at all"),
        pytest.param("metrics: {bindAddress: '8080'}", "metrics.bindAddress", id="a port without a colon"),
        pytest.param("health: {bindAddress: ':65536'}", "health.bindAddress", id="no such port"),
        pytest.param("apiVersion: v1", "apiVersion", id="another version"),
        pytest.param("kind: ConfigMap", "kind", id="another kind"),
        pytest.param("- a", "(document)", id="a list"),
        pytest.param("text", "(document)", id="text"),
    ],
)
def test_invalid_value_is_rejected_with_the_path_of_the_field(text: str, path: str) -> None:
    with pytest.raises(SettingsError) as raised:
        _load(text)

    message = str(raised.value)
    assert message.startswith(f"here: {path}: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{leaseDurationSeconds: 10}",
            "renewDeadlineSeconds: must be less than leaseDurationSeconds (10 is not less than 10)",
            id="a lease that ends while it is renewed"),
        pytest.param("{retryPeriodSeconds: 9}",
            "retryPeriodSeconds: 1.2 times as long must be less than renewDeadlineSeconds (10.8 is not less than 10)",
            id="no time for a second attempt"),
        pytest.param("{leaseDurationSeconds: 0}", "leaseDurationSeconds: Input should be greater than 0", id="one at a time"),
    ],
)  # fmt: skip
def test_leader_election_durations_must_fit(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        _load(f"leaderElection: {text}")

    assert str(raised.value) == f"here: leaderElection.{complaint}"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (":8080", ("", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("0", None),
    ],
)
def test_valid_bind_address_is_parsed(address: str, place: tuple[str, int] | None) -> None:
    assert listen_on(address) == place


@pytest.mark.parametrize(
    "address", ["", "1", "8080", ":", "host", "host:", "::1:80", "[::1]", ":80 ", ":65536", ":-1", ":٣"]
)
def test_invalid_bind_address_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        listen_on(address)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        _load("controller: {workers: 0, resyncSeconds: 0}\nlogging: {level: loud}")

    assert all(
        path in str(raised.value) for path in ("controller.workers", "controller.resyncSeconds", "logging.level")
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: [", id="cut off"),
        pytest.param("a: b: c", id="no structure"),
        pytest.param("!!python/object:os.system {}", id="code"),
        pytest.param("flame: {initImage: 2025-99-99}", id="a date that is none"),
        pytest.param("controller: {workers: !!int ''}", id="a number of no digits"),
        pytest.param("controller: {workers: !!bool 'enabled'}", id="a truth that is none"),
        pytest.param("controller: {workers: !!timestamp x}", id="a time that is none"),
        pytest.param("controller: {workers: 1}\ncontroller: {resyncSeconds: 5}", id="a section twice"),
        pytest.param("controller:\n  workers: 1\n  workers: 2", id="a setting twice"),
        pytest.param("? [a]\n: b", id="a list for a key"),
    ],
)
def test_invalid_yaml_is_rejected_in_one_line(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        _load(text)

    assert str(raised.value).startswith("here: not YAML: ")
    assert "\n" not in str(raised.value)


def test_empty_section_is_valid() -> None:
    assert _load("controller:\n  # workers: 3\nflame:\n  podPolicy:\n") == OperatorConfig()


def test_empty_setting_is_rejected() -> None:
    with pytest.raises(SettingsError, match=r"controller\.workers"):
        _load("controller:\n  workers:\n")


def test_unquoted_zero_disables_a_listener() -> None:
    config = _load("metrics: {bindAddress: 0}\nhealth: {bindAddress: '0'}")

    assert (config.metrics.bind_address, config.health.bind_address) == ("0", "0")


def test_settings_do_not_change_after_they_were_read() -> None:
    with pytest.raises(ValidationError):
        OperatorConfig().controller.workers = 3  # type: ignore[misc]
