"""Rules about several fields of a spec."""

from typing import Any

import pytest

from flamectl_operator.api.checks import consistency
from flamectl_operator.api.checks.consistency import near_names
from flamectl_operator.api.problems import InvalidSpecError
from tests.unit.builders import cached, executor_template, merged, session_template, spec, stored
from tests.unit.kube.certificates import AUTHORITY

#: An executor that can be filled without more memory than it has.
SOUND: dict[str, Any] = {"executorManager": {"resources": {"limits": {"cpu": "2", "memory": "2Gi"}}}}


def _warnings(changes: dict[str, Any]) -> dict[str, str]:
    return {each.path: each.message for each in consistency.warnings(spec(merged(SOUND, changes)))}


def _refused(changes: dict[str, Any]) -> dict[str, str]:
    try:
        spec(changes)
    except InvalidSpecError as error:
        return {each.path: each.message for each in error.problems}
    return {}


def _limits(**limits: Any) -> dict[str, Any]:
    return {"executorManager": {"resources": {"limits": limits}}}


def _slot(slot: str, **limits: Any) -> dict[str, Any]:
    return {"sessionManager": {"slot": slot}, **_limits(**limits)}


def test_a_sound_spec_has_no_warnings() -> None:
    assert _warnings({}) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (_slot("cpu=4,mem=1g", cpu=2), "cpu=4, but spec.executorManager.resources.limits.cpu gives it 2"),
        (_slot("cpu=2,mem=1g", cpu="900m"), "gives it 1"),
        (
            _slot("cpu=1,mem=2g", memory="1Gi"),
            "mem is 2 GiB, but spec.executorManager.resources.limits.memory is 1 GiB",
        ),
        (_slot("cpu=1,mem=1g", memory="1G"), "memory is 0.9313 GiB"),
        (_slot("cpu=1,mem=1g", memory="512m"), "memory is 0.512 bytes (write Mi or Gi after the number)"),
        (_slot("cpu=1,mem=1g", memory=20), "memory is 20 bytes (write Mi or Gi after the number)"),
        (_slot("cpu=1,mem=1g,gpu=2", **{"nvidia.com/gpu": 1}), "gpu=2, but its limits have 1"),
        (_slot("cpu=1,mem=1g,gpu=2", **{"nvidia.com/gpu": 1, "rdma/hca": 1}), "gpu=2, but its limits have 1"),
    ],
)
def test_slot_larger_than_an_executor_is_refused(changes: dict[str, Any], message: str) -> None:
    assert message in _refused(changes)["spec.sessionManager.slot"]


