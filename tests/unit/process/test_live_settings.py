"""The settings in force: valid edits take effect, and invalid ones change nothing."""

import asyncio
from pathlib import Path

import pytest

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    KubernetesError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from flamectl_operator.process.live_settings import RELOAD_INTERVAL, LiveConfig
from flamectl_operator.process.settings_sources import CONFIG_MAP, KEY, ConfigMapSource, FileSource
from flamectl_operator.settings.layers import Layer, SettingsError, environment_layer, layer_of
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import NOW
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock
from tests.unit.subreconcilers.harness import Recorded
from tests.unit.support import Log

NAMESPACE = "flamectl-system"
FORBIDDEN = ForbiddenError(403, "Forbidden", "you may not")


class Setup:
    """A ConfigMap with edits, and the reported changes."""

    def __init__(self, *overrides: Layer) -> None:
        self.clock = ManualClock(NOW)
        self.api = FakeApi(self.clock)
        self.events = Recorded(self.api, self.clock)
        self.live = LiveConfig(ConfigMapSource(self.api, NAMESPACE), overrides, self.clock)
        self.live._record_event = self.events.event
        self.told: list[OperatorConfig] = []
        self.live.subscribe(self.told.append)

    def edit(self, text: str) -> None:
        found = self.api.find("configmaps", CONFIG_MAP, NAMESPACE) or {
            "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}
        }
        self.api.put("configmaps", found | {"data": {KEY: text}})

    async def begin(self, text: str = "") -> None:
        self.edit(text)
        await self.live.load()

    async def change(self, text: str) -> None:
        self.edit(text)
        await self.live.reload()


pytestmark = pytest.mark.usefixtures("log")


# --- The start ---------------------------------------------------------------------------------------------------------


async def test_overrides_take_precedence_over_the_source() -> None:
    environment = environment_layer({"FLAMECTL_CONFIG_CONTROLLER_WORKERS": "4"})
    setup = Setup(environment, layer_of("command line", {"logging.level": ("option --log-level", "error")}))
    await setup.begin("controller: {workers: 3, resyncSeconds: 5}\nlogging: {level: debug}")

    config = setup.live.config
    assert (config.controller.workers, config.controller.resync_seconds, config.logging.level) == (4, 5, "error")
    assert setup.live.started.origins["controller.resyncSeconds"] == f"ConfigMap {NAMESPACE}/{CONFIG_MAP}"
    assert setup.live.started.config is config
    assert (setup.live.last_error, setup.live.restart_needed) == ("", ())


async def test_missing_config_map_is_created_and_the_defaults_apply() -> None:
    setup = Setup()
    await setup.live.load()

    assert setup.live.config == OperatorConfig()
    assert setup.live.last_error == ""
    assert setup.api.find("configmaps", CONFIG_MAP, NAMESPACE) is not None


