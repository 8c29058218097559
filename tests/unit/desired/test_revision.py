"""Changes of the spec that make a Pod stale, and changes that do not."""

from typing import Any

import pytest

from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import desired, executor_template, merged, session_template
from tests.unit.kube.certificates import AUTHORITY

BASE = desired()


def _moved(changes: dict[str, Any], base: dict[str, Any] | None = None) -> tuple[bool, bool]:
    before, after = desired(base), desired(changes)
    return (
        before.session_manager.revision != after.session_manager.revision,
        before.group.template.revision != after.group.template.revision,
    )


SESSION_MANAGER_ONLY = (True, False)
EXECUTORS_ONLY = (False, True)
BOTH = (True, True)
NEITHER = (False, False)


@pytest.mark.parametrize(
    ("changes", "moved"),
    [
        pytest.param({"sessionManager": {"image": "x"}}, SESSION_MANAGER_ONLY, id="session manager's image"),
        pytest.param({"sessionManager": {"imagePullPolicy": "Always"}}, SESSION_MANAGER_ONLY, id="its pull policy"),
        pytest.param({"sessionManager": {"resources": {"limits": {"cpu": 1}}}}, SESSION_MANAGER_ONLY, id="its resources"),
        pytest.param({"sessionManager": {"slot": "cpu=2,mem=1g"}}, SESSION_MANAGER_ONLY, id="slot"),
        pytest.param({"sessionManager": {"policy": "drf"}}, SESSION_MANAGER_ONLY, id="policy"),
        pytest.param({"sessionManager": {"storage": "none"}}, SESSION_MANAGER_ONLY, id="storage"),
        pytest.param({"sessionManager": {"env": [{"name": "A", "value": "b"}]}}, SESSION_MANAGER_ONLY, id="its env"),
        pytest.param(session_template({"nodeSelector": {"a": "b"}}), SESSION_MANAGER_ONLY, id="its podTemplate"),
        pytest.param(session_template({}, labels={"a": "b"}), SESSION_MANAGER_ONLY, id="its labels"),
        pytest.param(session_template({}, annotations={"flame.xflops.io/restarted-at": "now"}), SESSION_MANAGER_ONLY,
            id="restart"),
        pytest.param({"sessionManager": {"recovery": {"retryLimits": 3}}}, SESSION_MANAGER_ONLY, id="recovery"),
        pytest.param({"scheduleInterval": 500}, SESSION_MANAGER_ONLY, id="scheduleInterval"),
        pytest.param({"limits": {"maxSessions": 7}}, SESSION_MANAGER_ONLY, id="maxSessions"),
        pytest.param({"executorManager": {"runtimeStorage": {"medium": "Memory"}}}, EXECUTORS_ONLY, id="medium"),
        pytest.param({"executorManager": {"runtimeStorage": {"sizeLimit": "1Gi"}}}, EXECUTORS_ONLY, id="sizeLimit"),
        pytest.param({"executorManager": {"image": "x"}}, EXECUTORS_ONLY, id="executors' image"),
        pytest.param({"executorManager": {"imagePullPolicy": "Never"}}, EXECUTORS_ONLY, id="executors' pull policy"),
        pytest.param({"executorManager": {"resources": {"limits": {"cpu": 1}}}}, EXECUTORS_ONLY, id="their resources"),
        pytest.param({"executorManager": {"shim": "wasm"}}, EXECUTORS_ONLY, id="shim"),
        pytest.param({"executorManager": {"maxExecutors": 3}}, EXECUTORS_ONLY, id="maxExecutors"),
        pytest.param({"executorManager": {"env": [{"name": "A", "value": "b"}]}}, EXECUTORS_ONLY, id="executors' env"),
        pytest.param(executor_template({"nodeSelector": {"a": "b"}}), EXECUTORS_ONLY, id="executors' podTemplate"),
        pytest.param({"objectCache": {"networkInterface": "ens1"}}, EXECUTORS_ONLY, id="networkInterface"),
        pytest.param({"objectCache": {"storage": "/data/x"}}, EXECUTORS_ONLY, id="object cache's storage"),
        pytest.param({"flameVersion": "0.5"}, BOTH, id="flameVersion"),
        pytest.param({"configOverrides": {"cluster": {"tls": {"ca_file": "x"}}}}, BOTH, id="configOverrides"),
        pytest.param({"executorManager": {"replicas": 7}}, NEITHER, id="replicas"),
        pytest.param({"executorManager": {"updateStrategy": {"type": "Recreate"}}}, NEITHER, id="updateStrategy"),
        pytest.param({"executorManager": {"autoscaling": {"maxReplicas": 9}}}, NEITHER, id="autoscaling"),
        pytest.param({"executorManager": {"drain": {"timeoutSeconds": 9}}}, NEITHER, id="drain"),
        pytest.param({"executorManager": {"drain": {"onTermination": {"enabled": True}}}}, NEITHER, id="onTermination"),
        pytest.param({"sessionManager": {"updateStrategy": {"type": "WhenIdle"}}}, NEITHER, id="its updateStrategy"),
        pytest.param({"idle": {"timeoutSeconds": 9}}, NEITHER, id="idle"),
        pytest.param({"suspend": True}, NEITHER, id="suspend"),
        pytest.param({"paused": True}, NEITHER, id="paused"),
        pytest.param({"lockOptions": {"disabled": True, "denyList": ["a"]}}, NEITHER, id="lockOptions"),
    ],
)  # fmt: skip
def test_change_makes_only_its_readers_stale(changes: dict[str, Any], moved: tuple[bool, bool]) -> None:
    assert _moved(changes) == moved


