"""Lines print each change once."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.demo.objects import (
    NOTHING,
    cluster,
    event,
    executor,
    healthy,
    manager,
    scene,
    seen,
)
from tools.demo.lines import news, timed
from tools.demo.scene import Act


def test_chapter_is_printed_line_by_line() -> None:
    scenes = (
        scene(NOTHING, Act.ANNOUNCED),
        scene(NOTHING),
        scene(
            seen(
                manager(),
                executor(0, phase="Pending", ready=False),
                cluster=cluster(1, state="Pending", message="0 of 1 executors ready", executorManager={"ready": 0}),
                events=(event("Created 1 executor", 5),),
            )
        ),
        scene(healthy(0)),
        scene(healthy(0), Act.DONE, took=1.25),
    )
    lines = [line for last, now in zip((None, *scenes), scenes, strict=False) for line in news(last, now)]
    assert lines == [
        "Chapter 2 of 8: It is scaled",
        "  $ kubectl scale",
        "  event    ExecutorsCreated: Created 1 executor",
        "  pods     1 ready, 1 pending",
        "  objects  2 Services, 1 ConfigMap",
        "  cluster  Pending, 0/1 executors: 0 of 1 executors ready",
        "  pods     2 ready",
        "  cluster  Running, 1/1 executors: All components healthy",
        "  done in 1.2 s: 8 executors are ready",
    ]


def test_unchanged_scene_prints_nothing() -> None:
    now = scene(healthy(0, 1), clock=8.0)
    assert list(news(now, replace(now, clock=8.2, took=0.2))) == []


def test_long_line_is_wrapped_between_words() -> None:
    message = (
        "  event    InvalidSpec: " + "spec.executorManager.podTemplate.spec.containers[0].volumMounts is unknown; " * 3
    )
    lines = timed(7.3, message).splitlines()
    assert len(lines) > 1
    assert max(len(line) for line in lines) <= 80
    assert lines[1].startswith(" " * 15)
    assert " ".join(" ".join(lines).split()) == f"7.3s {' '.join(message.split())}"
