"""Writes what the Helm chart has in common with `config/` and with the models of the settings: `python -m tools.chart`.

The other templates are written by hand. A test renders the chart and compares it with `config/`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from flamectl_operator.settings import OperatorConfig

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "flamectl-operator"
_CONFIG = ROOT / "config"
_HEADER = "{{- /* Generated from %s by `make generate`. */ -}}\n"


def generated(schema: str) -> dict[str, str]:
    """The files that are generated, by their path in the chart.

    Args:
        schema: The present values.schema.json; what is written by hand in it stays.
    """
    return {
        "templates/crd.yaml": _crd(),
        "templates/admission.yaml": _admission(),
        "templates/_rules.tpl": _rules(),
        "values.schema.json": _schema(schema),
    }


def main() -> int:
    """Writes them."""
    for name, text in generated((CHART / "values.schema.json").read_text(encoding="utf-8")).items():
        (CHART / name).write_text(text, encoding="utf-8")
    return 0


def _crd() -> str:
    name = "flame.xflops.io_flameclusters.yaml"
    text = _verbatim(_CONFIG / "crd" / name)
    before, metadata, after = text.partition("metadata:\n")
    keep = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
  labels:
    {{- include "flamectl-operator.labels" . | nindent 4 }}
"""
    return f"{_HEADER % f'config/crd/{name}'}{{{{- if .Values.crds.install }}}}\n{before}{metadata}{keep}{after}{{{{- end }}}}\n"


def _admission() -> str:
    names = yaml.safe_load((_CONFIG / "admission" / "Kustomization").read_text(encoding="utf-8"))["resources"]
    documents = "---\n".join(_verbatim(_CONFIG / "admission" / name) for name in names)
    labels = "    app.kubernetes.io/name: flamectl-operator\n"
    labelled = documents.replace(labels, '    {{- include "flamectl-operator.labels" . | nindent 4 }}\n')
    return f"{_HEADER % 'config/admission'}{{{{- if .Values.admission.enabled }}}}\n{labelled}{{{{- end }}}}\n"


def _rules() -> str:
    """The rules of each role, as `<name of the role>.rules`."""
    objects = list(yaml.safe_load_all((_CONFIG / "rbac" / "operator.yaml").read_text(encoding="utf-8")))
    parts = [_HEADER % "config/rbac/operator.yaml"]
    for each in objects:
        if each["kind"] in {"Role", "ClusterRole"}:
            rules = yaml.safe_dump(each["rules"], sort_keys=False, default_flow_style=None, width=120)
            parts.append(f'{{{{- define "{each["metadata"]["name"]}.rules" -}}}}\n{rules}{{{{- end }}}}\n')
    return "\n".join(parts)


def _schema(text: str) -> str:
    """With the schema of the settings: a misspelt one is refused before it is installed."""
    schema: dict[str, Any] = json.loads(text)
    settings = OperatorConfig.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions = settings.pop("$defs")
    kept = {name: each for name, each in schema["$defs"].items() if name[0].islower()}
    schema["$defs"] = {**kept, "OperatorConfig": settings, **definitions}
    return json.dumps(schema, indent=2) + "\n"


def _verbatim(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if "{{" in text:
        raise ValueError(f"{file} has what Helm would take for a template")
    return text


if __name__ == "__main__":
    sys.exit(main())