def _limits(cpu: object) -> dict[str, Any]:
    return {
        "sessionManager": {"resources": {"limits": {"cpu": cpu}}},
        "executorManager": {"resources": {"limits": {"cpu": cpu}}},
    }


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        pytest.param(
            {},
            {
                "sessionManager": {
                    "slot": "cpu=1,mem=1g",
                    "policy": "priority",
                    "storage": "sqlite://flame.db",
                    "resources": {"limits": {}, "requests": {}},
                    "env": [],
                    "podTemplate": {"metadata": {"labels": {}, "annotations": {}}, "spec": {}},
                },
                "executorManager": {
                    "replicas": 1,
                    "shim": "host",
                    "maxExecutors": 10,
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
                    "podTemplate": {},
                },
                "objectCache": {"networkInterface": "eth0", "storage": "/var/lib/flame/cache"},
                "flameVersion": "0.6",
                "suspend": False,
                "paused": False,
                "configOverrides": {},
            },
            id="defaults written down",
        ),
        pytest.param(_limits("1"), _limits("1000m"), id="millis"),
        pytest.param(_limits(1), _limits("1"), id="number and text"),
        pytest.param(_limits("1"), _limits("1.0"), id="decimals"),
        pytest.param({}, {"limits": {}, "sessionManager": {"recovery": {}}}, id="empty options"),
        pytest.param({}, {"executorManager": {"runtimeStorage": {}}}, id="empty runtimeStorage"),
        pytest.param({"executorManager": {"runtimeStorage": {"sizeLimit": "1Gi"}}},
            {"executorManager": {"runtimeStorage": {"sizeLimit": "1024Mi"}}}, id="size limit"),
        pytest.param({"sessionManager": {"env": [{"name": "A"}]}}, {"sessionManager": {"env": [{"name": "A", "value": ""}]}},
            id="empty value"),
        pytest.param({"sessionManager": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}},
            {"sessionManager": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}]}},
            id="default of a source"),
        pytest.param(session_template({"nodeSelector": {"a": "1", "b": "2"}}),
            session_template({"nodeSelector": {"b": "2", "a": "1"}}), id="order of keys"),
        pytest.param({}, session_template({"nodeSelector": None}), id="null in the podTemplate"),
        pytest.param(session_template({"containers": [{"name": "session-manager", "workingDir": "/"}]}),
            session_template({"containers": [{"name": "session-manager", "workingDir": "/", "resources": {}}]}),
            id="empty resources of the operator's container, as kubectl prints them"),
    ],
)  # fmt: skip
def test_equivalent_spec_makes_nothing_stale(base: dict[str, Any], changes: dict[str, Any]) -> None:
    assert _moved(changes, base) == NEITHER


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"init_image": "other"}, id="init image"),
        pytest.param({"cluster_domain": "corp.example"}, id="cluster domain"),
        pytest.param({"executor_toleration_seconds": 5}, id="tolerations"),
        pytest.param({"termination_grace_period_seconds": 5}, id="grace period"),
    ],
)
def test_settings_of_the_operator_change_the_rendered_hash_and_not_the_revision(changed: dict[str, Any]) -> None:
    after = desired(settings=FlameSettings(**changed))

    assert after.group.template.revision == BASE.group.template.revision
    assert after.session_manager.revision == BASE.session_manager.revision
    assert after.group.template.rendered != BASE.group.template.rendered


