"""The Pods: Flame's requirements, the author's additions, and their precedence."""

import json
from typing import Any

import pytest

from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import desired, executor_template, session_template


def _session_manager(changes: dict[str, Any] | None = None, settings: FlameSettings | None = None) -> dict[str, Any]:
    pod_spec: dict[str, Any] = desired(changes, settings=settings or FlameSettings()).session_manager.pod("a")["spec"]
    return pod_spec


def _executor(changes: dict[str, Any] | None = None, settings: FlameSettings | None = None) -> dict[str, Any]:
    pod_spec: dict[str, Any] = desired(changes, settings=settings or FlameSettings()).group.template.pod("b")["spec"]
    return pod_spec


def _both(changes: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [_session_manager(changes), _executor(changes)]


def _env(container: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def _mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


def _own(name: str, **fields: Any) -> dict[str, Any]:
    """Fields of a podTemplate: something for a container of the operator's."""
    part = "initContainers" if name == "wait-for-session-manager" else "containers"
    return {part: [{"name": name, **fields}]}


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    [entry] = [entry for entry in entries if entry["name"] == name]
    return entry


# --- What both have ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("automountServiceAccountToken", False),
        ("enableServiceLinks", False),
        ("terminationGracePeriodSeconds", 10),
        ("securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}),
    ],
)
def test_pods_have_no_service_account_token_and_few_rights(field: str, value: object) -> None:
    for pod in _both():
        assert pod[field] == value


def test_resources_are_kept_as_written() -> None:
    resources = {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "c"}]}
    changes = {"sessionManager": {"resources": resources}, "executorManager": {"resources": resources}}

    for pod in _both(changes):
        assert pod["containers"][0]["resources"] == resources
    assert all("resources" not in pod["containers"][0] for pod in _both())


@pytest.mark.parametrize(
    ("version", "flag"), [pytest.param("0.5", "--flame-conf", id="0.5"), pytest.param("0.6", "--config", id="0.6")]
)
def test_flame_finds_its_configuration_by_the_flag_of_its_version(version: str, flag: str) -> None:
    for pod in _both({"flameVersion": version}):
        assert pod["containers"][0]["args"] == [flag, "/etc/flame/flame-cluster.yaml"]
        assert "command" not in pod["containers"][0]


def test_volumes_and_mounts_match() -> None:
    for version in ("0.5", "0.6"):
        for pod in _both({"flameVersion": version}):
            volumes = [volume["name"] for volume in pod["volumes"]]
            assert sorted(set(_mounts(pod["containers"][0]).values())) == sorted(volumes)
            assert len(set(volumes)) == len(volumes)


def test_addresses_are_in_the_clusters_domain() -> None:
    pod = _executor(settings=FlameSettings(cluster_domain="corp.example"))

    assert (
        _env(pod["containers"][0])["SESSION_MANAGER_ADDR"] == "my-flame-session-manager.default.svc.corp.example:8080"
    )
    assert (
        "host='my-flame-session-manager.default.svc.corp.example' port=8081" in pod["initContainers"][0]["command"][2]
    )


# --- The session manager -----------------------------------------------------------------------------------------------


def test_session_manager_has_writable_directories() -> None:
    pod = _session_manager()

    for path in ("/usr/local/flame/logs", "/usr/local/flame/events", "/var/lib/flame/session"):
        assert _named(pod["volumes"], _mounts(pod["containers"][0])[path])["emptyDir"] == {}


# --- Executors ---------------------------------------------------------------------------------------------------------


def test_an_executor_waits_until_the_backend_answers() -> None:
    [wait] = _executor(settings=FlameSettings(init_image="mirror/busybox:1"))["initContainers"]

    assert wait["name"] == "wait-for-session-manager"
    assert wait["image"] == "mirror/busybox:1"
    assert "host='my-flame-session-manager.default.svc.cluster.local' port=8081" in wait["command"][2]
    assert wait["resources"]["limits"].keys() == {"cpu", "memory"}


