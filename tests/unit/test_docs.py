"""The documentation agrees with the code."""

import ast
import asyncio
import importlib
import inspect
import json
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from pydantic import BaseModel

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.crd import custom_resource_definition
from flamectl_operator.kube.resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from flamectl_operator.observed.kubelet_words import IMAGE_REASONS
from flamectl_operator.observed.pod_problem import FAILING_REASONS
from flamectl_operator.process import cli
from flamectl_operator.process.monitoring import Monitor
from flamectl_operator.process.monitoring.monitor import WATCH_TIMEOUT_SECONDS
from flamectl_operator.runtime.health import MAX_LAG
from flamectl_operator.settings.catalogue import catalogue
from flamectl_operator.settings.layers import environment_layer, merge
from flamectl_operator.settings.model import OperatorConfig, PodPolicy
from flamectl_operator.status import events as announcements
from flamectl_operator.status import work
from flamectl_operator.status.reason import PRECEDENCE
from tests.service_fields import PORT_FIELDS, SPEC_FIELDS, Owner
from tests.simulation.guarantees import PROOFS
from tests.simulation.mutations import MUTATIONS
from tests.unit.process.monitoring.everything import everything
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop
from tests.unit.support import document, documents

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "flamectl_operator"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "tools").rglob("*.md")])

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _missing(names: set[str], page: str) -> list[str]:
    text = _text(page)
    return sorted(name for name in names if f"`{name}`" not in text)


# --- links, commands and examples -----------------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_link_leads_to_a_file(page: Path) -> None:
    lost = []
    for target in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            lost.append(target)
    assert lost == []