async def test_foreign_config_map_is_reported_and_the_defaults_apply(log: Log) -> None:
    setup = Setup()
    setup.api.put("configmaps", {"metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}, "data": {"x": "y"}})
    await setup.live.load()

    assert setup.live.config == OperatorConfig()
    assert "has no key config.yaml" in setup.live.last_error
    assert [line["log_level"] for line in log] == ["warning"]

    # With our key in it, it is ours as well.
    await setup.change("logging: {level: debug}")
    assert setup.live.config.logging.level == "debug"
    assert setup.live.last_error == ""


@pytest.mark.parametrize("text", ["controller: {wrokers: 1}", "a: [", "controller: {workers: 0}"])
async def test_a_bad_document_at_the_start_is_refused(text: str) -> None:
    setup = Setup()
    with pytest.raises(SettingsError, match=f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: "):
        await setup.begin(text)


async def test_unreachable_api_server_at_the_start_is_an_error_that_can_be_retried() -> None:
    setup = Setup()
    setup.api.fail("get", "configmaps", ConnectionFailedError("refused"))
    with pytest.raises(ConnectionFailedError):
        await setup.begin("controller: {workers: 3}")

    await setup.live.load()
    assert setup.live.config.controller.workers == 3


# --- A good edit -------------------------------------------------------------------------------------------------------


async def test_edit_takes_effect_and_is_reported(log: Log) -> None:
    setup = Setup()
    await setup.begin()
    await setup.change("flame: {initImage: x}\nlogging: {level: debug}")

    config = setup.live.config
    assert (config.flame.init_image, config.logging.level) == ("x", "debug")
    assert setup.told == [config]
    assert setup.events.told == [
        ("Normal", "ConfigurationChanged", "The operator applied changed settings: flame.initImage, logging.level")
    ]
    assert [line["event"] for line in log] == ["settings changed"]


async def test_setting_that_needs_a_restart_is_reported_once(log: Log) -> None:
    setup = Setup()
    await setup.begin()
    await setup.change("controller: {workers: 3, namespaces: [a]}")

    assert setup.live.config == OperatorConfig()
    assert setup.told == []
    assert setup.live.restart_needed == ("controller.namespaces", "controller.workers")
    for _ in range(3):
        await setup.change("controller: {workers: 4, namespaces: [a]}")
    assert setup.events.told == [
        (
            "Normal",
            "RestartNeeded",
            "These settings take effect after a restart of the operator: controller.namespaces, controller.workers",
        )
    ]
    assert [line["log_level"] for line in log] == ["warning"]


async def test_reverted_setting_needs_no_restart() -> None:
    setup = Setup()
    await setup.begin("controller: {workers: 5}")
    await setup.change("controller: {workers: 3}")
    await setup.change("controller: {workers: 5}")

    assert setup.live.restart_needed == ()


# --- A bad edit --------------------------------------------------------------------------------------------------------

BAD = [
    pytest.param("flame: {clusterDomain: ''}", "flame.clusterDomain: ", id="a bad value"),
    pytest.param("flame: {initImagee: x}", "flame.initImagee: no such setting", id="an unknown setting"),
    pytest.param("flame: [", "not YAML: ", id="not YAML"),
    pytest.param("leaderElection: {retryPeriodSeconds: 10}", "leaderElection.retryPeriodSeconds: ", id="a conflict"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
async def test_a_bad_edit_changes_nothing_and_is_reported_once(text: str, words: str, log: Log) -> None:
    setup = Setup()
    await setup.begin("flame: {initImage: good}\ncontroller: {maxCreatesPerPass: 5}")
    for _ in range(3):
        await setup.change(text)

    assert setup.live.config.flame.init_image == "good"
    assert setup.live.config.controller.max_creates_per_pass == 5
    assert setup.told == []
    assert setup.live.last_error.startswith(f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: {words}")
    ((kind, reason, message),) = setup.events.told
    assert (kind, reason) == ("Warning", "ConfigurationInvalid")
    assert message == f"{setup.live.last_error}. The previous settings stay in force"
    assert [(line["log_level"], line["error"]) for line in log] == [("error", setup.live.last_error)]


async def test_corrected_error_is_cleared() -> None:
    setup = Setup()
    await setup.begin("flame: {initImage: one}")
    await setup.change("a: [")
    await setup.change("flame: {initImage: two}")
    assert (setup.live.last_error, setup.live.config.flame.init_image) == ("", "two")

    await setup.change("a: [")
    assert setup.live.last_error
    await setup.change("flame: {initImage: two}")
    assert setup.live.last_error == ""
    assert setup.events.reasons == ["ConfigurationInvalid", "ConfigurationChanged", "ConfigurationInvalid"]


async def test_error_does_not_hide_a_needed_restart() -> None:
    setup = Setup()
    await setup.begin()
    await setup.change("controller: {workers: 3}")
    await setup.change("a: [")

    assert setup.live.restart_needed == ("controller.workers",)


async def test_deleted_config_map_keeps_the_settings_and_is_not_recreated() -> None:
    setup = Setup()
    await setup.begin("flame: {initImage: x}")
    setup.api.remove("configmaps", CONFIG_MAP, NAMESPACE)
    await setup.live.reload()

    assert setup.live.config.flame.init_image == "x"
    assert setup.live.last_error.endswith("does not exist")
    assert setup.events.reasons == ["ConfigurationInvalid"]
    assert setup.api.writes == [], "who deleted it may be about to make it anew"

    await setup.change("flame: {initImage: x}")
    assert setup.live.last_error == ""


@pytest.mark.parametrize(
    "error",
    [ConnectionFailedError("refused"), ConnectionLostError("reset"), ServerError(503), TooManyRequestsError(429)],
    ids=lambda error: type(error).__name__,
)
async def test_transient_error_is_not_reported(error: KubernetesError) -> None:
    setup = Setup()
    await setup.begin("flame: {initImage: one}")
    setup.api.fail("get", "configmaps", error)
    await setup.change("flame: {initImage: two}")
    assert (setup.live.config.flame.init_image, setup.live.last_error, setup.events.told) == ("one", "", [])

    await setup.live.reload()
    assert setup.live.config.flame.init_image == "two"


@pytest.mark.parametrize("error", [FORBIDDEN, UnauthorizedError(401, "Unauthorized", "who?")])
async def test_lost_read_permission_is_reported(error: KubernetesError) -> None:
    setup = Setup()
    await setup.begin("flame: {initImage: x}")
    setup.api.fail("get", "configmaps", error)
    await setup.live.reload()
    assert setup.live.last_error == f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: cannot be read: {error}"
    assert setup.live.config.flame.init_image == "x"

    await setup.live.reload()
    assert setup.live.last_error == ""


async def test_file_is_reloaded(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("flame: {initImage: one}")
    clock = ManualClock(NOW)
    live = LiveConfig(FileSource(file), (), clock)
    events = Recorded(FakeApi(clock), clock)
    live._record_event = events.event
    await live.load()

    file.write_text("flame: {initImage: two}")
    await live.reload()
    assert live.config.flame.init_image == "two"

    file.unlink()
    await live.reload()
    assert live.last_error == f"{file}: No such file or directory"
    assert live.config.flame.init_image == "two"
    assert events.told == [], "a file is no object that events could be about"


# --- Again and again ---------------------------------------------------------------------------------------------------


def test_source_is_reloaded_periodically_with_events() -> None:
    async def main() -> None:
        clock = VirtualClock()
        setup = Setup()
        setup.live._clock = clock
        await setup.begin()
        events = Recorded(setup.api, setup.clock)
        running = asyncio.create_task(setup.live.run(events.event))
        await asyncio.sleep(1)
        setup.edit("flame: {initImage: one}")
        await asyncio.sleep(RELOAD_INTERVAL)
        assert setup.live.config.flame.init_image == "one"
        setup.edit("a: [")
        await asyncio.sleep(10 * RELOAD_INTERVAL)
        assert setup.live.config.flame.init_image == "one"
        assert events.reasons == ["ConfigurationChanged", "ConfigurationInvalid"]
        assert set(clock.sleeps) == {RELOAD_INTERVAL}
        running.cancel()
        await asyncio.wait([running])

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
