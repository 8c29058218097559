"""The workflow algebra: its join rules hold as laws."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.outcome import DONE, NOTHING, Outcome, Result, stop, wait
from flamectl_operator.runtime.workflow import Action, Hooks, If, InOrder, Place, SideBySide, Stage, Workflow

Ran = list[str]


class Recorded(Action[Ran]):
    """Appends its name to the subject and ends as told."""

    def __init__(self, name: str, ends: Outcome | Exception = DONE) -> None:
        self.name = name  # type: ignore[misc]
        self._ends = ends

    async def run(self, subject: Ran, /) -> Outcome:
        subject.append(self.name)
        await asyncio.sleep(0)
        if isinstance(self._ends, Exception):
            raise self._ends
        return self._ends


NO_HOOKS: Hooks[Ran] = Hooks()
ERROR = ValueError("broken")

endings = st.one_of(
    st.just(DONE),
    st.builds(lambda delay: wait("A", "a", delay), st.one_of(st.none(), st.floats(0, 100))),
    st.builds(lambda delay: stop("B", "b", delay), st.one_of(st.none(), st.floats(0, 100))),
    st.builds(ValueError, st.integers()),
)
results = st.builds(
    Result,
    st.lists(st.builds(ValueError, st.integers()), max_size=3).map(tuple),
    st.lists(st.builds(lambda delay: wait("A", "a", delay), st.one_of(st.none(), st.floats(0, 9))), max_size=3).map(
        tuple
    ),
)


async def _run(workflow: Workflow[Ran]) -> tuple[Ran, Result]:
    ran: Ran = []
    return ran, await workflow.execute(ran, NO_HOOKS)


def _actions(ends: list[Outcome | Exception]) -> list[Recorded]:
    return [Recorded(str(number), end) for number, end in enumerate(ends)]


@given(results, results, results)
def test_joining_is_associative_and_keeps_all_errors_and_the_shortest_delay(a: Result, b: Result, c: Result) -> None:
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(NOTHING) == NOTHING.join(a) == a
    assert a.join(b).errors == a.errors + b.errors
    delays = [each.delay for each in (a, b) if each.delay is not None]
    assert a.join(b).delay == min(delays, default=None)
    assert a.join(b).interrupted == (a.interrupted or b.interrupted)


@given(ends=st.lists(endings, max_size=6), cut=st.integers(0, 6))
def test_a_nested_workflow_equals_its_flattening(ends: list[Outcome | Exception], cut: int) -> None:
    flat = InOrder(*_actions(ends))
    actions = _actions(ends)
    nested = InOrder(InOrder(*actions[:cut]), InOrder(InOrder(*actions[cut:])))

    assert asyncio.run(_run(flat)) == asyncio.run(_run(nested))


def _together(*nodes: Any) -> Workflow[Ran]:
    return SideBySide("they may", lambda _subject: "", *nodes)


KINDS = {
    "in order": InOrder,
    "stage": lambda *actions: Stage("S", *actions),
    "side by side": _together,
    "side by side or not": lambda *actions: SideBySide("they may", lambda _subject: "no", *actions),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@given(ends=st.lists(endings, max_size=6))
def test_all_actions_run_after_errors_and_all_results_are_kept(kind: Any, ends: list[Outcome | Exception]) -> None:
    ran, result = asyncio.run(_run(kind(*_actions(ends))))

    assert ran == [str(number) for number in range(len(ends))]
    assert result.errors == tuple(end for end in ends if isinstance(end, Exception))
    assert result.outcomes == tuple(end for end in ends if isinstance(end, Outcome) and end is not DONE)


@pytest.mark.parametrize(("why_not", "ran"), [("", ["a"]), ("no reason", [])])
async def test_a_conditional_workflow_runs_when_nothing_speaks_against_it(why_not: str, ran: Ran) -> None:
    assert await _run(If("it holds", lambda _subject: why_not, Recorded("a"))) == (ran, NOTHING)


class Meets(Recorded):
    """Begins, and goes on when another action has begun."""

    def __init__(self, name: str, begun: asyncio.Event, other: asyncio.Event, ends: Outcome | Exception = DONE) -> None:
        super().__init__(name, ends)
        self._begun, self._other = begun, other

    async def run(self, subject: Ran, /) -> Outcome:
        self._begun.set()
        await self._other.wait()
        return await super().run(subject)


async def test_workflows_side_by_side_begin_before_the_first_of_them_has_ended() -> None:
    one, two = asyncio.Event(), asyncio.Event()

    ran, result = await _run(
        _together(Meets("a", one, two, wait("A")), InOrder(Recorded("b"), Meets("c", two, one, ERROR)))
    )

    assert sorted(ran) == ["a", "b", "c"]
    assert result == Result((ERROR,), (wait("A"),))


async def test_results_of_workflows_side_by_side_have_the_order_of_the_workflows() -> None:
    slow = InOrder(Recorded("a"), Recorded("a"), Recorded("a", wait("slow")))

    ran, result = await _run(_together(slow, Recorded("b", wait("quick"))))

    assert ran == ["a", "b", "a", "a"]
    assert [outcome.reason for outcome in result.outcomes] == ["slow", "quick"]


async def test_each_workflow_of_several_side_by_side_has_hooks_of_its_own() -> None:
    class Seen(Hooks[Ran]):
        def __init__(self, name: str = "") -> None:
            self._name = name

        def branch(self) -> "Seen":
            ran.append("branch")
            return Seen(str(ran.count("branch")))

        def before(self, action: Action[Ran], subject: Ran) -> None:
            subject.append(f"{self._name}: {action.name}")

    ran: Ran = []
    await _together(Recorded("a"), Recorded("b")).execute(ran, Seen())

    assert ran == ["branch", "branch", "1: a", "a", "2: b", "b"]


async def test_cancellation_ends_workflows_side_by_side_and_waits_for_what_they_do_at_their_end() -> None:
    class Ends(Recorded):
        async def run(self, subject: Ran, /) -> Outcome:
            try:
                await begun.wait()
                await asyncio.sleep(3600)
            finally:
                await super().run(subject)
            return DONE

    ran: Ran = []
    begun = asyncio.Barrier(3)
    running = asyncio.create_task(_together(Ends("a"), Ends("b")).execute(ran, NO_HOOKS))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ran == ["a", "b"]


async def test_hook_that_fails_does_not_cut_off_the_workflow_beside_it() -> None:
    class Broken(Hooks[Ran]):
        def before(self, action: Action[Ran], subject: Ran) -> None:  # noqa: ARG002 - the contract of Hooks
            if action.name == "a":
                raise ERROR

    ran: Ran = []
    with pytest.raises(ValueError, match="broken"):
        await _together(Recorded("a"), InOrder(Recorded("b"), Recorded("c"))).execute(ran, Broken())

    assert ran == ["b", "c"]


async def test_hooks_learn_why_a_workflow_is_skipped() -> None:
    class Skipped(Hooks[Ran]):
        def skipped(self, workflow: Workflow[Ran], why: str) -> None:
            ran.append(f"{[action.name for action in workflow.actions()]}: {why}")

    ran: Ran = []
    await If("it holds", lambda _subject: "no reason", InOrder(Recorded("a"), Recorded("b"))).execute(ran, Skipped())

    assert ran == ["['a', 'b']: no reason"]


@pytest.mark.parametrize("end", [DONE, ERROR, asyncio.CancelledError()], ids=["done", "failed", "cancelled"])
async def test_hooks_enter_and_leave_a_stage_however_it_ends(end: Any) -> None:
    class Seen(Hooks[Ran]):
        def enter(self, stage: Stage[Ran]) -> None:
            ran.append(f"enter {stage.title}")

        def leave(self, stage: Stage[Ran]) -> None:
            ran.append(f"leave {stage.title}")

    class Ends(Recorded):
        async def run(self, subject: Ran, /) -> Outcome:
            if isinstance(end, asyncio.CancelledError):
                raise end
            return await super().run(subject)

    ran: Ran = []
    with suppress(asyncio.CancelledError):
        await Stage("S", Ends("a", end), phase="opening").execute(ran, Seen())

    assert [ran[0], ran[-1]] == ["enter S (opening)", "leave S (opening)"]


def test_action_with_the_name_of_its_stage_is_no_part_of_it() -> None:
    stage = Stage("S", Recorded("S"), Recorded("a"), phase="closing")

    places = [stage.place(action) for action in stage.actions()]

    assert places == [Place("S", "", "closing"), Place("S", "a", "closing")]
    assert [place.labels for place in places] == [
        {"subreconciler": "S", "phase": "closing"},
        {"subreconciler": "S", "part": "a", "phase": "closing"},
    ]


@pytest.mark.parametrize("body", [DONE, stop("A", "a", 7), ERROR], ids=["done", "interrupted", "failed"])
async def test_the_closing_workflow_always_runs(body: Outcome | Exception) -> None:
    ran, result = await _run(InOrder(Recorded("body", body), Recorded("closing", wait("B", "", 9))))

    assert ran == ["body", "closing"]
    assert result.errors == ((ERROR,) if body is ERROR else ())
    assert result.delay == (7 if isinstance(body, Outcome) and body is not DONE else 9)


async def test_a_cancellation_passes_through_and_nothing_else_runs() -> None:
    class Cancelled(Recorded):
        async def run(self, subject: Ran, /) -> Outcome:
            await super().run(subject)
            raise asyncio.CancelledError

    ran: Ran = []
    with pytest.raises(asyncio.CancelledError):
        await InOrder(Cancelled("body"), Recorded("closing")).execute(ran, NO_HOOKS)

    assert ran == ["body"]


async def test_hooks_see_each_action_before_and_after_it_runs() -> None:
    class Seen(Hooks[Ran]):
        def before(self, action: Action[Ran], subject: Ran) -> None:
            subject.append(f"before {action.name}")

        def after(self, action: Action[Ran], subject: Ran, result: Result) -> None:
            subject.append(f"after {action.name}: {len(result.errors)} errors")

    ran: Ran = []
    await InOrder(Recorded("a"), Recorded("b", ERROR)).execute(ran, Seen())

    assert ran == ["before a", "a", "after a: 0 errors", "before b", "b", "after b: 1 errors"]


def test_a_workflow_lists_its_actions_in_order() -> None:
    workflow: Any = InOrder(
        InOrder(Recorded("a"), If("x", str, Stage("S", Recorded("b"), Recorded("c")))), Recorded("d")
    )
    assert [action.name for action in workflow.actions()] == ["a", "b", "c", "d"]
    assert [stage.name for stage in workflow.stages()] == ["S"]


def test_summary_of_an_action_is_the_first_paragraph_of_its_docstring() -> None:
    class Described(Recorded):
        """Do this,
        and that.

        And more.
        """

    assert (Described("a").summary, Described.name) == ("Do this, and that.", "Described")
