"""When is a Pod no longer what its author asked for?"""

from __future__ import annotations

from typing import Any

import pytest

from flamectl_operator.settings import FlameSettings
from tests.unit.builders import desired, executor_template, session_template

BASE = desired()


def _moved(changes: dict[str, Any], base: dict[str, Any] | None = None) -> tuple[bool, bool]:
    """Whether the session manager's revision changes, and whether the executors' does."""
    before, after = desired(base), desired(changes)
    return (
        before.session_manager.revision != after.session_manager.revision,
        before.executor.revision != after.executor.revision,
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
        pytest.param(
            {"sessionManager": {"resources": {"limits": {"cpu": 1}}}}, SESSION_MANAGER_ONLY, id="its resources"
        ),
        pytest.param({"sessionManager": {"slot": "cpu=2,mem=1g"}}, SESSION_MANAGER_ONLY, id="slot"),
        pytest.param({"sessionManager": {"policy": "drf"}}, SESSION_MANAGER_ONLY, id="policy"),
        pytest.param({"sessionManager": {"storage": "none"}}, SESSION_MANAGER_ONLY, id="storage"),
        pytest.param({"sessionManager": {"env": [{"name": "A", "value": "b"}]}}, SESSION_MANAGER_ONLY, id="its env"),
        pytest.param(session_template({"nodeSelector": {"a": "b"}}), SESSION_MANAGER_ONLY, id="its podTemplate"),
        pytest.param(session_template({}, labels={"a": "b"}), SESSION_MANAGER_ONLY, id="its labels"),
        pytest.param(
            session_template({}, annotations={"flame.xflops.io/restarted-at": "now"}),
            SESSION_MANAGER_ONLY,
            id="restart",
        ),
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
        pytest.param({"suspend": True}, NEITHER, id="suspend"),
        pytest.param({"paused": True}, NEITHER, id="paused"),
        pytest.param({"lockOptions": {"disabled": True, "denyList": ["a"]}}, NEITHER, id="lockOptions"),
    ],
)
def test_a_change_makes_stale_only_what_reads_it(changes: dict[str, Any], moved: tuple[bool, bool]) -> None:
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
        pytest.param(
            {"sessionManager": {"env": [{"name": "A"}]}},
            {"sessionManager": {"env": [{"name": "A", "value": ""}]}},
            id="empty value",
        ),
        pytest.param(
            {"sessionManager": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}},
            {
                "sessionManager": {
                    "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}}]
                }
            },
            id="default of a source",
        ),
        pytest.param(
            session_template({"nodeSelector": {"a": "1", "b": "2"}}),
            session_template({"nodeSelector": {"b": "2", "a": "1"}}),
            id="order of keys",
        ),
        pytest.param({}, session_template({"nodeSelector": None}), id="null in the podTemplate"),
    ],
)
def test_saying_the_same_in_other_words_makes_nothing_stale(base: dict[str, Any], changes: dict[str, Any]) -> None:
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
def test_the_operators_settings_change_what_is_rendered_but_not_the_revision(changed: dict[str, Any]) -> None:
    after = desired(settings=FlameSettings(**changed))

    assert after.executor.revision == BASE.executor.revision
    assert after.session_manager.revision == BASE.session_manager.revision
    assert after.executor.rendered != BASE.executor.rendered


def test_patience_is_in_no_hash() -> None:
    after = desired(
        settings=FlameSettings(force_delete_after_seconds=1, backoff_base_seconds=1, stable_after_seconds=1)
    )

    assert after.executor == BASE.executor
    assert after.session_manager == BASE.session_manager


def test_the_same_spec_always_gives_the_same_pods() -> None:
    assert desired() == BASE
