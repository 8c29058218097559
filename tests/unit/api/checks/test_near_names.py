"""Containers whose names are nearly the operator's."""

from __future__ import annotations

import pytest

from flamectl_operator.api.checks.consistency import near_names
from tests.unit.builders import executor_template, session_template, spec


@pytest.mark.parametrize(
    "name", ["executor", "executors", "executormanager", "flame-executor-manager", "executor-manger", "flame-executor"]
)
def test_name_similar_to_the_executors_container_is_a_warning(name: str) -> None:
    containers = [{"name": "logs", "image": "example.com/logs:1"}, {"name": name, "image": "example.com/x:1"}]

    (warning,) = near_names(spec(executor_template({"containers": containers})))
    assert warning.startswith(
        f'spec.executorManager.podTemplate.spec.containers[1] adds another container "{name}", because'
    )
    assert warning.endswith('the component\'s container is named "executor-manager"')


def test_name_similar_to_the_object_caches_container_is_a_warning() -> None:
    template = {"spec": {"containers": [{"name": "cache-object", "image": "x"}, {"name": "objectcache", "image": "x"}]}}
    (warning,) = near_names(spec({"objectCache": {"image": "example.com/cache:1", "podTemplate": template}}))
    assert warning.endswith('container "objectcache", because the component\'s container is named "object-cache"')


@pytest.mark.parametrize("name", ["logs", "session-exporter", "proxy", "object-cache", "manager"])
def test_another_name_is_not_told(name: str) -> None:
    assert near_names(spec(session_template({"containers": [{"name": name, "image": "example.com/x:1"}]}))) == ()


def test_exact_container_name_is_no_warning() -> None:
    assert near_names(spec(session_template({"containers": [{"name": "session-manager", "tty": True}]}))) == ()