@pytest.mark.parametrize(
    "changes",
    [
        _slot("cpu=1,mem=1g", cpu="200m", memory="1Gi"),  # Flame rounds CPUs up
        _slot("cpu=2,mem=2048m", cpu=2, memory="2Gi"),
        _slot("cpu=64,mem=999g"),
        _slot("cpu=1,mem=1g,gpu=2", cpu=1),  # GPUs by another name
        _slot("cpu=1,mem=1g,gpu=1", **{"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 1}),
        _slot("cpu=1,mem=1g,gpu=2", **{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1}),
        _slot("cpu=1,mem=1g,gpu=1", **{"amd.com/gpu": "0", "gpu.intel.com/i915": 1}),
        _slot("cpu=1,mem=1g", cpu=0, memory="0"),  # a limit of 0 is none
    ],
)
def test_a_slot_that_fits_is_accepted(changes: dict[str, Any]) -> None:
    assert _refused(changes) == {}


@pytest.mark.parametrize(
    ("changes", "component", "flame"),
    [
        ({"flameVersion": "0.5"}, "sessionManager", "0.6"),
        ({"flameVersion": "0.5"}, "executorManager", "0.6"),
        ({"objectCache": {"image": "xflops/flame-object-cache:v0.7.0"}}, "objectCache", "0.7"),
    ],
)
def test_image_tag_of_another_flame_version_is_a_warning(changes: dict[str, Any], component: str, flame: str) -> None:
    message = f"has a tag of Flame {flame}, but flameVersion is {changes.get('flameVersion', '0.6')}"

    assert _warnings(changes)[f"spec.{component}.image"] == message


def test_components_of_different_minor_versions_are_a_warning() -> None:
    warnings = _warnings({"executorManager": {"image": "xflops/flame-executor-manager:v0.7.1"}})

    assert "0.6 (spec.sessionManager.image) and 0.7 (spec.executorManager.image)" in warnings["spec"]


@pytest.mark.parametrize("tag", ["v0.6.1", "latest", "main"])
def test_another_patch_or_a_tag_without_a_version_is_fine(tag: str) -> None:
    assert _warnings({"executorManager": {"image": f"xflops/flame-executor-manager:{tag}"}}) == {}


def _unlimited(changes: dict[str, Any]) -> dict[str, str]:
    """The warnings about a spec whose container has no limits but those of the changes."""
    return {each.path: each.message for each in consistency.warnings(spec(changes))}


@pytest.mark.parametrize(
    ("limits", "missing"),
    [({}, "memory"), ({"cpu": 2, "memory": "0"}, "memory"), ({"memory": "4Gi"}, "cpu")],
    ids=["no limits", "a limit of 0 is none", "no limit of CPUs"],
)
def test_without_a_limit_flame_counts_what_the_node_has(limits: dict[str, Any], missing: str) -> None:
    ((path, message),) = _unlimited(_limits(**limits) if limits else {}).items()

    assert path == f"spec.executorManager.resources.limits.{missing}"
    assert message.startswith("is not set, so ")


@pytest.mark.parametrize(("other", "warned"), [("mine", True), ("another", False)])
def test_claim_of_two_components_is_a_warning(other: str, *, warned: bool) -> None:
    changes = stored(existingClaim="mine") | cached(persistence={"existingClaim": other})

    assert ("spec.objectCache.persistence.existingClaim" in _warnings(changes)) is warned


@pytest.mark.parametrize("scheme", ["fs", "file", "filesystem"])
def test_storage_below_the_working_directory_of_flame_is_a_warning(scheme: str) -> None:
    found = _warnings({"sessionManager": {"storage": f"{scheme}://var/lib/flame/session"}})

    assert list(found) == ["spec.sessionManager.storage"]
    assert found["spec.sessionManager.storage"].endswith(f"write {scheme}:///var/lib/flame/session")
    assert _warnings({"sessionManager": {"storage": f"{scheme}:///var/lib/flame/session"}}) == {}


_CACHE = {"image": "xflops/flame-object-cache:v0.6.0"}
_IN_AN_INIT_CONTAINER = {
    "spec": {"initContainers": [{"name": "prepare", "image": "x", "resources": {"limits": {"memory": "64m"}}}]}
}


@pytest.mark.parametrize(
    ("changes", "path", "size"),
    [
        ({"sessionManager": {"resources": {"limits": {"memory": 512}}}}, "spec.sessionManager.resources.limits.memory",
            "512"),
        ({"sessionManager": {"resources": {"requests": {"memory": "512m"}}}}, "spec.sessionManager.resources.requests.memory",
            "0.512"),
        ({"executorManager": {"resources": {"requests": {"memory": "4"}}}}, "spec.executorManager.resources.requests.memory",
            "4"),
        ({"executorManager": {"resources": {"limits": {"ephemeral-storage": "20k"}}}},
            "spec.executorManager.resources.limits.ephemeral-storage", "20000"),
        ({"executorManager": {"runtimeStorage": {"sizeLimit": 1}}}, "spec.executorManager.runtimeStorage.sizeLimit", "1"),
        (stored(size=10), "spec.sessionManager.persistence.size", "10"),
        ({"objectCache": {**_CACHE, "persistence": {"size": "50"}}}, "spec.objectCache.persistence.size", "50"),
        ({"objectCache": {**_CACHE, "resources": {"limits": {"memory": "8"}}}}, "spec.objectCache.resources.limits.memory",
            "8"),
        (session_template({"resources": {"limits": {"memory": "8"}}}),
            "spec.sessionManager.podTemplate.spec.resources.limits.memory", "8"),
        (executor_template({"containers": [{"name": "logs", "image": "x", "resources": {"requests": {"memory": 64}}}]}),
            "spec.executorManager.podTemplate.spec.containers[name=logs].resources.requests.memory", "64"),
        ({"objectCache": {**_CACHE, "podTemplate": _IN_AN_INIT_CONTAINER}},
            "spec.objectCache.podTemplate.spec.initContainers[name=prepare].resources.limits.memory", "0.064"),
    ],
    ids=lambda each: each if isinstance(each, str) and each.startswith("spec") else "",
)  # fmt: skip
def test_size_without_a_unit_is_a_warning(changes: dict[str, Any], path: str, size: str) -> None:
    assert _warnings(changes) == {path: f"is {size} bytes: write Mi or Gi after the number"}


@pytest.mark.parametrize("size", ["0", "1Mi", "4Gi"])
def test_size_of_a_megabyte_or_none_is_no_warning(size: str) -> None:
    assert _warnings({"sessionManager": {"resources": {"limits": {"memory": size}}}}) == {}


def _pod_limits(**limits: Any) -> dict[str, Any]:
    return {"executorManager": {"podTemplate": {"spec": {"resources": {"limits": limits}}}}}


def test_limits_of_the_whole_pod_are_limits_of_the_executor() -> None:
    slot = {"sessionManager": {"slot": "cpu=4,mem=8g"}}

    assert _unlimited(_pod_limits(cpu=2, memory="4Gi")) == {}
    assert _refused({**slot, **_pod_limits(cpu=2, memory="16Gi")})["spec.sessionManager.slot"] == (
        "must fit an executor: cpu=4, but spec.executorManager.podTemplate.spec.resources.limits.cpu gives it 2"
    )
    assert "podTemplate.spec.resources.limits.memory is 4 GiB" in str(_refused({**slot, **_pod_limits(memory="4Gi")}))
    few = _unlimited(_pod_limits(cpu=8, memory="4Gi"))
    assert "need 8 GiB" in few["spec.executorManager.podTemplate.spec.resources.limits.memory"]


def test_limit_of_the_container_comes_before_the_limit_of_its_pod() -> None:
    own = _pod_limits(cpu=8, memory="16Gi")
    own["executorManager"]["resources"] = {"limits": {"cpu": 2}}

    assert _unlimited(own) == {}
    assert "resources.limits.cpu gives it 2" in str(_refused({"sessionManager": {"slot": "cpu=4,mem=1g"}, **own}))


@pytest.mark.parametrize("limits", [None, "2", {"memory": "much"}, {"memory": True}, {"memory": ["4Gi"]}])
def test_limits_of_the_pod_that_the_api_server_refuses_are_no_limits(limits: Any) -> None:
    changes = {"executorManager": {"podTemplate": {"spec": {"resources": {"limits": limits}}}}}

    assert set(_unlimited(changes)) == {"spec.executorManager.resources.limits.memory"}


def test_more_slots_than_the_memory_holds_are_a_warning_with_the_figures() -> None:
    warnings = _warnings(_slot("cpu=1,mem=1g", cpu=8, memory="4Gi"))

    message = warnings["spec.executorManager.resources.limits.memory"]
    assert message == ("is 4 GiB, but Flame may run 8 slots with cpu=1 in an executor with cpu=8, and they need 8 GiB")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"flameVersion": "0.5", "scheduleInterval": 5}, "spec.scheduleInterval"),
        ({"flameVersion": "0.5", "limits": {"maxSessions": 5}}, "spec.limits.maxSessions"),
        ({"flameVersion": "0.5", "sessionManager": {"recovery": {"retryLimits": 5}}},
            "spec.sessionManager.recovery.retryLimits"),
        ({"flameVersion": "0.5", "sessionManager": {"policy": "drf"}}, "spec.sessionManager.policy"),
        ({"flameVersion": "0.5", "sessionManager": {"storage": "fs:///x"}}, "spec.sessionManager.storage"),
        ({"sessionManager": {"policy": "proportion"}}, "spec.sessionManager.policy"),
        ({"executorManager": {"maxExecutors": 3}}, "spec.executorManager.maxExecutors"),
        ({"sessionManager": {"storage": "none"}}, "spec.sessionManager.storage"),
        ({"tls": {"secretName": "x"}, "executorManager": {"autoscaling": {"maxReplicas": 3}}},
            "spec.executorManager.autoscaling"),
        ({"tls": {"secretName": "x"}, "idle": {"timeoutSeconds": 60}}, "spec.idle"),
        ({"configOverrides": {"telemetry": {"endpoint": "x"}}}, "spec.configOverrides.telemetry"),
    ],
)  # fmt: skip
def test_field_without_effect_in_a_version_is_a_warning(changes: dict[str, Any], path: str) -> None:
    assert path in _warnings(changes)


