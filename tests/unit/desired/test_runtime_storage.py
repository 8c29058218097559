"""The emptyDirs for files that Flame writes in executors."""

from typing import Any

import pytest

from tests.unit.builders import desired

WRITTEN = ("flame-work", "flame-apps", "flame-data-cache", "flame-tmp", "flame-var")


def _sources(runtime_storage: dict[str, Any] | None) -> dict[str, Any]:
    changes = {} if runtime_storage is None else {"executorManager": {"runtimeStorage": runtime_storage}}
    pod = desired(changes).group.template.manifest["spec"]
    return {volume["name"]: volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume}


@pytest.mark.parametrize("nothing", [None, {}])
def test_without_options_each_directory_is_a_plain_empty_dir(nothing: dict[str, Any] | None) -> None:
    assert all(source == {} for source in _sources(nothing).values())


@pytest.mark.parametrize("asked", [{"medium": "Memory", "sizeLimit": "10Gi"}, {"sizeLimit": "1Gi"}])
def test_medium_and_limit_apply_to_each_directory_that_flame_writes_while_it_runs(asked: dict[str, Any]) -> None:
    sources = _sources(asked)

    assert {name: sources[name] for name in WRITTEN} == dict.fromkeys(WRITTEN, asked)
    assert sources["flame-logs"] == sources["flame-object-cache"] == {}


def test_flame_0_5_gets_no_volume_over_its_working_directory() -> None:
    pod = desired({"flameVersion": "0.5", "executorManager": {"runtimeStorage": {"medium": "Memory"}}})

    assert "flame-work" not in {volume["name"] for volume in pod.group.template.manifest["spec"]["volumes"]}


def test_the_session_manager_does_not_change() -> None:
    after = desired({"executorManager": {"runtimeStorage": {"medium": "Memory"}}})

    assert after.session_manager == desired().session_manager
