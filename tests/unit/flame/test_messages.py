"""The message definitions, compared with those of Flame's SDK."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flamectl_operator.flame.messages import ENUMS, MESSAGES, message_class

#: Messages of Flame's backend, which the SDK does not have.
_BACKEND = {
    *("RegisterNodeRequest", "ReleaseNodeRequest", "NodeHeartbeat", "WatchNodeRequest"),
    *("WatchNodeResponse", "Acknowledgement"),
}


def _published(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Message descriptors of the SDK `flamepy`, by name; the test is skipped where the SDK is not installed."""
    found = importlib.util.find_spec("flamepy")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("flamepy is not installed")
    folder = Path(found.submodule_search_locations[0]) / "proto"
    descriptors: dict[str, Any] = {}
    # Only the definitions, because the package itself imports much that the operator does not have.
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
        descriptors |= module.DESCRIPTOR.message_types_by_name
    return descriptors


def test_definitions_agree_with_those_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    published = _published(monkeypatch)
    for name in MESSAGES.keys() - _BACKEND:
        if name == "EmptyRequest":
            continue
        theirs = {field.number: field for field in published[name].fields}
        for ours in message_class(name).DESCRIPTOR.fields:
            assert (name, ours.name, ours.type, ours.is_repeated) == (
                name,
                theirs[ours.number].name,
                theirs[ours.number].type,
                theirs[ours.number].is_repeated,
            )


def test_unknown_fields_are_skipped() -> None:
    # Field 6 of a node's status is a time that the operator does not read.
    node = message_class("Node").FromString(b"\x0a\x03\x12\x01a\x1a\x04\x08\x01\x30\x07")
    assert (node.metadata.name, node.status.state) == ("a", 1)


@pytest.mark.parametrize("name", ENUMS)
def test_unset_enumeration_has_the_value_zero(name: str) -> None:
    assert ENUMS[name][0] in {"Unknown", "Open"}