def test_index_lists_every_page() -> None:
    index = _text("docs/README.md")
    pages = (page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    unlisted = [page for page in pages if page != "README.md" and f"({page})" not in index]
    assert unlisted == [], "docs/README.md has no link to these pages: add one for each"


def test_readme_has_the_two_commands() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"^ {4}(make \w+)$", _text("README.md"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_named_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
    code = re.findall(r"`make ([a-z-]+)|^ *make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {first or second for first, second in code} <= targets


def _examples(kind: str) -> list[Any]:
    found = []
    for page in PAGES:
        for number, block in enumerate(_YAML.findall(page.read_text(encoding="utf-8"))):
            found += [
                pytest.param(part, id=f"{page.name}-{number}")
                for part in documents(block)
                if isinstance(part, dict) and part.get("kind") == kind
            ]
    return found


@pytest.mark.parametrize("manifest", _examples("FlameCluster"))
def test_shown_flame_cluster_is_valid(manifest: dict[str, Any]) -> None:
    parse_spec(manifest["spec"], manifest["metadata"]["name"])


@pytest.mark.parametrize("settings", _examples("OperatorConfig"))
def test_shown_settings_file_is_valid(settings: dict[str, Any]) -> None:
    OperatorConfig.model_validate(settings)


def test_command_of_the_readme_installs_all_manifests() -> None:
    assert "kubectl apply --server-side -k config/default" in _text("README.md")
    default = ROOT / "config" / "default"
    for base in document(_text("config/default/kustomization.yaml"))["resources"]:
        folder = (default / base).resolve()
        # Without an extension: `kubectl apply -f` of the folder would take kustomization.yaml for a manifest.
        listed = document((folder / "Kustomization").read_text(encoding="utf-8"))["resources"]
        assert sorted(listed) == sorted(
            file.name for file in folder.iterdir() if file.suffix in {".yaml", ".yml", ".json"}
        )


def test_image_has_the_version_of_the_project() -> None:
    version = tomllib.loads(_text("pyproject.toml"))["project"]["version"]
    (image,) = document(_text("config/default/kustomization.yaml"))["images"]
    assert image["newTag"] == version
    named = re.findall(r"flamectl-operator:(\d[\w.]*\w)", _text("README.md") + _text("Dockerfile"))
    assert named
    assert set(named) == {version}


# --- settings -------------------------------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    """A default as the tables show it."""
    if isinstance(value, str):
        return value or '""'
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def test_every_setting_is_explained_with_default_and_restart() -> None:
    text = _text("docs/settings.md")
    wanted = {
        f"| `{path}` | `{_shown(setting.default)}` | {'live' if setting.live else 'restart'} |"
        for path, setting in catalogue().items()
    }
    absent = sorted(row for row in wanted if row not in text)
    assert absent == [], "docs/settings.md has no rows that begin like these: add each, or correct its default"


def test_shown_variable_sets_the_setting_beside_it() -> None:
    shown = re.findall(r"^\| `([\w.]+)` \| `(\w+)=([\w,-]+)` \|$", _text("docs/settings.md"), re.MULTILINE)
    assert shown
    for path, variable, value in shown:
        origins = merge([environment_layer({variable: value})]).origins
        assert origins[path] == f"environment variable {variable}"


def test_explained_setting_exists() -> None:
    sections = tuple(
        f"{field.alias}." for name, field in OperatorConfig.model_fields.items() if isinstance(field.default, BaseModel)
    )
    explained = re.findall(r"^\| `([\w.]+)` \|", _text("docs/settings.md"), re.MULTILINE)
    assert [path for path in explained if path.startswith(sections) and path not in catalogue()] == []


def test_every_command_line_option_is_explained() -> None:
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(cli.run).parameters}
    assert _missing(options, "docs/settings.md") == [], "explain these options in docs/settings.md"


def test_every_permission_of_the_pod_policy_is_explained() -> None:
    fields = {field.alias or name for name, field in PodPolicy.model_fields.items()}
    assert _missing(fields, "docs/security.md") == [], "explain these fields of podPolicy in docs/security.md"


def test_every_permission_of_the_operator_is_explained() -> None:
    objects = documents(_text("config/rbac/operator.yaml"))
    own = (each for each in objects if not each["metadata"]["name"].endswith(("-edit", "-view")))
    resources = {name for each in own for rule in each.get("rules", ()) for name in rule["resources"]}
    assert {"flameclusters", "pods", "leases"} <= resources
    unexplained = _missing(resources | {each["metadata"]["name"] for each in objects}, "docs/security.md")
    assert unexplained == [], "explain these resources and roles of config/rbac in docs/security.md"


# --- the API --------------------------------------------------------------------------------------------------------------

#: Parts of the spec that occur twice, or that are a world of their own: explained once, in a section.
_SECTIONS = ("resources", "env", "persistence", "podTemplate")


def _schema() -> dict[str, Any]:
    (version,) = custom_resource_definition()["spec"]["versions"]
    properties: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return properties


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field below a schema, by its path as the documentation writes it."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        if "items" in field:
            yield from _fields(field["items"], f"{path}{name}[].")
        else:
            yield from _fields(field, f"{path}{name}.")


def _in_section(path: str) -> str:
    """The path from a section of its own on: `spec.sessionManager.env[].name` is explained as `env[].name`."""
    parts = path.split(".")
    for number, part in enumerate(parts):
        if number >= 2 and part.removesuffix("[]") in _SECTIONS and number < len(parts) - 1:
            return ".".join(parts[number:])
    return path


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_of_the_resource_is_explained(part: str) -> None:
    fields = {_in_section(path) for path, _ in _fields({"properties": {part: _schema()[part]}})}
    paths = {path for path in fields if path != part and not path.startswith("podTemplate.")}
    assert _missing(paths, "docs/flamecluster.md") == [], "add a row for each of these fields to docs/flamecluster.md"


def test_owner_of_every_field_of_a_service_is_documented() -> None:
    rows = [line for line in _text("docs/behaviour.md").splitlines() if line.startswith("| `")]
    documented = {
        field: Owner.OPERATOR if "the operator" in row.split("|")[2] else Owner.OTHERS
        for row in rows
        for field in re.findall(r"`([A-Za-z]+)`", row.split("|")[1])
        if field in SPEC_FIELDS or field in PORT_FIELDS
    }

    assert documented == {**SPEC_FIELDS, **PORT_FIELDS}


def test_every_pod_template_field_with_rules_is_named() -> None:
    code = re.findall(r"`([^`\n]+)`", _text("docs/flamecluster.md").partition("### podTemplate")[2])
    named = {word for part in code for word in re.findall(r"\w+", part)}
    fields = {_in_section(path) for path, _ in _fields({"properties": {"spec": _schema()["spec"]}})}
    unnamed = {path.split(".")[-1] for path in fields if path.startswith("podTemplate.")} - named
    assert unnamed == set(), "name these fields in the section podTemplate of docs/flamecluster.md"


def test_every_default_of_the_spec_is_documented() -> None:
    text = _text("docs/flamecluster.md")
    wanted = {
        (path, _shown(field["default"]))
        for path, field in _fields({"properties": {"spec": _schema()["spec"]}})
        if "default" in field and not isinstance(field["default"], dict) and path == _in_section(path)
    }
    rows = {path: re.search(rf"^\| `{re.escape(path)}` \|.*$", text, re.MULTILINE) for path, _ in wanted}
    wrong = sorted(path for path, value in wanted if (row := rows[path]) is None or f"`{value}`" not in row[0])
    assert wrong == [], "the rows of these fields in docs/flamecluster.md do not have the default of the CRD"


# --- monitoring -----------------------------------------------------------------------------------------------------------


def _table(page: str, heading: str) -> list[list[str]]:
    """The cells of all rows below a heading that begin with a name, up to the next heading of that kind."""
    kind = heading.partition(" ")[0]
    section = re.split(rf"^{kind} ", _text(page).partition(f"\n{heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`[^`]+` \|.*) \|$", section, re.MULTILINE)
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def _full_name(metric: Metric) -> str:
    """Return the name in Prometheus: the info `flamectl_build` has the series `flamectl_build_info`."""
    return metric.name + {"counter": "_total", "info": "_info"}.get(metric.type, "")


def test_documented_metrics_and_labels_are_the_exported_ones() -> None:
    explained = {
        row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in _table("docs/monitoring.md", "## Metrics")
    }
    served = {
        _full_name(metric): {name for sample in metric.samples for name in sample.labels} - {"le"}
        for metric in everything()
    }
    assert explained == served, (
        "the tables of docs/monitoring.md (left) differ from the exported metrics (right), each with its labels; a new metric "
        "has no labels on the right until `tests/unit/process/monitoring/everything.py` reports something that it counts"
    )


def test_documented_alerts_are_the_defined_ones_and_have_a_remedy() -> None:
    groups = document(_text("config/monitoring/rules.yaml"))["spec"]["groups"]
    explained = _table("docs/monitoring.md", "## Alerts")
    assert [row[0].strip("`") for row in explained] == [rule["alert"] for group in groups for rule in group["rules"]]
    assert all(all(row) and len(row) == 3 for row in explained)


def test_documented_health_checks_have_the_order_of_the_code() -> None:
    async def checks() -> list[str]:
        clock, config = VirtualClock(), OperatorConfig()
        monitor = Monitor(config, clock, asyncio.Event())
        return [*monitor.health.live, *monitor.health.ready]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert [row[0].strip("`") for row in _table("docs/monitoring.md", "## Health")] == runner.run(checks())


def test_documented_patience_with_watches_is_the_one_of_the_code() -> None:
    assert f"for {WATCH_TIMEOUT_SECONDS:.0f} s" in _text("docs/monitoring.md")
    assert f"more than {MAX_LAG:.0f} s" in _text("docs/monitoring.md")


# --- the operator's parts -------------------------------------------------------------------------------------------------


def test_architecture_lists_every_room() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert _missing({f"{room}/" for room in rooms}, "docs/dev/architecture.md") == [], "add a row for each to The rooms"


@cache
def _python_files() -> list[str]:
    return [f"/{_name(path)}" for folder in (SOURCE, ROOT / "tests", ROOT / "tools") for path in folder.rglob("*.py")]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_file_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")))
    lost = sorted(name for name in named if not any(file.endswith(f"/{name}") for file in _python_files()))
    assert lost == [], f"{_name(page)} names these files, which have moved or gone"


def test_name_of_the_code_that_a_docstring_or_a_comment_has_in_backticks_exists() -> None:
    known, named = set[str](), dict[str, str]()
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        words = re.compile(r"\b[a-z_]\w*\b")
        known |= {path.stem, *words.findall(re.sub(r"`[^`\n]*`", "", source))}
        named |= dict.fromkeys(re.findall(r"`([a-z_]\w*_\w*)`", source), _name(path))
    assert {name: path for name, path in named.items() if name not in known and name != "flamectl_"} == {}


def test_every_logging_component_is_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = re.search(r"Components are ([^.]*)\.", _text("docs/troubleshooting.md"))
    assert named is not None
    assert set(re.findall(r"`([^`]+)`", named[1])) == set(re.findall(r'get_logger\(\s*component="([^"]+)"', source))


def test_every_runtime_dependency_is_justified() -> None:
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    names = {re.split(r"[<>=~! ]", each)[0] for each in project["dependencies"]}
    explained = set(re.findall(r"^\| `([\w-]+)` \|", _text("docs/dev/dependencies.md"), re.MULTILINE))
    assert explained == names, "docs/dev/dependencies.md (left) has a row for each dependency of pyproject.toml (right)"


# --- reasons --------------------------------------------------------------------------------------------------------------

#: Calls that take a reason, with the position or the name of that argument.
_REASONED = {
    "wait": 0,
    "blocked": 0,
    "stop": 0,
    "wait_until": 0,
    "record_normal": 0,
    "record_warning": 0,
    "RefusedError": 0,
    "PodProblem": 0,
    "make": 1,
    "Outcome": 1,
    "_record": 1,
    "_Kept": 0,
    "Loss": 0,
    "Notice": 0,
    "Work": 0,
    "_waits": 0,
    "ended_problem": 1,
    "phase_problem": 0,
    "FlameError": 0,
    "Scaling": 2,
    "Child": 3,
}
#: Reasons that are passed on from where they were given.
_PASSED_ON = {
    "first.reason",
    "found[0].reason",
    "kept.reason",
    "loss.reason",
    "degraded.reason",
    "target.reason",
    "problem.reason",
    "condition.reason",
    "condition.type",
    "collection.reason",
    "ended.reason",
    "error.reason",
    "observed.flame.cause",
    "known.reason",
    "outcome.reason",
    "pod.status.phase",
    "pod.status.reason",
    "deferral.reason",
    "refusal.reason",
    "rest.reason",
    "self.reason",
    "scaling.reason",
    "scheduled.reason",
    "waiting.reason",
    "work.reason",
}
_ROOMS = (
    "controller.py",
    "process/live_settings.py",
    "flame",
    "observed",
    "planning",
    "status",
    "reconcile",
    "subreconcilers",
)


#: How the events of Pods with fixed names begin.
_NAMED_PODS = ("SessionManager", "ObjectCache")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


class _Reasons:
    """Finds out which texts the reason of a call in a module can be.

    Args:
        path: The module's file.
    """

    def __init__(self, path: Path) -> None:
        self._tree = _tree(path)
        dotted = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        self._module = importlib.import_module(dotted.removesuffix(".__init__"))
        self._path = path

    def all(self, takers: Collection[str] = _REASONED) -> Iterator[str]:
        for function in ast.walk(self._tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and (argument := self._argument(node, takers)) is not None:
                        yield from self._values(argument, function)

    def _argument(self, call: ast.Call, takers: Collection[str]) -> ast.expr | None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        # Inside RefusedError its own class method calls it so.
        name = "RefusedError" if name == "cls" and "RefusedError" in vars(self._module) else name
        if name not in takers:
            return None
        position = _REASONED[name]
        named = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
        given = named or call.args[position : position + 1]
        # With a star it is a reason that was given before, together with its message.
        return given[0] if given and not isinstance(given[0], ast.Starred) else None

    def _values(self, node: ast.expr, function: ast.AST) -> Iterator[str]:
        match node:
            case ast.Constant(value=str() as text):
                yield text
            case ast.IfExp(body=first, orelse=second):
                yield from self._values(first, function)
                yield from self._values(second, function)
            case ast.BoolOp(values=choices):
                for choice in choices:
                    yield from self._values(choice, function)
            case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str() as end)]):
                yield from (f"{beginning}{end}" for beginning in self._beginnings(node))
            case ast.Name(id=name):
                yield from self._named(name, node, function)
            case ast.Call(func=ast.Attribute(attr="most_important")):
                yield from PRECEDENCE
            case ast.Call(func=ast.Name(id=name)):
                yield from self._returned(name)
            case ast.Attribute():
                assert ast.unparse(node) in _PASSED_ON or "[0].reason" in ast.unparse(node), self._unknown(node)
            case _:
                pytest.fail(self._unknown(node))

    def _beginnings(self, node: ast.expr) -> Iterator[str]:
        if ast.unparse(node).startswith("f'{self.event}"):
            yield from _NAMED_PODS
            return
        assert ast.unparse(node).startswith("f'{resource.kind}"), self._unknown(node)
        yield from (resource.kind for resource in (CONFIG_MAPS, NETWORK_POLICIES, SERVICES))

    def _named(self, name: str, node: ast.expr, function: ast.AST) -> Iterator[str]:
        """A constant of the module, or what was assigned in the function."""
        value = getattr(self._module, name, None)
        if isinstance(value, str):
            yield value
            return
        if isinstance(function, ast.FunctionDef) and name in {each.arg for each in function.args.args}:
            return  # whoever calls the function gives it
        for statement in ast.walk(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)], value=assigned) if target == name:
                    yield from self._values(assigned, function)
                    return
                case ast.For(
                    target=ast.Tuple(elts=[_, ast.Name(id=target)]),
                    iter=ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="items")),
                ) if target == name:
                    yield from getattr(self._module, table).values()
                    return
        pytest.fail(self._unknown(node))

    def _returned(self, name: str) -> Iterator[str]:
        (called,) = (each for each in ast.walk(self._tree) if isinstance(each, ast.FunctionDef) and each.name == name)
        for statement in ast.walk(called):
            if isinstance(statement, ast.Return) and statement.value is not None:
                yield from self._values(statement.value, called)

    def _unknown(self, node: ast.expr) -> str:
        return (
            f"{_name(self._path)}:{node.lineno}: unknown reason `{ast.unparse(node)}`: write a literal or a constant,"
            " or add the expression to _PASSED_ON if the reason was given in another call"
        )