def test_executor_has_writable_directories() -> None:
    pod = _executor()
    paths = ["work", "data/apps", "data/cache", "logs"]

    for path in [*(f"/usr/local/flame/{each}" for each in paths), "/tmp/flame", "/var/flame", "/var/lib/flame/cache"]:
        assert _named(pod["volumes"], _mounts(pod["containers"][0])[path])["emptyDir"] == {}


def test_nothing_is_mounted_over_the_working_directory_of_0_5() -> None:
    for pod in _both({"flameVersion": "0.5"}):
        for path in _mounts(pod["containers"][0]):
            assert not f"{path}/".startswith("/usr/local/flame/work/")
            assert not "/usr/local/flame/work/".startswith(f"{path}/")


@pytest.mark.parametrize(
    ("storage", "mounted"),
    [
        pytest.param("/var/lib/flame/cache", "/var/lib/flame/cache", id="default"),
        pytest.param("/data/cache/", "/data/cache", id="trailing slash"),
        pytest.param("/mnt/./x/../y", "/mnt/y", id="dots"),
        pytest.param("/usr/local/flame", None, id="the image's own"),
        pytest.param("/", None, id="root"),
        pytest.param("/var", None, id="a top directory"),
        pytest.param("/var/../etc", None, id="parent of a top directory"),
        pytest.param("/var/flame/cache", None, id="within a directory that is mounted"),
        pytest.param("/etc/flame/cache", None, id="within the configuration"),
        pytest.param("/usr/local/flame/data/cache", None, id="a directory that is mounted"),
        pytest.param("fs:///var/lib/x", None, id="an address"),
    ],
)
def test_object_cache_directory_is_mounted_only_over_an_empty_path(storage: str, mounted: str | None) -> None:
    pod = _executor({"objectCache": {"storage": storage}})
    names = [name for name in _mounts(pod["containers"][0]).values() if name == "flame-object-cache"]
    paths = [path for path, name in _mounts(pod["containers"][0]).items() if name == "flame-object-cache"]

    assert paths == ([mounted] if mounted else [])
    assert [volume["name"] for volume in pod["volumes"] if volume["name"] == "flame-object-cache"] == names


def test_executors_leave_lost_nodes_sooner_than_other_pods() -> None:
    tolerations = _executor(settings=FlameSettings(executor_toleration_seconds=20))["tolerations"]

    assert tolerations == [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
        for state in ("not-ready", "unreachable")
    ]


# --- Pod Security ------------------------------------------------------------------------------------------------------


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_pods_fit_the_baseline_level(version: str) -> None:
    for pod in _both({"flameVersion": version}):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert all(volume.keys() & {"configMap", "emptyDir"} for volume in pod["volumes"])
        for container in _containers(pod):
            assert not container["securityContext"].keys() & {"privileged", "procMount", "seLinuxOptions"}
            assert "add" not in container["securityContext"]["capabilities"]
            assert not any("hostPort" in port for port in container.get("ports", []))


def test_with_a_user_in_the_pod_template_pods_fit_the_restricted_level() -> None:
    user = {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}

    for pod in [_session_manager(session_template(user)), _executor(executor_template(user))]:
        assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, **user["securityContext"]}
        for container in _containers(pod):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


# --- Layers: defaults, podTemplate, musts ------------------------------------------------------------------------------


