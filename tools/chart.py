"""Writes what the Helm chart has in common with `config/` and with the models of the settings: `python -m tools.chart`.

The other templates are written by hand. A test renders the chart and compares it with `config/`.
"""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

from flamectl_operator.settings.model import OperatorConfig

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "flamectl-operator"
_CONFIG = ROOT / "config"
#: Values whose keys are another schema's: Kubernetes', or the settings'.
WHOLE = frozenset(
    {
        "affinity",
        "config",
        "dnsConfig",
        "lifecycle",
        "livenessProbe",
        "podSecurityContext",
        "readinessProbe",
        "resources",
        "securityContext",
        "startupProbe",
        "strategy",
    }
)
#: How the labels of an object stand in `config/`, and in the chart.
_PLAIN_LABELS = "    app.kubernetes.io/name: flamectl-operator\n"
_LABELS = '    {{- include "flamectl-operator.labels" . | nindent 4 }}\n'
#: The Lease that replicas elect a leader on, in rules: the settings may give it another name.
_LEASE = "resourceNames: [flamectl-operator]"
_LEASE_AS_SET = (
    'resourceNames: [{{ dig "leaderElection" "resourceName" "flamectl-operator" (.Values.config | default dict)'
    " | quote }}]"
)
#: The name of the objects of a release.
_NAME_OF_ALL = '(include "flamectl-operator.fullname" .)'
_FULL_NAME = '{{ include "flamectl-operator.fullname" . | quote }}'
_HEADER = "{{- /* Generated from %s by `make generate`. */ -}}\n"


def generated(schema: str) -> dict[str, str]:
    """Return the generated files by their path in the chart.

    Args:
        schema: The present values.schema.json, whose handwritten parts stay.
    """
    return {
        "templates/crd.yaml": _crd(),
        "templates/admission.yaml": _admission(),
        "templates/monitoring.yaml": _monitoring(),
        "templates/_rules.tpl": _rules(),
        "values.schema.json": _schema(schema),
    }


def main() -> int:
    """Write the generated files."""
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
"""
    crd = f"{before}{metadata}{keep}{_LABELS}{after}"
    return f"{_HEADER % f'config/crd/{name}'}{{{{- if .Values.crds.install }}}}\n{crd}{{{{- end }}}}\n"


def _admission() -> str:
    names = yaml.safe_load((_CONFIG / "admission" / "Kustomization").read_text(encoding="utf-8"))["resources"]
    documents = "---\n".join(_verbatim(_CONFIG / "admission" / name) for name in names)
    labelled = documents.replace(_PLAIN_LABELS, _LABELS)
    return f"{_HEADER % 'config/admission'}{{{{- if .Values.admission.enabled }}}}\n{labelled}{{{{- end }}}}\n"


def _monitoring() -> str:
    """Each object under a value of its own: not everybody who has Prometheus has its operator, or a Grafana beside it."""
    folder = _CONFIG / "monitoring"
    more = "    {{- with .Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"
    parts = {"podMonitor": "podmonitor.yaml", "rules": "rules.yaml"}
    objects = {
        value: _literal((folder / name).read_text(encoding="utf-8"))
        .replace("namespace: flamectl-system", "namespace: {{ .Release.Namespace | quote }}")
        .replace("flamectl-system", "{{ .Release.Namespace }}")
        .replace("  name: flamectl-operator\n", f"  name: {_FULL_NAME}\n", 1)
        .replace(_PLAIN_LABELS, _LABELS + more, 1)
        for value, name in parts.items()
    }
    objects["dashboard"] = _dashboard(folder)
    texts = (
        f"{{{{- if .Values.monitoring.{value} }}}}\n---\n{text}{{{{- end }}}}\n" for value, text in objects.items()
    )
    return _HEADER % "config/monitoring" + "".join(texts)


def _dashboard(folder: Path) -> str:
    """Return the ConfigMap that kustomize generates."""
    (generator,) = yaml.safe_load((folder / "Kustomization").read_text(encoding="utf-8"))["configMapGenerator"]
    labels = yaml.safe_dump(generator["options"]["labels"])
    files = "".join(
        f"  {Path(name).name}: |\n{textwrap.indent(_literal((folder / name).read_text(encoding='utf-8')), '    ')}"
        for name in generator["files"]
    )
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ printf "%s{generator["name"].removeprefix("flamectl-operator")}" {_NAME_OF_ALL} | quote }}}}
  namespace: {{{{ .Release.Namespace | quote }}}}
  labels:
{_LABELS}{textwrap.indent(labels, "    ")}data:
{files}"""


def _rules() -> str:
    """Return the rules of each role, as `<name of the role>.rules`."""
    objects = list(yaml.safe_load_all((_CONFIG / "rbac" / "operator.yaml").read_text(encoding="utf-8")))
    parts = [_HEADER % "config/rbac/operator.yaml"]
    for each in objects:
        if each["kind"] in {"Role", "ClusterRole"}:
            rules = yaml.safe_dump(each["rules"], sort_keys=False, default_flow_style=None, width=120)
            rules = rules.replace(_LEASE, _LEASE_AS_SET)
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


def _literal(text: str) -> str:
    """Return the template that Helm renders as this text, whose braces belong to Prometheus and Grafana."""
    return text.replace("{{", '{{ "{{" }}')


def _verbatim(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if "{{" in text:
        raise ValueError(f"{file} has what Helm would take for a template")
    return text


if __name__ == "__main__":
    sys.exit(main())
