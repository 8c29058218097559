"""The wait for the prerequisites of the operator."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from flamectl_operator.kube.client import Page
from flamectl_operator.kube.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    ServerError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.kube.resources import Resource
from flamectl_operator.process import startup as startup_module
from flamectl_operator.process.startup import RETRY_LIMIT, StartUp, Step, access_checks
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.settings.layers import SettingsError
from tests.unit.builders import NOW
from tests.unit.subreconcilers.errors import broken
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock
from tests.unit.support import Log

NO_CRD = NotFoundError(404, "NotFound", "nope")
REFUSED = ConnectionFailedError("refused")


class Clock(ManualClock):
    """Remembers how long it let pass."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await super().sleep(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def startup(log: Log, clock: Clock) -> StartUp:
    return StartUp(clock, Random(1))


def failing(*errors: Exception) -> Step:
    """A step that fails so, and then succeeds."""
    left = list(errors)

    async def step() -> None:
        if left:
            raise left.pop(0)

    return step


def said(log: Log) -> list[str]:
    return [line["waiting_for"] for line in log if line["log_level"] == "warning"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(NO_CRD, "flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -", id="no CRD"),
        pytest.param(UnauthorizedError(401, "Unauthorized", "nope"), "does not accept the credentials: nope", id="401"),
        pytest.param(ForbiddenError(403, "Forbidden", "nope"), "config/rbac are missing: nope", id="403"),
        pytest.param(REFUSED, "cannot talk to the API server: refused", id="no connection"),
        pytest.param(ConnectionLostError("lost"), "cannot talk to the API server: lost", id="connection lost"),
        pytest.param(ServerError(503, message="not yet"), "cannot talk to the API server: not yet", id="503"),
        pytest.param(
            UntrustedServerError("who?"), "does not trust the certificate of the API server", id="certificate"
        ),
        pytest.param(TimeoutError(), "no answer in 15 s", id="no answer"),
    ],
)
async def test_missing_prerequisite_is_reported_with_its_remedy(
    startup: StartUp, log: Log, error: Exception, words: str
) -> None:
    await startup.run(failing(error, error, error))

    [line] = said(log)
    assert words in line
    assert log[-1]["event"] == "the prerequisite is met"


async def test_each_cause_is_logged_once(startup: StartUp, log: Log) -> None:
    timed_out = ConnectionFailedError("timed out")
    await startup.run(failing(REFUSED, timed_out, REFUSED, NO_CRD, NO_CRD), failing(NO_CRD))

    assert [line.split(" ")[0] for line in said(log)] == ["cannot", "the", "the"]


async def test_attempts_become_rarer_and_never_stop(startup: StartUp, clock: Clock) -> None:
    await startup.run(failing(*[REFUSED] * 20))

    assert all(1 <= later / earlier <= 3 for earlier, later in pairwise(clock.sleeps[:4]))
    assert all(RETRY_LIMIT <= pause <= RETRY_LIMIT * 1.5 for pause in clock.sleeps[5:])


async def test_hanging_attempt_times_out(startup: StartUp, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_module, "ATTEMPT_TIMEOUT", 0.01)
    attempts = 0

    async def step() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.Event().wait()

    await startup.run(step)

    assert said(log) == ["cannot talk to the API server: no answer in 0 s"]


@pytest.mark.parametrize("error", [ConfigurationError("no such file"), SettingsError("controller.workers: bad")])
async def test_configuration_error_is_raised_at_once(startup: StartUp, error: Exception) -> None:
    with pytest.raises(type(error)):
        await startup.run(failing(error))


async def test_steps_run_in_order_and_successful_ones_are_not_repeated(startup: StartUp) -> None:
    taken: list[str] = []

    async def first() -> None:
        taken.append("first")

    async def second() -> None:
        taken.append("second")
        if len(taken) < 4:
            raise REFUSED

    await startup.run(first, second)

    assert taken == ["first", "second", "second", "second"]


async def _refusals(steps: list[Step]) -> list[str]:
    refused = []
    for step in steps:
        try:
            await step()
        except KubernetesError as error:
            refused.append(str(error))
    return refused


@pytest.mark.parametrize("namespaces", [[], ["a"]], ids=["all", "one"])
async def test_access_is_checked_for_every_resource(namespaces: list[str]) -> None:
    api = FakeApi(ManualClock(NOW))
    steps = access_checks(api, namespaces)
    assert len(steps) == 6

    api.fail("list", FLAME_CLUSTERS.plural, ForbiddenError(403, "Forbidden", "not in a"), times=1)
    assert await _refusals(steps) == ["not in a"]


@pytest.mark.parametrize(("refusals", "words"), [(1, []), (2, ["not in there"])], ids=["one refuses", "all refuse"])
async def test_access_to_at_least_one_namespace_is_required(refusals: int, words: list[str]) -> None:
    api = FakeApi(ManualClock(NOW))
    api.fail("list", "pods", ForbiddenError(403, "Forbidden", "not in there"), times=refusals)

    assert await _refusals(access_checks(api, ["a", "b"])) == words


async def test_access_to_the_first_allowed_namespace_is_enough() -> None:
    """All questions together have the time of one attempt."""
    api = FakeApi(ManualClock(NOW))
    asked: list[str | None] = []
    original = api.list_page

    async def list_page(resource: Resource[Any], namespace: str | None = None, **options: Any) -> Page[Any]:
        asked.append(namespace)
        return await original(resource, namespace, **options)

    api.list_page = list_page  # type: ignore[method-assign]
    api.fail("list", "services", ForbiddenError(403, "Forbidden", "not in a"))

    assert await _refusals(access_checks(api, ["a", "b", "c"])) == []
    assert set(asked) == {"a", "b"}


async def test_server_error_is_not_a_refusal() -> None:
    api = FakeApi(ManualClock(NOW))
    api.fail("list", "services", broken())

    assert await _refusals(access_checks(api, ["a", "b"])) == [str(broken())]
