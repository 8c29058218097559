"""docs/security.md says what is true: permissions, the operator's own Pod, ports, limits and the lists of podPolicy."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.desired.pod_metadata_policy import HARMLESS_ANNOTATIONS, WELL_KNOWN
from flamectl_operator.desired.pod_policy import HARMLESS_SOURCES, HARMLESS_VOLUMES
from flamectl_operator.flame import answer_reader, pace, watcher
from flamectl_operator.flame.client import DEADLINE
from flamectl_operator.kube.api_server_client import MAX_PAGE_SIZE
from flamectl_operator.kube.http.credentials import LOAD_TIMEOUT
from flamectl_operator.observed.flame_cluster import MAX_KEPT_SPEC_SIZE
from flamectl_operator.process.monitoring import steering
from flamectl_operator.process.monitoring.connections import HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_REQUEST_SIZE
from flamectl_operator.process.monitoring.steering import MAX_RATE
from flamectl_operator.reconcile import session_manager_io, spec_renderer
from flamectl_operator.reconcile.stores.transform import (
    MAX_ANNOTATIONS_COST,
    MAX_COST,
    MAX_DATA_SIZE,
    MAX_LABELS_COST,
    MAX_OWNERS_COST,
    MAX_POD_COST,
    MAX_SPEC_COST,
)
from flamectl_operator.runtime.logs import MAX_VALUE_LENGTH
from flamectl_operator.settings.model import PodPolicy
from tests.unit.support import documents

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
#: The same in one line, to find sentences.
TEXT = " ".join(PAGE.split())

Permissions = dict[str, set[str]]


def _objects(file: str) -> dict[str, dict[str, Any]]:
    """The objects of a file of config/, by kind and name."""
    found = documents((ROOT / "config" / file).read_text(encoding="utf-8"))
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


def _granted(role: dict[str, Any]) -> Permissions:
    """The verbs of a role by resource; those of named objects have the name in front."""
    verbs: Permissions = {}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", [""]):
                verbs.setdefault(f"{resource} {name}".strip(), set()).update(rule["verbs"])
    return verbs


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text))


def test_table_of_the_cluster_role_has_exactly_its_resources_and_verbs() -> None:
    table = PAGE.split("Two Roles hold", 1)[0]
    rows = re.findall(r"^\| `([a-z/]+)` \| ([a-z, ]+) \|", table, re.MULTILINE)
    documented = {resource: _words(verbs) for resource, verbs in rows}
    assert documented == _granted(_objects("rbac/operator.yaml")["ClusterRole flamectl-operator"])


@pytest.mark.parametrize("name", ["flamectl-operator-election", "flamectl-operator-settings"])
def test_table_of_a_role_has_exactly_its_resources_and_verbs(name: str) -> None:
    documented: Permissions = {}
    for resource, verbs in re.findall(rf"^\| `{name}` \| `([a-z]+)` \| (.+?) \|", PAGE, re.MULTILINE):
        for part in verbs.split(";"):
            words, _, named = part.partition(" of ")
            documented[f"{resource} {named.strip(' `')}".strip()] = _words(words) - {"and"}
    assert documented == _granted(_objects("rbac/operator.yaml")[f"Role {name}"])


def test_role_of_administrators_of_namespaces_has_the_documented_permissions() -> None:
    role = _objects("cluster/installer.yaml")["ClusterRole flamectl-operator-install"]
    assert role["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
    assert _granted(role) == {"flameclusters/status": {"update"}, "flameclusters/finalizers": {"update"}}
    assert "with `update` of `flameclusters/status` and `flameclusters/finalizers`" in TEXT


@pytest.mark.parametrize(("name", "into"), [("edit", {"admin", "edit"}), ("view", {"view"})])
def test_roles_for_people_aggregate_into_those_of_kubernetes(name: str, into: set[str]) -> None:
    labels = _objects("rbac/operator.yaml")[f"ClusterRole flamectl-operator-{name}"]["metadata"]["labels"]
    assert set(labels) == {f"rbac.authorization.k8s.io/aggregate-to-{role}" for role in into}


def test_own_pod_has_the_documented_rights_ports_and_limits() -> None:
    namespace = _objects("manager/namespace.yaml")["Namespace flamectl-system"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = _objects("manager/manager.yaml")["Deployment flamectl-operator"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    # No user: the image's, or where the cluster chooses one, that one.
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == security
    assert {port["name"] for port in container["ports"]} == {"health", "metrics"}
    assert set(container["resources"]["limits"]) == {"memory"}
    assert not {"volumes", "hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_network_policy_closes_all_but_health_and_the_metrics_of_labelled_namespaces() -> None:
    spec = _objects("network-policy/network-policy.yaml")["NetworkPolicy flamectl-operator"]["spec"]
    # Without Egress the traffic that the operator sends is not restricted.
    assert spec["policyTypes"] == ["Ingress"]
    health, metrics = spec["ingress"]
    assert health == {"ports": [{"port": "health", "protocol": "TCP"}]}
    assert metrics["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]
    assert "namespaces with the label `metrics: enabled`" in TEXT


@pytest.mark.parametrize(
    "sentence",
    [
        f"more than {spec_renderer.MAX_SIZE_IN_LOOP // 1024} KiB in a thread",
        f"more than {MAX_DATA_SIZE // 1024} KiB",
        f"more than {MAX_LABELS_COST // 1024} KiB of labels or {MAX_ANNOTATIONS_COST // 1024} KiB of annotations",
        f"more than {MAX_OWNERS_COST // 1024} KiB of owner references or {MAX_SPEC_COST // 1024} KiB of spec counts as foreign",
        f"at most {MAX_PAGE_SIZE // 2**20} MiB",
        f"at most {MAX_VALUE_LENGTH // 1024} KiB",
        f"{MAX_CONNECTIONS} connections",
        f"After {MAX_RATE} new connections within a second",
        f"at most {steering.MAX_CALM_TRIES} times in two seconds. Twice is",
        f"When the listener refuses {steering.MAX_REFUSED} within a second",
        f"most often for {steering.TURNED_AWAY} s, {steering.MAX_ADDRESSES} at most",
        f"within {HEAD_TIMEOUT:.0f} s or has more than {MAX_REQUEST_SIZE // 1024} KiB",
        f"{spec_renderer.MAX_KEPT // 2**20} MiB of memory at most",
        f"encoded, up to {MAX_KEPT_SPEC_SIZE // 2**10} KiB each",
        f"a Pod of up to {MAX_POD_COST // 2**10} KiB, and any other object of up to {MAX_COST // 2**10} KiB, is kept as it is",
        f"{answer_reader.MAX_MESSAGE_SIZE // 2**20} MiB and {answer_reader.MAX_ENTRIES:,} entries",
        f"more than {answer_reader.MAX_NAME_LENGTH} characters",
        f"at most {watcher.MAX_KEPT_SIZE // 2**20} MiB together",
        f"over {answer_reader.SMALL_ANSWER_SIZE // 2**10} KiB arrive",
        f"not read within {DEADLINE:.0f} s",
        f"up to every {pace.LONGEST_PAUSE_OF_OFFENDERS / 60:.0f} min",
        f"at most {session_manager_io.CALLS_LIMIT_SECONDS:.0f} s on calls to a session manager",
        f"wait for up to {session_manager_io.LONGEST_CALL_RETRY_SECONDS:.0f} s",
        f"{LOAD_TIMEOUT:.0f} s to answer",
    ],
)
def test_limit_of_the_code_is_the_documented_one(sentence: str) -> None:
    assert sentence in TEXT


def test_well_known_keys_on_the_page_are_among_those_of_the_code() -> None:
    section = TEXT.split("Well-known keys are", 1)[1].split("The whole list", 1)[0]
    named = set(re.findall(r"`([^`]+)`", section))
    assert len(named) > 10
    assert [key for key in named if not any(fnmatchcase(key, pattern) for pattern in WELL_KNOWN)] == []


def test_harmless_annotations_on_the_page_are_exactly_those_of_the_code() -> None:
    table = PAGE.split("### Harmless annotations", 1)[1].split("Add the keys of your own domain", 1)[0]
    rows = "".join(re.findall(r"^\| [^|]+ \| (`.*`) \|$", table, re.MULTILINE))
    assert set(re.findall(r"`([^`]+)`", rows)) == set(HARMLESS_ANNOTATIONS)


def test_kinds_of_volumes_that_the_policy_does_not_restrict_are_the_documented_ones() -> None:
    unrestricted = TEXT.split("The policy does not restrict", 1)[1].split("tolerations", 1)[0]
    assert "PersistentVolumeClaims" in unrestricted
    kinds = set(re.findall(r"`(\w+)`", unrestricted))
    assert kinds == HARMLESS_VOLUMES - {"persistentVolumeClaim"}
    projected = re.search(r"^\| `projectedVolumes` \| (.*?);", PAGE, re.MULTILINE)
    assert projected is not None
    assert set(re.findall(r"`(\w+)`", projected[1])) - {"projected"} == HARMLESS_SOURCES


def test_policy_allows_nothing_by_default_but_labels_and_annotations_without_the_well_known_keys() -> None:
    allowed = {name: value for name, value in PodPolicy().model_dump().items() if value}
    assert allowed == {"labels": ("*",), "annotations": ("*",)}
    assert 'The default `["*"]` allows every key except well-known ones' in TEXT


def test_every_attack_that_was_tried_names_tests_that_exist() -> None:
    attacks = (ROOT / "docs" / "dev" / "faults.md").read_text(encoding="utf-8").split("## Attacks of tenants", 1)[1]
    rows = re.findall(r"^\| .+ \|$", attacks, re.MULTILINE)
    named = {row: re.findall(r"`((?:unit|e2e)/[\w/]+\.py)::(test_\w+)`", row) for row in rows}
    assert [row for row, tests in named.items() if not tests and not row.startswith("| a tenant makes |")] == []
    tests = {each for found in named.values() for each in found}
    assert len(tests) > 15
    code = {file: (ROOT / "tests" / file).read_text(encoding="utf-8") for file, _ in tests}
    assert [test for file, test in tests if f"def {test}(" not in code[file]] == []