def _files_of_rooms() -> Iterator[Path]:
    for room in _ROOMS:
        yield from [SOURCE / room] if room.endswith(".py") else sorted((SOURCE / room).rglob("*.py"))


@cache
def _reasons() -> frozenset[str]:
    """All reasons that the operator gives: in outcomes, conditions, events and `unhealthyPods`."""
    found = {reason for file in _files_of_rooms() for reason in _Reasons(file).all()}
    # A Service cannot be made immutable, so there is no reason to delete one.
    # The reasons of a kubelet for an image that it cannot get have one name.
    found |= (FAILING_REASONS - set(IMAGE_REASONS)) | {*PRECEDENCE, *map(str, announcements._TELL_WHEN_TRUE)}
    found |= {each.reason for each in work._WORK.values()}
    return frozenset(found) - {"", "ServiceDeleted"}


def test_every_function_with_a_reason_is_known() -> None:
    takers = set()
    for file in (*_files_of_rooms(), SOURCE / "runtime" / "outcome.py"):
        for node in ast.walk(_tree(file)):
            match node:
                case ast.FunctionDef(name=name, args=ast.arguments(args=arguments)):
                    if "reason" in {each.arg for each in arguments}:
                        takers.add(name)
                case ast.ClassDef(name=name, body=body):
                    if any(isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "reason" for each in body):
                        takers.add(name)
    # RefusedError takes its own in the constructor.
    unknown = takers - {"__init__"} - _REASONED.keys()
    assert unknown == set(), "add these to _REASONED, with the position of their argument `reason`"


