"""Certificates in Pods and in flame-cluster.yaml."""

from typing import Any

import pytest
import yaml

from flamectl_operator.api.problems import InvalidSpecError
from flamectl_operator.desired.pod_policy import check_pod_policy
from flamectl_operator.desired.tls import certificate_names
from flamectl_operator.settings.model import PodPolicy
from tests.unit.builders import OWNER, desired, merged, session_template, spec

BOTH: dict[str, Any] = {
    "tls": {"secretName": "manager", "certKey": "a.pem", "keyKey": "b.pem", "caKey": "c.pem"},
    "objectCache": {"tls": {"secretName": "cache"}},
}
FILES = {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt"}
SECURE_0_7: dict[str, Any] = {"flameVersion": "0.7", "tls": {"secretName": "manager", "trustDomain": "flame.example"}}


def _files(service: str) -> dict[str, str]:
    """The files of a service's certificate, as Flame's configuration names them."""
    return {f"{name}_file": f"/etc/flame-tls/{service}/{file}" for name, file in FILES.items()}


def _config(changes: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(desired(changes).config_text)
    return config


def _secrets(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["secret"] for each in pod["spec"]["volumes"] if "secret" in each}


def _mounts(pod: dict[str, Any]) -> dict[str, str]:
    [container] = pod["spec"]["containers"]
    return {
        mount["mountPath"]: mount["name"]
        for mount in container["volumeMounts"]
        if "/etc/flame-tls" in mount["mountPath"]
    }


def test_without_tls_no_secret_is_mounted_and_no_scheme_changes() -> None:
    wanted = desired()

    for pod in (wanted.session_manager.manifest, wanted.group.template.manifest):
        assert _secrets(pod) == {}
        assert _mounts(pod) == {}
    assert "tls" not in wanted.config_text


def test_the_configuration_names_schemes_and_files_of_both_services() -> None:
    config = _config(BOTH)

    assert config["cluster"]["endpoint"] == "https://my-flame-session-manager:8080"
    assert config["cluster"]["tls"] == _files("cluster")
    assert config["cache"]["endpoint"] == "grpcs://my-flame-object-cache:9090"
    assert config["cache"]["tls"] == _files("cache")


@pytest.mark.parametrize(
    ("changes", "schemes"),
    [
        ({"tls": {"secretName": "x"}}, ("https", "grpc")),
        ({"objectCache": {"tls": {"secretName": "x"}}}, ("http", "grpcs")),
        (SECURE_0_7, ("https", "grpcs")),
        ({"flameVersion": "0.7"}, ("http", "grpc")),
    ],
)
def test_each_service_has_the_scheme_of_its_own_certificate(changes: dict[str, Any], schemes: tuple[str, str]) -> None:
    config = _config(changes)

    assert tuple(config[part]["endpoint"].partition("://")[0] for part in ("cluster", "cache")) == schemes


def test_flame_0_7_reads_one_security_section_and_none_of_0_6() -> None:
    config = _config(SECURE_0_7)

    assert config["security"] == {"trust_domain": "flame.example", "tls": _files("cluster")}
    assert "tls" not in config["cluster"]
    assert "tls" not in config["cache"]


def test_the_session_manager_gets_its_certificate_key_and_authority() -> None:
    pod = desired(BOTH).session_manager.manifest

    assert _mounts(pod) == {"/etc/flame-tls/cluster": "flame-tls"}
    items = [{"key": key, "path": FILES[name]} for name, key in (("cert", "a.pem"), ("key", "b.pem"), ("ca", "c.pem"))]
    assert _secrets(pod) == {"flame-tls": {"secretName": "manager", "items": items}}


@pytest.mark.parametrize("changes", [BOTH, SECURE_0_7])
def test_executors_get_authorities_and_no_keys(changes: dict[str, Any]) -> None:
    pod = desired(changes).group.template.manifest

    assert {tuple(item["path"] for item in secret["items"]) for secret in _secrets(pod).values()} == {("ca.crt",)}
    cache = {"/etc/flame-tls/cache"} if "objectCache" in changes else set()
    assert _mounts(pod).keys() == {"/etc/flame-tls/cluster"} | cache


def _context(changes: dict[str, Any]) -> dict[str, Any]:
    """What clients read."""
    manifest = desired(changes | {"clientConfig": {}}).client_config
    assert manifest is not None
    [context] = yaml.safe_load(manifest["data"]["flame.yaml"])["contexts"]
    return dict(context)


def test_clients_learn_schemes_and_authorities() -> None:
    context = _context(BOTH)

    assert context["cluster"] == {
        "endpoint": "https://my-flame-session-manager:8080",
        "tls": {"ca_file": "/etc/flame-tls/cluster/ca.crt"},
    }
    assert context["cache"] == {
        "endpoint": "grpcs://my-flame-object-cache:9090",
        "tls": {"ca_file": "/etc/flame-tls/cache/ca.crt"},
    }


def test_clients_of_0_7_learn_the_shared_authority() -> None:
    context = _context(SECURE_0_7)

    assert context["cluster"]["tls"] == context["cache"]["tls"] == {"ca_file": "/etc/flame-tls/cluster/ca.crt"}


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        ({"tls": {"secretName": "other"}}, {"session manager", "executors"}),
        ({"tls": {"caKey": "d.pem"}}, {"session manager", "executors"}),
        ({"tls": {"certKey": "d.pem"}}, {"session manager"}),
        ({"tls": {"keyKey": "d.pem"}}, {"session manager"}),
        ({"objectCache": {"tls": {"secretName": "other"}}}, {"executors"}),
        ({"objectCache": {"tls": {"keyKey": "d.pem"}}}, set()),
    ],
)
def test_changed_secret_makes_only_its_readers_stale(change: dict[str, Any], stale: set[str]) -> None:
    before, after = desired(BOTH), desired(merged(BOTH, change))

    moved = {
        "session manager": before.session_manager.revision != after.session_manager.revision,
        "executors": before.group.template.revision != after.group.template.revision,
    }
    assert {component for component, is_stale in moved.items() if is_stale} == stale


