"""The message definitions, compared with those of Flame's SDK."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flamectl_operator.flame.messages import ENUMS, FRONTEND, MESSAGES, message_class

#: Messages of Flame's backend, which the SDK does not have.
_BACKEND = {
    *("RegisterNodeRequest", "ReleaseNodeRequest", "NodeHeartbeat", "WatchNodeRequest"),
    *("WatchNodeResponse", "Acknowledgement"),
}


def _published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Descriptors of the files of the SDK `flamepy`."""
    found = importlib.util.find_spec("flamepy")
    assert found is not None
    assert found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0]) / "proto"
    files = []
    # Only the definitions, because the package itself imports much that is not installed here.
    for package in ("flamepy", "flamepy.proto"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    for name in ("types", "frontend"):
        path = folder / f"{name}_pb2.py"
        spec = importlib.util.spec_from_file_location(f"flamepy.proto.{name}_pb2", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        files.append(module.DESCRIPTOR)
    return files


def test_definitions_agree_with_those_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    published = {name: each for file in _published(monkeypatch) for name, each in file.message_types_by_name.items()}
    for name in MESSAGES.keys() - _BACKEND:
        if name == "EmptyRequest":
            continue
        theirs = {field.number: field for field in published[name].fields}
        # The SDK that is published does not know the workspaces of the next Flame.
        for ours in (each for each in message_class(name).DESCRIPTOR.fields if each.name != "workspace"):
            assert (name, ours.name, ours.type, ours.is_repeated) == (
                name,
                theirs[ours.number].name,
                theirs[ours.number].type,
                theirs[ours.number].is_repeated,
            )


def test_values_of_enumerations_agree_with_those_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    published = {name: each for file in _published(monkeypatch) for name, each in file.enum_types_by_name.items()}
    for name, values in ENUMS.items():
        theirs = {value.number: value.name.removeprefix(name.removesuffix("State")) for value in published[name].values}
        assert {number: values[number] for number in theirs} == theirs


def test_calls_of_the_first_dialect_are_those_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {
        f"{service.full_name}/{method.name}": method.output_type.name
        for file in _published(monkeypatch)
        for service in file.services_by_name.values()
        for method in service.methods
    }
    assert calls[f"{FRONTEND}/ListNodes"] == "NodeList"
    assert calls[f"{FRONTEND}/ListExecutor"] == "ExecutorList"
    assert calls[f"{FRONTEND}/ListSession"] == "SessionList"


def test_unknown_fields_are_skipped() -> None:
    # Field 6 of a node's status is a time that the operator does not read.
    node = message_class("Node").FromString(b"\x0a\x03\x12\x01a\x1a\x04\x08\x01\x30\x07")
    assert (node.metadata.name, node.status.state) == ("a", 1)


@pytest.mark.parametrize("name", ENUMS)
def test_unset_enumeration_has_the_value_zero(name: str) -> None:
    assert ENUMS[name][0] in {"Unknown", "Open"}
