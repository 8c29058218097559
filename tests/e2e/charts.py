"""Rendering of the Helm chart, with and without Helm's own labels and annotations."""

import os
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.namespace import Object
from tools.chart import CHART
from tools.controlplane import Plane
from tools.installation import NAMESPACE

RELEASE = "flamectl-operator"
#: Labels and annotations that Helm asks for, and that config/ does without.
LABELS = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "managed-by")} | {"helm.sh/chart"}
ANNOTATIONS = {"helm.sh/resource-policy"}
#: Written in C, and ten times as fast; missing where PyYAML was built without libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: The output of Helm in this process, by values, namespace and release.
_RENDERED: dict[tuple[str, str, str], dict[str, Object]] = {}


def run(helm: Path, *arguments: str, home: Path, plane: Plane | None = None) -> str:
    """Return Helm's output; Helm has its own home directory, and may have a control plane."""
    with start(helm, *arguments, home=home, plane=plane) as running:
        output, errors = running.communicate()
    assert running.returncode == 0, errors
    return output


def start(helm: Path, *arguments: str, home: Path, plane: Plane | None = None) -> subprocess.Popen[str]:
    """Start Helm as `run` does, for a command that waits for something."""
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", os.defpath)}
    if plane is not None:
        environment["KUBECONFIG"] = str(plane.kubeconfig)
    command = [str(helm), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def template(
    helm: Path, home: Path, values: Mapping[str, Any], namespace: str = NAMESPACE, release: str = RELEASE
) -> dict[str, Object]:
    """The objects of the chart, by kind, namespace and name; the same values are rendered once in a process."""
    content = yaml.safe_dump(dict(values))
    rendered = _RENDERED.get((content, namespace, release))
    if rendered is None:
        file = home / "values.yaml"
        file.write_text(content, encoding="utf-8")
        arguments = (release, str(CHART), "--namespace", namespace, "--values", str(file), "--skip-tests")
        text = run(helm, "template", *arguments, home=home)
        rendered = _RENDERED[content, namespace, release] = by_name(yaml.load_all(text, _LOADER))
    return deepcopy(rendered)


def by_name(objects: Any) -> dict[str, Object]:
    found = {}
    for each in objects:
        if each is None:
            continue
        metadata = each["metadata"]
        found[f"{each['kind']} {metadata.get('namespace', '')}/{metadata['name']}"] = each
    return found


def bare(objects: Mapping[str, Object]) -> dict[str, Object]:
    for each in objects.values():
        metadata = each["metadata"]
        for key, ours in (("labels", LABELS), ("annotations", ANNOTATIONS)):
            rest = {name: value for name, value in metadata.pop(key, {}).items() if name not in ours}
            metadata |= {key: rest} if rest else {}
    return dict(objects)


def kustomized(plane: Plane, folder: str) -> dict[str, Object]:
    return bare(by_name(yaml.load_all(plane.kubectl("kustomize", folder).stdout, _LOADER)))
