"""A second operator beside the first, installed as docs/coordination.md says, shares only the CRD."""

import os
import re
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import Plane
from tools.installation import CRD_NAME, NAMESPACE, ROOT

PAGE = ROOT / "docs" / "coordination.md"
DEFAULT = ROOT / "config" / "default"


def shown() -> dict[str, Any]:
    """The kustomization of the page."""
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = (each for each in map(yaml.safe_load, blocks) if each["kind"] == "Kustomization")
    kustomization: dict[str, Any] = found
    return kustomization


def rendered(plane: Plane, folder: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))


def names(objects: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of each."""
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in objects}


def test_second_operator_shares_only_the_crd_with_the_first(control_plane: Plane, tmp_path: Path) -> None:
    kustomization = shown()
    assert kustomization["resources"] == ["flamectl-operator/config/default"]
    kustomization["resources"] = [os.path.relpath(DEFAULT, tmp_path)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")

    first, second = rendered(control_plane, DEFAULT), rendered(control_plane, tmp_path)

    assert names(first) & names(second) == {("CustomResourceDefinition", "", CRD_NAME)}
    assert len(second) == len(first)
    for binding in (each for each in second if each["kind"].endswith("RoleBinding")):
        (subject,) = binding["subjects"]
        kind = binding["roleRef"]["kind"]
        assert (kind, binding["metadata"].get("namespace", ""), binding["roleRef"]["name"]) in names(second)
        assert ("ServiceAccount", subject["namespace"], subject["name"]) in names(second)


def test_documented_uninstall_deletes_everything_except_the_crd(control_plane: Plane) -> None:
    commands = re.findall(r"^ +kubectl delete (\S+) (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    deleted = {(kind, name) for kind, listed in commands for name in listed.split()}
    # Everything in the namespace goes with it.
    assert ("namespace", NAMESPACE) in deleted

    first = {
        (kind.lower(), name)
        for kind, namespace, name in names(rendered(control_plane, DEFAULT))
        if namespace != NAMESPACE
    }

    assert first - deleted == {("customresourcedefinition", CRD_NAME)}
    assert deleted <= first