def test_the_pod_template_overrides_defaults() -> None:
    own = {"name": "session-manager", "livenessProbe": {"periodSeconds": 60}, "securityContext": {"runAsUser": 7}}
    pod = _session_manager(session_template({"terminationGracePeriodSeconds": 90, "containers": [own]}))
    [container] = pod["containers"]

    assert pod["terminationGracePeriodSeconds"] == 90
    assert container["livenessProbe"]["periodSeconds"] == 60
    assert container["livenessProbe"]["tcpSocket"] == {"port": 8080}
    assert container["securityContext"]["runAsUser"] == 7
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_another_kind_of_probe_takes_the_place_of_ours() -> None:
    own = {"name": "session-manager", "readinessProbe": {"exec": {"command": ["true"]}}}
    [container] = _session_manager(session_template({"containers": [own]}))["containers"]

    assert "tcpSocket" not in container["readinessProbe"]
    assert container["readinessProbe"]["exec"] == {"command": ["true"]}
    assert container["readinessProbe"]["periodSeconds"] == 5


def test_a_volume_of_the_authors_takes_the_place_of_ours_at_its_path() -> None:
    own = {"name": "session-manager", "volumeMounts": [{"name": "disk", "mountPath": "/var/lib/flame/session"}]}
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "c"}}]
    pod = _session_manager(session_template({"containers": [own], "volumes": volumes}))

    assert _mounts(pod["containers"][0])["/var/lib/flame/session"] == "disk"
    assert _named(pod["volumes"], "disk")["persistentVolumeClaim"] == {"claimName": "c"}
    assert _mounts(pod["containers"][0])["/etc/flame"] == "config"


@pytest.mark.parametrize("path", ["/usr/local/flame/data", "/usr/local/flame/data/", "/usr/local/flame/data/apps/"])
def test_a_volume_of_the_authors_is_not_hidden_by_ours(path: str) -> None:
    own = {"name": "executor-manager", "volumeMounts": [{"name": "disk", "mountPath": path}]}
    [container] = _executor(executor_template({"containers": [own]}))["containers"]
    mounts = _mounts(container)

    assert mounts[path] == "disk"
    assert [other for other in mounts if other != path and f"{other}/".startswith(path)] == []
    assert "/usr/local/flame/logs" in mounts


@pytest.mark.parametrize(
    "path",
    [
        "/var/lib/flame",
        "/var/lib//flame",
        "/var/lib/flame/.",
        "var/lib/flame",
        "//var/lib/flame/",
        "/var/../var/lib/flame/session/",
    ],
)
def test_mount_at_or_above_a_session_directory_takes_its_place_however_its_path_is_written(path: str) -> None:
    own = {"name": "session-manager", "volumeMounts": [{"name": "disk", "mountPath": path}]}
    [container] = _session_manager(session_template({"containers": [own]}))["containers"]

    assert _mounts(container)[path] == "disk"
    assert "/var/lib/flame/session" not in _mounts(container)
    assert "/usr/local/flame/logs" in _mounts(container)


@pytest.mark.parametrize("path", ["/", "//", "/.", "."])
def test_mount_of_the_root_is_passed_to_the_runtime(path: str) -> None:
    own = {"name": "session-manager", "volumeMounts": [{"name": "disk", "mountPath": path}]}
    [container] = _session_manager(session_template({"containers": [own]}))["containers"]

    assert "/var/lib/flame/session" in _mounts(container)


def test_grace_period_is_never_zero() -> None:
    """With a grace period of 0 the name would be free while the process still runs, so two session managers would run."""
    assert (
        _session_manager(session_template({"terminationGracePeriodSeconds": 0}))["terminationGracePeriodSeconds"] == 1
    )
    settings = FlameSettings(termination_grace_period_seconds=0)
    assert _executor(settings=settings)["terminationGracePeriodSeconds"] == 1


def test_privileged_container_needs_no_other_field() -> None:
    own = {"name": "executor-manager", "securityContext": {"privileged": True}}
    [container] = _executor(executor_template({"containers": [own]}))["containers"]

    assert container["securityContext"] == {"capabilities": {"drop": ["ALL"]}, "privileged": True}


def test_the_waiting_container_may_be_privileged_as_well() -> None:
    own = {"name": "wait-for-session-manager", "securityContext": {"privileged": True}}
    pod = _executor(executor_template({"initContainers": [own]}))

    assert pod["initContainers"][0]["securityContext"] == {
        "capabilities": {"drop": ["ALL"]},
        "privileged": True,
        "readOnlyRootFilesystem": True,
    }
    assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("security", ["root", {"privileged": False}, {"privileged": "yes"}, [1]])