def test_a_directory_that_the_author_mounts_takes_the_place_of_the_secret() -> None:
    mounts = [{"name": "csi", "mountPath": "/etc/flame-tls/cluster"}]
    containers = [{"name": "session-manager", "volumeMounts": mounts}]
    template = session_template({"containers": containers, "volumes": [{"name": "csi", "emptyDir": {}}]})

    assert _mounts(desired(BOTH | template).session_manager.manifest) == {"/etc/flame-tls/cluster": "csi"}


def test_a_certificate_covers_every_name_of_its_service() -> None:
    assert certificate_names(OWNER, "my-flame-session-manager", "corp.example") == (
        "my-flame-session-manager",
        "my-flame-session-manager.default",
        "my-flame-session-manager.default.svc",
        "my-flame-session-manager.default.svc.corp.example",
    )


def _refused(changes: dict[str, Any], **policy: Any) -> list[str]:
    try:
        check_pod_policy(spec(changes), PodPolicy(**policy), OWNER.name)
    except InvalidSpecError as error:
        return [problem.path for problem in error.problems]
    return []


def test_secrets_of_others_are_not_mounted_without_permission() -> None:
    paths = ["spec.tls.secretName", "spec.objectCache.tls.secretName"]

    assert _refused(BOTH) == paths
    assert _refused(BOTH, secrets=("manager", "cache")) == []
    assert _refused(BOTH, secrets=("*",)) == []


@pytest.mark.parametrize("name", ["my-flame-flame-tls", "my-flame-flame-cache-tls"])
def test_a_secret_that_is_named_after_the_cluster_needs_no_permission(name: str) -> None:
    assert _refused({"tls": {"secretName": name}, "objectCache": {"tls": {"secretName": name}}}) == []
    assert _refused({"tls": {"secretName": f"other-{name}"}}) == ["spec.tls.secretName"]