def test_reasons_are_found_in_every_form_of_a_call() -> None:
    assert {
        "ServiceConflict",  # one of two constants
        "ConfigMapCreated",  # a kind and a verb
        "ConfigMapNotReady",  # of a Hold
        "CreatingExecutors",  # from a table
        "Updating",  # from the table of precedence
        "NameConflict",  # a constant of another module
        "NotPaused",  # one of two
        "PodsFailing",  # assigned before
        "QuotaExceeded",  # by the class itself
        "Stable",  # in the midst of an expression
    } <= _reasons()


def test_documented_precedence_of_reasons_is_the_one_of_the_code() -> None:
    section = _text("docs/flamecluster.md").partition("\n### reason\n")[2].partition("list is shown:")[2]
    documented = re.findall(r"`(\w+)`", section.partition("\n\nThe condition")[0])
    assert documented == list(PRECEDENCE), "the list of reasons in docs/flamecluster.md has the order of PRECEDENCE"


def test_every_reason_that_needs_attention_has_a_precedence() -> None:
    takers = {"blocked", "RefusedError"}
    found = {reason for file in _files_of_rooms() for reason in _Reasons(file).all(takers)}
    assert {"QuotaExceeded", "ServiceConflict"} <= found
    assert sorted(found - set(PRECEDENCE)) == [], "give these a place in PRECEDENCE of status/reason.py"


