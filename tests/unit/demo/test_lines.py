"""Lines tell what has changed, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.demo.objects import (
    CHILDREN,
    NOTHING,
    SCENE,
    cluster,
    event,
    executor,
    healthy,
    manager,
    scene,
    seen,
)
from tools.demo.lines import Lines, news, timed
from tools.demo.scene import Act
from tools.demo.story import chapters


def test_a_chapter_is_told_line_by_line() -> None:
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


def test_what_stays_as_it_is_is_not_told_again() -> None:
    now = scene(healthy(0, 1), clock=8.0)
    assert list(news(now, replace(now, clock=8.2, took=0.2))) == []


def test_what_goes_is_told() -> None:
    assert list(news(scene(healthy(0)), scene(NOTHING))) == [
        "  pods     none",
        "  objects  none",
        "  cluster  none",
    ]


def test_an_event_that_comes_again_is_told_again() -> None:
    once, twice = (seen(events=(event("Ready", count, count=count),), others=CHILDREN) for count in (1, 2))
    assert list(news(scene(once), scene(twice))) == ["  event    ExecutorsCreated: Ready"]


def test_pods_on_their_way_out_are_told_as_such() -> None:
    (line,) = news(scene(NOTHING), scene(seen(executor(0, terminating=True), others=())))
    assert line == "  pods     1 terminating"


def test_notes_are_told_once() -> None:
    last, first = scene(NOTHING, Act.DONE), scene(NOTHING, Act.DONE, number=0, notes=("Until Ctrl-C:", "kubectl get"))
    assert list(news(last, first)) == ["Until Ctrl-C:", "kubectl get"]
    assert list(news(first, first)) == []


def test_each_line_has_its_time_and_no_escape_codes() -> None:
    written: list[str] = []
    Lines(written.append).show(SCENE)
    assert written == ["   7.3s  Chapter 2 of 8: It is scaled"]


def test_a_long_line_is_continued_below_without_a_broken_word() -> None:
    message = (
        "  event    InvalidSpec: " + "spec.executorManager.podTemplate.spec.containers[0].volumMounts is unknown; " * 3
    )
    lines = timed(7.3, message).splitlines()
    assert len(lines) > 1
    assert max(len(line) for line in lines) <= 80
    assert lines[1].startswith(" " * 15)
    assert " ".join(" ".join(lines).split()) == f"7.3s {' '.join(message.split())}"


def test_each_chapter_has_its_title_on_one_line() -> None:
    for number, chapter in enumerate(chapters(), start=1):
        assert "\n" not in timed(100.0, f"Chapter {number} of {len(chapters())}: {chapter.title}")