def test_wait_settings_are_in_no_hash() -> None:
    after = desired(
        settings=FlameSettings(force_delete_after_seconds=1, backoff_base_seconds=1, stable_after_seconds=1)
    )

    assert after.group.template == BASE.group.template
    assert after.session_manager == BASE.session_manager


def test_the_same_spec_always_gives_the_same_pods() -> None:
    assert desired() == BASE


#: Specs as people write them, with the revisions of the session manager and of executors, and the
#: hashes of the file they read and of the whole spec.
PINNED = [
    pytest.param({}, ("864672c7355089ad", "c5d8f3c6cfe29c5d", "ef8e055a64caa9e6", "30d9a7cfb466b81a"), id="the minimum"),
    pytest.param({"flameVersion": "0.5"}, ("fba3179e384489b7", "57f3a973643b6902", "38d35ecf87f5b425", "a2a4c7e9c54da356"),
        id="flameVersion"),
    pytest.param({"configOverrides": {"cluster": {"tls": {"ca_file": "/ca"}, "resreq": None}, "extra": [1, 1.5, True, "é"]}},
        ("02cb5a8b2e1c250e", "f1c0ebc0c9ebfa9e", "4da9fc18c154b2b7", "cbfa7e228d552f52"), id="configOverrides"),
    pytest.param(_limits("1500m"), ("60fb454a9c0cff4b", "6ff9ab974bb8c926", "ef8e055a64caa9e6", "e2daa15094f23730"),
        id="resources"),
    pytest.param(
        {
            "sessionManager": {
                "imagePullPolicy": "Always",
                "slot": "cpu=2,mem=4g,gpu=1",
                "policy": "drf",
                "storage": "none",
                "env": [{"name": "A", "value": "b"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
            },
            "executorManager": {"shim": "wasm", "maxExecutors": 3, "env": [{"name": "A"}], "replicas": 7},
            "objectCache": {"networkInterface": "ens.*", "storage": "/data/cache"},
        },
        ("fdfc9a90425d7fb3", "79b77a6f2eda7574", "10079ee75b995f02", "4b77d7c0fd8d66fb"),
        id="each component's own",
    ),
    pytest.param(
        merged(
            session_template({"nodeSelector": {"b": "2", "a": "1"}, "priorityClassName": None}, labels={"team": "ml"}),
            executor_template(
                {
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "containers": [{"name": "executor-manager", "securityContext": {"runAsUser": 1000}}],
                },
                annotations={"flame.xflops.io/restarted-at": "2026-01-31T12:00:00Z"},
            ),
        ),
        ("5039910c64dcbe93", "4ffe33e54b337464", "ef8e055a64caa9e6", "6f334c5758b3d9f2"),
        id="podTemplates",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "pinned"), PINNED)
def test_an_upgrade_of_the_operator_restarts_no_pod(changes: dict[str, Any], pinned: tuple[str, ...]) -> None:
    """Each part of a spec keeps its hash from version to version; see docs/install.md."""
    found = desired(changes)

    hashes = (found.config_hash, found.spec_hash)
    assert (found.session_manager.revision, found.group.template.revision, *hashes) == pinned, (
        "Another revision replaces the Pods of every FlameCluster like this one when the operator is upgraded, another hash"
        " rewrites its ConfigMap, and another hash of the spec stops the operator."
        " Adapt these values only if that is meant, and docs/install.md and the changelog with them."
    )


def test_bundle_that_only_the_operator_reads_makes_nothing_stale() -> None:
    plain = {"tls": {"secretName": "x"}}
    before, after = desired(plain), desired({"tls": {"secretName": "x", "caBundle": AUTHORITY}})

    assert before.session_manager.revision == after.session_manager.revision
    assert before.group.template.revision == after.group.template.revision
