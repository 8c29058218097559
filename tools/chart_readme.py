"""Writes the chart's README and icon from values.yaml and icon.svg: `python -m tools.chart_readme`."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tools.chart import CHART, WHOLE

README = CHART / "README.md"

_INTRO = """\
# flamectl-operator

<!-- Written by `make generate`: the table from the comments of values.yaml, the rest in tools/chart_readme.py. -->

The chart installs an operator that runs [Flame](https://github.com/xflops/flame) clusters from one `FlameCluster` resource. It
creates the same objects as the kustomizations in `config/`; a test compares them.

    helm install flamectl-operator charts/flamectl-operator --namespace flamectl-system --create-namespace \\
      --set image.registry=registry.example
    kubectl label namespace flamectl-system pod-security.kubernetes.io/enforce=restricted

It needs Kubernetes 1.30 or newer, and an image that you [build](../../docs/install.md#the-image) from the repository.
[Installing](../../docs/install.md#with-helm) has the rest: how many releases a cluster may have, one namespace only, changing
over from kustomize, upgrading, uninstalling.

## Values

| value | default | meaning |
|---|---|---|
"""
_LINE = re.compile(r"^(?P<indent> *)(?P<key>\w+):")
_INDENT = 2


def render(text: str) -> str:
    """Return the README for the text of a values.yaml."""
    return _INTRO + "".join(
        f"| `{path}` | {_default(value)} | {meaning} |\n" for path, value, meaning in documented(text)
    )


def documented(text: str) -> Iterator[tuple[str, Any, str]]:
    """Yield path, default and comment of each value of a values.yaml, in the order of the file.

    Raises:
        ValueError: A value has no comment.
    =OLD
    """
    values = yaml.safe_load(text)
    comment: list[str] = []
    section: list[str] = []
    inside: int | None = None  # the indent of a value that is shown as a whole, while its lines last
    for line in text.splitlines():
        stripped = line.strip()
        found = _LINE.match(line)
        if inside is not None and (not stripped or len(line) - len(line.lstrip()) > inside):
            continue
        inside = None
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
        elif found is None:
            comment = []
        else:
            depth = len(found["indent"]) // _INDENT
            section = [*section[:depth], found["key"]]
            path = ".".join(section)
            value = _at(values, section)
            if path in WHOLE or not isinstance(value, dict) or not value:
                if not comment:
                    raise ValueError(f"values.yaml has no comment above {path}")
                yield path, value, " ".join(comment)
                inside = len(found["indent"])
            comment = []


def icon() -> str:
    """Return the icon as a URL that needs no server."""
    return f"data:image/svg+xml;base64,{base64.b64encode((CHART / 'icon.svg').read_bytes()).decode()}"


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values[name]
    return values


def _default(value: Any) -> str:
    return "" if value == "" else f"`{json.dumps(value)}`"


def main() -> None:
    """Write the README, and the icon into Chart.yaml."""
    README.write_text(render((CHART / "values.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    chart = CHART / "Chart.yaml"
    text = re.sub(r"^icon: .*$", f"icon: {icon()}", chart.read_text(encoding="utf-8"), flags=re.MULTILINE)
    chart.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