def test_executors_of_0_7_with_tls_need_certificates_of_their_own() -> None:
    secure = {"flameVersion": "0.7", "tls": {"secretName": "x", "trustDomain": "flame.example"}}
    own = {"name": "executor-manager", "volumeMounts": [{"name": "csi", "mountPath": "/etc/flame-tls/cluster"}]}
    mounted = {"executorManager": {"podTemplate": {"spec": {"containers": [own]}}}}

    assert "spec.executorManager.podTemplate" in _warnings(secure)
    assert "spec.executorManager.podTemplate" not in _warnings(merged(secure, mounted))


@pytest.mark.parametrize(
    ("version", "overrides", "path", "message"),
    [
        ("0.6", {"clutser": {}}, "clutser", "did you mean cluster?"),
        ("0.6", {"cluster": []}, "cluster", "must be an object, is []"),
        ("0.7", {"security": "off"}, "security", "must be an object"),
        ("0.5", {"policy": ["drf"]}, "policy", "must be a string"),
        ("0.5", {"polcy": "x"}, "polcy", "did you mean policy?"),
    ],
)
def test_overrides_that_flame_could_not_read_are_refused(
    version: str, overrides: dict[str, Any], path: str, message: str
) -> None:
    found = _refused({"flameVersion": version, "configOverrides": overrides})

    assert message in found[f"spec.configOverrides.{path}"]