def test_unprivileged_container_may_not_escalate(security: object) -> None:
    own = {"name": "executor-manager", "securityContext": security}
    wait = {"name": "wait-for-session-manager", "securityContext": security}
    pod = _executor(executor_template({"containers": [own], "initContainers": [wait]}))

    for container in _containers(pod):
        kept = container["securityContext"]
        assert kept == security or kept["allowPrivilegeEscalation"] is False


def test_a_variable_that_has_a_default_may_refer_to_those_before_it() -> None:
    env = [{"name": "LEVEL", "value": "debug"}, {"name": "RUST_LOG", "value": "$(LEVEL)"}]
    [container] = _executor({"executorManager": {"env": env}})["containers"]
    order = [variable["name"] for variable in container["env"]]

    assert order.index("LEVEL") < order.index("RUST_LOG")
    assert order.count("RUST_LOG") == 1


def test_more_containers_come_after_ours() -> None:
    extra = {"name": "sidecar", "image": "x"}
    pod = _executor(executor_template({"containers": [extra], "initContainers": [extra | {"name": "prepare"}]}))

    assert [container["name"] for container in pod["containers"]] == ["executor-manager", "sidecar"]
    assert [container["name"] for container in pod["initContainers"]] == ["wait-for-session-manager", "prepare"]
    assert pod["containers"][1] == extra


def test_pod_template_may_change_the_resources_but_not_the_command_of_the_wait_container() -> None:
    own = {"name": "wait-for-session-manager", "resources": {"limits": {"cpu": "1"}}}
    [wait] = _executor(executor_template({"initContainers": [own]}))["initContainers"]

    assert wait["resources"]["limits"]["cpu"] == "1"
    assert wait["resources"]["limits"]["memory"] == "32Mi"
    assert "8081" in wait["command"][2]


GUARANTEED = {"limits": {"cpu": "4", "memory": "8Gi"}}
SIDECAR: dict[str, Any] = {"name": "x", "image": "x"}
LEAST = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}}
MOST = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}


def _of_wait_container(**resources: dict[str, str]) -> dict[str, Any]:
    return {"initContainers": [{"name": "wait-for-session-manager", "resources": resources}]}


