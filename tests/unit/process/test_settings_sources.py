"""Where the settings' document is kept."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.process.settings_sources import CONFIG_MAP, KEY, ConfigMapSource, FileSource, NothingThereError
from flamectl_operator.settings.document import defaults
from flamectl_operator.settings.layers import SettingsError
from tests.unit.builders import NOW
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock

NAMESPACE = "flamectl-system"
FORBIDDEN = ForbiddenError(403, "Forbidden", "you may not")
LOST = ConnectionLostError("reset")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi(ManualClock(NOW))


@pytest.fixture
def source(api: FakeApi) -> ConfigMapSource:
    return ConfigMapSource(api, NAMESPACE)


def _put(api: FakeApi, data: dict[str, str] | None) -> None:
    api.put("configmaps", {"metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}, "data": data})


def _found(api: FakeApi) -> dict[str, Any] | None:
    return api.find("configmaps", CONFIG_MAP, NAMESPACE)


async def test_missing_config_map_is_created_with_the_defaults(api: FakeApi, source: ConfigMapSource) -> None:
    await source.prepare()

    found = _found(api)
    assert found is not None
    assert found["data"] == {KEY: defaults()}
    assert found["metadata"]["labels"] == {"app.kubernetes.io/name": "flamectl-operator"}
    assert await source.read() == defaults()


async def test_forbidden_create_falls_back_to_the_defaults(api: FakeApi, source: ConfigMapSource) -> None:
    api.fail("create", "configmaps", FORBIDDEN)

    with structlog.testing.capture_logs() as logs:
        await source.prepare()

    assert [(line["log_level"], line["error"]) for line in logs] == [("warning", "you may not")]
    with pytest.raises(NothingThereError, match=f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: does not exist"):
        await source.read()


@pytest.mark.parametrize(
    ("error", "raised", "applied"),
    [
        pytest.param(LOST, ConnectionLostError, True, id="lost, carried out"),
        pytest.param(LOST, ConnectionLostError, False, id="lost, not carried out"),
        pytest.param(ServerError(500), ServerError, True, id="500, carried out"),
        pytest.param(ServerError(500), ServerError, False, id="500, not carried out"),
        pytest.param(NotFoundError(404, message="404 page not found"), ServerError, False, id="404 of something else"),
        pytest.param(TooManyRequestsError(429), TooManyRequestsError, False, id="429"),
        pytest.param(UnauthorizedError(401), UnauthorizedError, False, id="401"),
    ],
)
async def test_failed_create_is_retried(
    api: FakeApi, source: ConfigMapSource, error: KubernetesError, raised: type[KubernetesError], *, applied: bool
) -> None:
    api.fail("create", "configmaps", error, applied=applied)
    with pytest.raises(raised):
        await source.prepare()

    await source.prepare()

    assert await source.read() == defaults()


@pytest.mark.parametrize("error", [FORBIDDEN, ConnectionFailedError("refused")])
async def test_unreadable_config_map_is_an_error(api: FakeApi, source: ConfigMapSource, error: KubernetesError) -> None:
    api.fail("get", "configmaps", error, times=2)

    with pytest.raises(type(error)):
        await source.prepare()
    with pytest.raises(type(error)):
        await source.read()
    assert api.writes == []


async def test_404_of_a_proxy_does_not_count_as_missing_settings(api: FakeApi, source: ConfigMapSource) -> None:
    _put(api, {KEY: "controller: {workers: 3}"})
    api.fail("get", "configmaps", NotFoundError(404, message="HTTP 404: 404 page not found"), times=2)

    for attempt in (source.prepare, source.read):
        with pytest.raises(
            ServerError, match="a proxy answers in place of the API server: HTTP 404: 404 page not found"
        ):
            await attempt()
    assert api.writes == []
    assert await source.read() == "controller: {workers: 3}"


async def test_events_are_about_the_config_map_once_it_was_seen(api: FakeApi, source: ConfigMapSource) -> None:
    assert source.about is None
    _put(api, {KEY: ""})
    await source.read()

    found = _found(api)
    assert found is not None
    assert source.about == ObjectReference("v1", "ConfigMap", NAMESPACE, CONFIG_MAP, found["metadata"]["uid"])


async def test_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = FileSource(file)
    await source.prepare()
    for text in ("one", "two"):
        file.write_text(text)
        assert await source.read() == text
    assert (source.name, source.about) == (str(file), None)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda _path: None, "No such file", id="missing"),
        pytest.param(_fifo, "must be a file with settings, not a pipe or a device", id="FIFO"),
        pytest.param(Path.mkdir, "Is a directory", id="directory"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "must be a file with settings", id="device"),
        pytest.param(_large, "must have at most 1024 KiB, as a ConfigMap does", id="200 MB"),
        pytest.param(lambda path: path.symlink_to(path), "Too many levels of symbolic links", id="a link to itself"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe"), "not YAML: 'utf-8' codec", id="invalid UTF-8"),
    ],
)
async def test_file_that_is_no_settings_file_gets_one_line_at_once(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    file = tmp_path / "config.yaml"
    make(file)

    with pytest.raises(SettingsError) as raised:
        await FileSource(file).read()

    assert str(raised.value).startswith(f"{file}: {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_file_without_permission_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.touch(0o000)

    with pytest.raises(SettingsError, match=f"^{file}: Permission denied$"):
        await FileSource(file).read()