def test_every_reason_is_explained() -> None:
    assert _missing(set(_reasons()), "docs/troubleshooting.md") == [], (
        "explain these reasons under Reasons in docs/troubleshooting.md: that of a wait in the table of steps that wait"
    )


def test_explained_reason_exists_in_the_code() -> None:
    section = _text("docs/troubleshooting.md").partition("## Reasons")[2]
    named = set(re.findall(r"^\| `([A-Z]\w+)`", section, re.MULTILINE))
    assert sorted(named - _reasons()) == [], (
        "docs/troubleshooting.md explains reasons that nothing gives: remove the rows"
    )


# --- what does not belong into a repository -------------------------------------------------------------------------------

#: Parts of host names of container registries and package indexes: images and packages come from where the user says.
_HOSTS = re.compile(
    r"\b(docker|ghcr|quay|gcr|azurecr)\.io\b|\bregistry\.(?!example\b)[a-z0-9.-]+\.[a-z]{2,}\b|\bpkg\.dev\b"
    r"|\b(pypi|pythonhosted)\.org\b|\b(proxy|sum)\.golang\.org\b|\bdkr\.ecr\.[a-z0-9-]+\.amazonaws\.com\b|\bindex-url\b.*https?:",
    re.IGNORECASE,
)
_HOME = re.compile(r"(?<![\w.$}~/-])/(home|Users)/\w|(?<![\w.$}~/-])/root/")


def _files() -> Iterator[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        file = ROOT / name
        if file.is_file() and file != Path(__file__):
            yield file


def test_no_file_names_a_registry_or_a_home_directory() -> None:
    found = []
    for file in _files():
        text = file.read_text(encoding="utf-8", errors="replace")
        # Tests of how a home is found need one.
        patterns = [_HOSTS, re.compile(f"{Path.home()}/"), *([] if file.parts[len(ROOT.parts)] == "tests" else [_HOME])]
        found += [f"{_name(file)}: {match[0]}" for pattern in patterns for match in pattern.finditer(text)]
    assert found == []


def test_each_guarantee_has_mutations_that_prove_its_check_and_each_mutation_proves_one() -> None:
    guarantees = re.findall(r"^\| (.+?) \|", _text("docs/dev/guarantees.md"), re.MULTILINE)[1:]

    assert list(PROOFS) == guarantees
    assert sorted(name for names in PROOFS.values() for name in names) == sorted(MUTATIONS)
