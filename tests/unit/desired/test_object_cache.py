"""The object cache as a component of its own: its Pods, its Service and its configuration."""

from typing import Any

import pytest
import yaml

from tests.unit.builders import cached, desired, merged

BASE = desired(cached())


def _pod(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    template = desired(merged(cached(), changes or {})).object_cache
    assert template is not None
    return template.pod("my-flame-object-cache-0")


def _container(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    [container] = _pod(changes)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def _cache_section(changes: dict[str, Any]) -> dict[str, Any]:
    section = yaml.safe_load(desired(changes).config_text)["cache"]
    assert isinstance(section, dict)
    return section


def test_without_an_image_there_is_no_object_cache() -> None:
    assert desired().object_cache is None
    assert desired({"objectCache": {"replicas": 3}}).cache_replicas == 0


def test_the_service_selects_the_object_cache_only_where_the_operator_runs_one() -> None:
    selected = [each.object_cache_service["spec"]["selector"]["app"] for each in (desired(), BASE)]

    assert selected == ["flame-executor-manager", "flame-object-cache"]
    assert BASE.object_cache_service["spec"]["selector"].items() <= _pod()["metadata"]["labels"].items()


def test_container_has_its_configuration_and_a_probe_on_its_port() -> None:
    container = _container()

    assert (container["name"], container["image"]) == ("object-cache", "xflops/flame-object-cache:v0.6.0")
    assert container["args"] == ["--config", "/etc/flame/flame-cluster.yaml"]
    assert container["ports"] == [{"name": "grpc", "containerPort": 9090, "protocol": "TCP"}]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["tcpSocket"] == {"port": 9090}
    assert _pod()["spec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize("storage", ["/data/cache", "fs:///data/cache", "file:///data/cache"])
def test_the_storage_is_a_directory_that_any_user_can_write(storage: str) -> None:
    changes = {"objectCache": {"storage": storage}}

    mounts = {mount["mountPath"]: mount["name"] for mount in _container(changes)["volumeMounts"]}
    assert mounts["/data/cache"] == "flame-storage"
    assert {"name": "flame-storage", "emptyDir": {}} in _pod(changes)["spec"]["volumes"]
    assert mounts["/usr/local/flame/logs"] == "flame-logs"


@pytest.mark.parametrize("storage", ["none", "/", "/etc", "/usr/local/flame"])
def test_nothing_is_mounted_where_it_could_hide_files_of_the_image(storage: str) -> None:
    names = {mount["name"] for mount in _container({"objectCache": {"storage": storage}})["volumeMounts"]}

    assert names == {"config", "flame-logs"}


def test_pod_template_is_merged_into_the_pod() -> None:
    changes = {
        "objectCache": {
            "imagePullPolicy": "Never",
            "env": [{"name": "RUST_LOG", "value": "debug"}],
            "resources": {"limits": {"memory": "4Gi"}},
            "podTemplate": {"metadata": {"labels": {"team": "ml"}}, "spec": {"nodeSelector": {"disk": "fast"}}},
        }
    }
    container, pod = _container(changes), _pod(changes)

    assert container["imagePullPolicy"] == "Never"
    assert container["resources"] == {"limits": {"memory": "4Gi"}}
    assert [each["value"] for each in container["env"] if each["name"] == "RUST_LOG"] == ["debug"]
    assert pod["metadata"]["labels"]["team"] == "ml"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}


def test_eviction_is_configured_only_when_the_spec_sets_it() -> None:
    assert "eviction" not in _cache_section(cached())
    said = {"policy": "none", "maxMemory": "2Gi", "maxObjects": 5}
    assert _cache_section(cached(eviction=said))["eviction"] == {
        "policy": "none",
        "max_memory": "2Gi",
        "max_objects": 5,
    }


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({"objectCache": {"image": "other"}}, True),
        ({"objectCache": {"storage": "/data/other"}}, True),
        ({"objectCache": {"networkInterface": "ens1"}}, True),
        ({"objectCache": {"eviction": {"maxObjects": 7}}}, True),
        ({"objectCache": {"env": [{"name": "A"}]}}, True),
        ({"objectCache": {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}}, True),
        ({"objectCache": {"replicas": 5}}, False),
        ({"sessionManager": {"image": "x"}}, False),
        ({"executorManager": {"image": "x"}}, False),
        ({"configOverrides": {"cache": {"endpoint": "grpc://x:9090"}}}, True),
    ],
)
def test_object_cache_is_stale_only_after_a_change_of_its_fields(changed: dict[str, Any], *, stale: bool) -> None:
    after = desired(merged(cached(), changed))

    assert after.object_cache is not None
    assert BASE.object_cache is not None
    assert (after.object_cache.revision != BASE.object_cache.revision) is stale
    if "objectCache" in changed:
        assert after.session_manager.revision == BASE.session_manager.revision
        assert after.group.template.revision == BASE.group.template.revision


def test_an_upgrade_of_the_operator_restarts_no_object_cache() -> None:
    """Change the value only if every object cache is meant to be replaced; see `test_revision.py`."""
    assert BASE.object_cache is not None
    assert BASE.object_cache.revision == "993ff79b487e39f2"


def test_the_object_cache_gets_its_certificate_and_key() -> None:
    changes = {"objectCache": {"tls": {"secretName": "my-flame-flame-cache-tls"}}}

    [volume] = [each for each in _pod(changes)["spec"]["volumes"] if "secret" in each]
    assert [item["path"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key", "ca.crt"]
    assert _cache_section(merged(cached(), changes))["endpoint"] == "grpcs://my-flame-object-cache:9090"