@pytest.mark.parametrize(
    ("resources", "template", "expected"),
    [
        pytest.param({}, {}, LEAST, id="the executor asks for nothing"),
        pytest.param({"requests": {"cpu": "5m", "memory": "1Mi"}}, {}, LEAST, id="less than it needs"),
        pytest.param({"requests": {"cpu": "0", "memory": 0}}, {}, LEAST, id="nothing in numbers"),
        pytest.param({"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "0", "memory": 0}}, {}, LEAST,
            id="nothing at first"),
        pytest.param({"limits": {"cpu": "50m", "memory": "2Gi"}}, {},
            {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"cpu": "50m", "memory": "512Mi"}},
            id="a CPU limit below the bound"),
        pytest.param(GUARANTEED, {}, MOST, id="much"),
        pytest.param(GUARANTEED | {"requests": {"cpu": "0.2", "memory": 67108864}}, {},
            {"requests": {"cpu": "0.2", "memory": 67108864}, "limits": {"cpu": "0.2", "memory": 67108864}},
            id="something between"),
        pytest.param({"limits": {"cpu": "4"}}, {},
            {"requests": {"cpu": "500m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "32Mi"}},
            id="much of one resource"),
        pytest.param({}, {"resources": GUARANTEED}, MOST, id="the whole Pod asks for much"),
        pytest.param({"requests": {"cpu": "50m"}}, {"resources": {"requests": {"cpu": "2", "memory": "2Gi"}}},
            {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"cpu": "100m", "memory": "512Mi"}},
            id="the executor and its whole Pod ask for something"),
        pytest.param(GUARANTEED, _of_wait_container(requests={"cpu": "20m"}),
            {"requests": {"cpu": "20m", "memory": "512Mi"}, "limits": {"cpu": "100m", "memory": "512Mi"}},
            id="the author sets a request"),
        pytest.param({}, _of_wait_container(requests={"cpu": "1"}),
            {"requests": {"cpu": "1", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "32Mi"}},
            id="the author sets a request above the usual limit"),
        pytest.param(GUARANTEED, _of_wait_container(limits={"memory": "8Mi"}),
            {"requests": {"cpu": "500m", "memory": "8Mi"}, "limits": {"cpu": "500m", "memory": "8Mi"}},
            id="the author sets a limit below the usual request"),
    ],
)  # fmt: skip
def test_wait_container_asks_for_what_costs_nothing_beside_the_executor(
    resources: dict[str, Any], template: dict[str, Any], expected: dict[str, Any]
) -> None:
    changes = {"executorManager": {"resources": resources, "podTemplate": {"spec": template}}}
    [wait] = _executor(changes)["initContainers"]

    assert wait["resources"] == expected


def test_an_init_container_of_that_name_is_the_authors_own_in_the_session_manager() -> None:
    own = {"name": "wait-for-session-manager", "image": "x"}
    pod = _session_manager(
        {"sessionManager": {"resources": GUARANTEED, "podTemplate": {"spec": {"initContainers": [own]}}}}
    )

    assert pod["initContainers"] == [own]


@pytest.mark.parametrize(
    ("asked", "ours"),
    [
        pytest.param({"key": "gpu", "operator": "Exists"}, ["not-ready", "unreachable"], id="another key"),
        pytest.param({"operator": "Exists"}, [], id="everything"),
        pytest.param({"key": "", "operator": "Exists", "effect": "NoExecute"}, [], id="every key"),
        pytest.param({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5}, ["unreachable"],
            id="an own key, any effect"),
        pytest.param({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}, ["not-ready"],
            id="an own key"),
        pytest.param({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            ["not-ready", "unreachable"], id="an own key, another effect"),
    ],
)  # fmt: skip
def test_the_authors_tolerations_join_ours(asked: dict[str, Any], ours: list[str]) -> None:
    tolerations = _executor(executor_template({"tolerations": [asked]}))["tolerations"]

    assert tolerations[0] == asked
    assert [each["key"].removeprefix("node.kubernetes.io/") for each in tolerations[1:]] == ours


def test_the_session_managers_tolerations_are_the_authors_alone() -> None:
    asked = [{"key": "gpu", "operator": "Exists"}]

    assert _session_manager(session_template({"tolerations": asked}))["tolerations"] == asked


def test_author_variables_are_kept_and_operator_variables_take_precedence() -> None:
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "EMPTY"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "RUST_LOG", "value": "debug"},
    ]
    [container] = _executor({"executorManager": {"env": env}})["containers"]
    found = {variable["name"]: variable for variable in container["env"]}

    assert len(found) == len(container["env"])
    assert found["PLAIN"] == env[0]
    assert found["EMPTY"] == {"name": "EMPTY"}
    assert found["NODE"] == env[2]
    assert found["RUST_LOG"] == env[3]
    assert found["FLAME_CONFIG"]["value"] == "/etc/flame/flame-cluster.yaml"


def test_a_variable_with_a_source_takes_the_place_of_the_default_value() -> None:
    source = {"configMapKeyRef": {"name": "logs", "key": "level"}}
    [container] = _executor({"executorManager": {"env": [{"name": "RUST_LOG", "valueFrom": source}]}})["containers"]

    assert _named(container["env"], "RUST_LOG") == {"name": "RUST_LOG", "valueFrom": source}