@pytest.mark.parametrize(
    ("version", "overrides"),
    [
        ("0.6", {"cluster": {"pprof": {"port": 6060}, "tls": {"ca_file": "x", "future": 1}, "resreq": None}}),
        ("0.6", {"cache": None, "extra": [1, 1.5, True, "é"]}),
        ("0.7", {"security": {"tls": {"ca_file": "x"}}}),
        ("0.5", {"policy": "proportion", "telemetry": "x"}),
    ],
)
def test_overrides_that_flame_reads_or_may_read_one_day_are_accepted(version: str, overrides: dict[str, Any]) -> None:
    assert _refused({"flameVersion": version, "configOverrides": overrides}) == {}


@pytest.mark.parametrize(
    ("storage", "warned"),
    [
        *((each, True) for each in ("sqlite://flame.db", "sqlite:flame.db", "flame.db")),
        *((each, False) for each in ("fs:///x", "file:///x", "filesystem:///x")),
    ],
)
def test_a_hook_with_a_storage_that_keeps_executors_listed_is_warned_of_with_its_price(
    storage: str, *, warned: bool
) -> None:
    ending = {"drain": {"onTermination": {"enabled": True, "maxSeconds": 90}}}
    found = _warnings({"sessionManager": {"storage": storage}, "executorManager": ending})

    assert list(found) == ["spec.executorManager.drain.onTermination"] * warned
    assert all("takes all of maxSeconds (90 s)" in each for each in found.values())


@pytest.mark.parametrize(
    "storage", ["none", "sqlite://flame.db", "sqlite:flame.db", "fs:///x", "file:///x", "flame.db"]
)
def test_a_storage_that_flame_opens_is_accepted(storage: str) -> None:
    assert _refused({"sessionManager": {"storage": storage}}) == {}


def test_a_bundle_that_holds_no_readable_certificate_is_refused() -> None:
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert list(_refused({"tls": {"secretName": "x", "caBundle": broken}})) == ["spec.tls.caBundle"]


@pytest.mark.parametrize("comment", ["", "# Főtanúsítvány\n"])
def test_a_bundle_lets_the_operator_ask_a_session_manager_with_tls(comment: str) -> None:
    secure = {"tls": {"secretName": "x", "caBundle": comment + AUTHORITY}, "idle": {"timeoutSeconds": 60}}
    assert _refused(secure) == {}
    assert "spec.idle" not in _warnings(secure)


@pytest.mark.parametrize("component", ["sessionManager", "executorManager", "objectCache"])
@pytest.mark.parametrize(
    ("toleration", "warned"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}, False),
        ({"operator": "Exists", "key": "nvidia.com/gpu"}, False),
        ({"key": "pool", "value": "gold"}, False),
    ],
)
def test_toleration_of_a_lost_node_is_a_warning(component: str, toleration: dict[str, Any], *, warned: bool) -> None:
    template = {"podTemplate": {"spec": {"tolerations": [{"key": "a"}, toleration]}}}
    found = _warnings({component: template | ({"image": "any"} if component == "objectCache" else {})})

    path = f"spec.{component}.podTemplate.spec.tolerations[1]"
    assert (path in found) == warned
    assert "Kubernetes never deletes a Pod of a lost node" in found.get(
        path, "Kubernetes never deletes a Pod of a lost node"
    )


# --- Containers whose names are nearly the operator's


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


@pytest.mark.parametrize(
    "container",
    [
        *({"name": each, "image": "x"} for each in ("logs", "session-exporter", "proxy", "object-cache", "manager")),
        {"name": "session-manager", "tty": True},
    ],
)
def test_another_or_the_exact_name_of_a_container_is_no_warning(container: dict[str, Any]) -> None:
    assert near_names(spec(session_template({"containers": [container]}))) == ()
