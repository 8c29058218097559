"""Rendered specs are kept, and large specs are rendered outside the event loop."""

import gc
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pytest_mock import MockerFixture

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.rendered_spec import RenderedSpec
from flamectl_operator.kube.views import ObjectMeta
from flamectl_operator.observed.flame_cluster import FlameClusterView, WholeFlameClusterView
from flamectl_operator.reconcile import spec_renderer
from flamectl_operator.reconcile.spec_renderer import MAX_SIZE_IN_LOOP, SpecRenderer
from flamectl_operator.runtime.telemetry import UNMEASURED
from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import OWNER, SETTINGS, flame_cluster, raw_spec, replicas
from tests.unit.support import nested


def _cluster(changes: dict[str, Any] | None = None, generation: int = 1) -> FlameClusterView:
    metadata = ObjectMeta(OWNER.name, OWNER.namespace, OWNER.uid, "1", generation)
    stored = flame_cluster(metadata, raw_spec(changes))
    return WholeFlameClusterView(metadata, msgspec.Raw(msgspec.json.encode(raw_spec(changes))), stored.raw_status)


async def _rendered(
    renderer: SpecRenderer, cluster: FlameClusterView, settings: FlameSettings = SETTINGS, owner: Identity = OWNER
) -> RenderedSpec:
    known = renderer.known(owner.uid, cluster, settings)
    return known or await renderer.render(owner, cluster, settings, UNMEASURED)


async def test_rendered_spec_is_kept_until_settings_change_or_the_flame_cluster_is_deleted() -> None:
    renderer, other = SpecRenderer(), FlameSettings.model_validate({"initImage": "example.com/busybox:1"})
    first = await _rendered(renderer, _cluster())
    assert await _rendered(renderer, _cluster()) is first
    assert (second := await _rendered(renderer, _cluster(), other)) is not first
    renderer.forget(OWNER.uid)
    assert await _rendered(renderer, _cluster(), other) is not second


async def test_new_generation_is_rendered() -> None:
    renderer = SpecRenderer()
    await _rendered(renderer, _cluster())
    rendered = await _rendered(renderer, _cluster(replicas(7), generation=2))
    assert rendered.desired is not None
    assert rendered.desired.group.spec.replicas == 7


async def test_least_recently_used_spec_is_dropped_beyond_the_bound_of_memory(mocker: MockerFixture) -> None:
    renderer, owners = SpecRenderer(), [replace(OWNER, uid=f"uid-{number}") for number in range(3)]
    specs = [await _rendered(renderer, _cluster(), owner=owner) for owner in owners[:2]]
    mocker.patch.object(spec_renderer, "MAX_KEPT", sum(spec.cost for spec in specs))
    assert await _rendered(renderer, _cluster(), owner=owners[0]) is specs[0]

    await _rendered(renderer, _cluster(), owner=owners[2])

    assert await _rendered(renderer, _cluster(), owner=owners[0]) is specs[0]
    assert await _rendered(renderer, _cluster(), owner=owners[1]) is not specs[1]


async def test_rendered_spec_beyond_the_bound_alone_is_kept_until_the_next(mocker: MockerFixture) -> None:
    mocker.patch.object(spec_renderer, "MAX_KEPT", 1)
    renderer = SpecRenderer()
    first = await _rendered(renderer, _cluster())
    assert await _rendered(renderer, _cluster()) is first


def _templates(spec: dict[str, Any]) -> dict[str, Any]:
    return {component: {"podTemplate": {"spec": spec}} for component in ("sessionManager", "executorManager")}


_VARIABLES = [{"name": f"V{number}", "value": "1"} for number in range(256)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="small"),
        pytest.param({"configOverrides": {"x": ["é"] * 4000}}, id="values"),
        pytest.param({"configOverrides": {"x": "é" * 32_000}}, id="text"),
        pytest.param({"configOverrides": {"x": [nested(60)] * 60}}, id="depth"),
        pytest.param({"configOverrides": {f"k{number}": {} for number in range(2000)}}, id="keys of objects"),
        pytest.param({"configOverrides": {f"k{number}": 1 for number in range(4000)}}, id="keys of numbers"),
        pytest.param(_templates({"x": {f"k{number}": {} for number in range(4000)}}), id="keys in templates"),
        pytest.param(_templates({"x": [{}] * 4000}), id="objects in templates"),
        pytest.param({"executorManager": {"env": _VARIABLES}, "sessionManager": {"env": _VARIABLES}}, id="variables"),
    ],
)
async def test_rendered_spec_takes_no_more_memory_than_it_is_counted_for(changes: dict[str, Any]) -> None:
    renderer, cluster = SpecRenderer(), _cluster(changes)
    first = await renderer.render(OWNER, _cluster(changes), SETTINGS, UNMEASURED)
    assert first.desired is not None, first.problem
    tracemalloc.start()
    try:
        await renderer.render(replace(OWNER, uid="another"), cluster, SETTINGS, UNMEASURED)
        gc.collect()
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < first.cost


@pytest.mark.parametrize("size", [0, MAX_SIZE_IN_LOOP], ids=["small", "large"])
async def test_large_spec_is_rendered_outside_the_event_loop(size: int, mocker: MockerFixture) -> None:
    threads: list[threading.Thread] = []

    def spy(raw: Any, name: str) -> Any:
        threads.append(threading.current_thread())
        return parse_spec(raw, name)

    mocker.patch("flamectl_operator.reconcile.spec_renderer.parse_spec", spy)
    await _rendered(SpecRenderer(), _cluster({"configOverrides": {"x": "y" * size}}))
    assert (threads == [threading.main_thread()]) == (size == 0)


async def test_spec_over_the_bound_is_refused_without_decoding(mocker: MockerFixture) -> None:
    parse = mocker.patch("flamectl_operator.reconcile.spec_renderer.parse_spec")
    rendered = await _rendered(SpecRenderer(), _cluster({"configOverrides": {"x": "y" * 300_000}}))
    assert "must have at most 256 KiB" in rendered.problem
    assert parse.call_count == 0