@pytest.mark.parametrize(
    "pod_spec",
    [
        pytest.param({"nodeSelector": {"gpu": "yes"}}, id="object"),
        pytest.param({"affinity": {"nodeAffinity": {"x": 1}}}, id="nested"),
        pytest.param({"imagePullSecrets": [{"name": "regcred"}]}, id="list"),
        pytest.param({"priorityClassName": "high"}, id="string"),
        pytest.param({"someFieldOfTomorrow": {"a": [1]}}, id="unknown"),
    ],
)
def test_other_fields_pass_through(pod_spec: dict[str, Any]) -> None:
    assert _executor(executor_template(pod_spec)).items() >= pod_spec.items()


WAIT: dict[str, Any] = {"name": "wait-for-session-manager"}
ODD_LIMITS: list[Any] = ["x", 5, True, [1], {"cpu": [], "memory": {}}]
ODD_REQUESTS: list[Any] = ["x", 5, True, [1], {"cpu": True}]
ODD_AMOUNTS: list[Any] = ["", "4x", "1" * 99, 1.5, -1]

#: Nothing of these is declared in the schema, so only the API server will say that they are wrong, when the Pod is made.
MALFORMED = [
    pytest.param(executor_template({"tolerations": "none"}), id="tolerations are text"),
    pytest.param(executor_template({"tolerations": 5}), id="tolerations are a number"),
    pytest.param(executor_template({"tolerations": ["gpu"]}), id="tolerations are names"),
    pytest.param(executor_template({"tolerations": [None]}), id="a toleration is null"),
    pytest.param(executor_template({"tolerations": {"key": "gpu"}}), id="tolerations are an object"),
    pytest.param(session_template({"containers": [{"name": "session-manager", "ports": [8080]}]}), id="ports are numbers"),
    pytest.param(session_template({"containers": [{"name": "session-manager", "ports": "8080"}]}), id="ports are text"),
    pytest.param(session_template({"containers": [{"name": "session-manager", "ports": [{"containerPort": {}}]}]}),
        id="a port's number is an object"),
    pytest.param(session_template({"containers": [{"name": "session-manager", "ports": [{"hostPort": 1}]}]}),
        id="a port has no number"),
    pytest.param(session_template({"securityContext": "root"}), id="security context is text"),
    pytest.param(session_template({"containers": [{"name": "session-manager", "livenessProbe": 1}]}), id="probe is a number"),
    pytest.param(executor_template({"imagePullSecrets": ["regcred"]}), id="pull secrets are names"),
    pytest.param(executor_template({"volumes": [{"name": "x", "emptyDir": []}]}), id="volume's source is a list"),
    pytest.param(executor_template({"terminationGracePeriodSeconds": "soon"}), id="grace period is text"),
    *(
        pytest.param(
            {"executorManager": {"resources": GUARANTEED, "podTemplate": {"spec": {field: [SIDECAR | resources]}}}},
            id=f"of a sidecar in {field}: {json.dumps(resources)}",
        )
        for field in ("containers", "initContainers")
        for resources in (
            *({"resources": {"limits": odd}} for odd in ODD_LIMITS),
            *({"resources": GUARANTEED | {"requests": odd}} for odd in ODD_REQUESTS),
            *({"resources": {"limits": {"cpu": odd, "memory": odd}}} for odd in ODD_AMOUNTS),
        )
    ),
    *(
        pytest.param(
            {"executorManager": {"resources": GUARANTEED, "podTemplate": {"spec": {"initContainers": [WAIT | odd]}}}},
            id=f"of the waiting container: {json.dumps(odd)}",
        )
        for odd in ({"resources": {"limits": "x"}}, {"resources": {"requests": [1]}})
    ),
]  # fmt: skip


@pytest.mark.parametrize("changes", MALFORMED)
def test_a_malformed_pod_template_is_left_to_the_api_server_to_refuse(changes: dict[str, Any]) -> None:
    for pod in _both(changes):
        assert pod["containers"]
