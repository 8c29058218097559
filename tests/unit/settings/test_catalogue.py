"""Settings that change while the operator runs."""

from typing import Any

import pytest
from hypothesis import given

from flamectl_operator.settings.catalogue import Setting, catalogue, changed, in_force, restart_needed, values
from flamectl_operator.settings.layers import layer_of, merge
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.settings.values import other, said

SETTINGS = [pytest.param(setting, id=path) for path, setting in catalogue().items()]


def _config(settings: dict[str, Any]) -> OperatorConfig:
    return merge([layer_of("", {path: ("", value) for path, value in settings.items()})]).config


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_takes_effect_or_a_restart(setting: Setting) -> None:
    started, wanted = OperatorConfig(), _config({setting.path: other(setting)})

    assert changed(started, wanted) == (setting.path,)
    assert in_force(started, wanted) == (wanted if setting.live else started)
    assert restart_needed(started, wanted) == (() if setting.live else (setting.path,))


@given(said(), said())
def test_settings_in_force_are_the_wanted_ones_except_those_that_need_a_restart(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    started, wanted = _config(before), _config(after)
    config = in_force(started, wanted)

    for path, value in values(config).items():
        assert value == values(wanted if catalogue()[path].live else started)[path]
    assert restart_needed(started, wanted) == changed(config, wanted)
    # Put right again, everything is as it was.
    assert in_force(started, started) == started
    assert changed(started, started) == restart_needed(started, started) == ()


def test_settings_read_at_the_start_need_a_restart() -> None:
    assert {path for path, setting in catalogue().items() if not setting.live} == {
        "leaderElection.leaderElect",
        "leaderElection.leaseDurationSeconds",
        "leaderElection.renewDeadlineSeconds",
        "leaderElection.retryPeriodSeconds",
        "leaderElection.resourceName",
        "leaderElection.resourceNamespace",
        "controller.namespaces",
        "controller.workers",
        "controller.lockIdentity",
        "logging.format",
        "metrics.bindAddress",
        "health.bindAddress",
        "health.stuckAfterSeconds",
    }
