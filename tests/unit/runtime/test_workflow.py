"""The workflow algebra: its join rules hold as laws."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.runtime.outcome import DONE, NOTHING, Outcome, Result, stop, wait
from flamectl_operator.runtime.workflow import Action, Always, Hooks, If, InOrder, Join, Sequential, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.runtime.workflow import Workflow

Ran = list[str]


class Recorded(Action[Ran]):
    """Appends its name to the subject and ends as told."""

    summary = "Does what a test says."
    reads = ()
    writes = ()

    def __init__(self, name: str, ends: Outcome | Exception = DONE) -> None:
        self.name = name  # type: ignore[misc]
        self._ends = ends

    async def run(self, subject: Ran) -> Outcome:
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
    return ran, await workflow.run(ran, NO_HOOKS)


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


@pytest.mark.parametrize("kind", [Sequential, InOrder, Join])
@given(ends=st.lists(endings, max_size=6), cut=st.integers(0, 6))
def test_a_nested_workflow_equals_its_flattening(
    kind: Callable[..., Workflow[Ran]], ends: list[Outcome | Exception], cut: int
) -> None:
    flat = kind(*_actions(ends))
    actions = _actions(ends)
    nested = kind(kind(*actions[:cut]), kind(kind(*actions[cut:])))

    assert asyncio.run(_run(flat)) == asyncio.run(_run(nested))


@given(st.lists(endings, max_size=6))
def test_a_sequence_ends_at_the_first_error_or_interruption_and_joins_what_ran(ends: list[Outcome | Exception]) -> None:
    ran, result = asyncio.run(_run(Sequential(*_actions(ends))))

    def stops(end: Outcome | Exception) -> bool:
        return isinstance(end, Exception) or end.kind.value == "stop"

    expected = next((number + 1 for number, end in enumerate(ends) if stops(end)), len(ends))
    assert len(ran) == expected
    assert result.errors == tuple(end for end in ends[:expected] if isinstance(end, Exception))


@pytest.mark.parametrize("kind", [InOrder, Join])
@given(ends=st.lists(endings, max_size=6))
def test_all_actions_run_after_errors_and_all_results_are_kept(
    kind: Callable[..., Workflow[Ran]], ends: list[Outcome | Exception]
) -> None:
    ran, result = asyncio.run(_run(kind(*_actions(ends))))

    assert ran == [str(number) for number in range(len(ends))]
    assert result.errors == tuple(end for end in ends if isinstance(end, Exception))
    assert result.outcomes == tuple(end for end in ends if isinstance(end, Outcome) and end is not DONE)


async def test_joined_actions_run_at_the_same_time() -> None:
    together = asyncio.Barrier(2)

    class Meet(Recorded):
        async def run(self, subject: Ran) -> Outcome:
            await together.wait()
            return await super().run(subject)

    async with asyncio.timeout(10):
        ran, _ = await _run(Join(Meet("a"), Meet("b")))

    assert sorted(ran) == ["a", "b"]


@pytest.mark.parametrize(("holds", "ran"), [(True, ["a"]), (False, [])])
async def test_a_conditional_workflow_runs_when_its_condition_holds(holds: bool, ran: Ran) -> None:  # noqa: FBT001
    assert await _run(If("it holds", lambda _subject: holds, Recorded("a"))) == (ran, NOTHING)


async def test_action_over_its_timeout_becomes_an_error() -> None:
    class Endless(Recorded):
        async def run(self, subject: Ran) -> Outcome:
            await super().run(subject)
            await asyncio.Event().wait()
            return DONE

    ran, result = await _run(Timeout(0.01, Endless("a")))

    assert ran == ["a"]
    assert [type(error) for error in result.errors] == [TimeoutError]


@pytest.mark.parametrize("body", [DONE, stop("A", "a", 7), ERROR], ids=["done", "interrupted", "failed"])
async def test_the_closing_workflow_always_runs(body: Outcome | Exception) -> None:
    ran, result = await _run(
        Always(Sequential(Recorded("body", body), Recorded("next")), Recorded("closing", wait("B", "", 9)))
    )

    assert ran[-1] == "closing"
    assert ("next" in ran) == (body is DONE)
    assert result.errors == ((ERROR,) if body is ERROR else ())
    assert result.delay == (7 if isinstance(body, Outcome) and body is not DONE else 9)


async def test_a_cancellation_passes_through_and_nothing_else_runs() -> None:
    class Cancelled(Recorded):
        async def run(self, subject: Ran) -> Outcome:
            await super().run(subject)
            raise asyncio.CancelledError

    ran: Ran = []
    with pytest.raises(asyncio.CancelledError):
        await Always(Cancelled("body"), Recorded("closing")).run(ran, NO_HOOKS)

    assert ran == ["body"]


async def test_hooks_see_each_action_before_and_after_it_runs() -> None:
    class Seen(Hooks[Ran]):
        def before(self, action: Action[Ran], subject: Ran) -> None:
            subject.append(f"before {action.name}")

        def after(self, action: Action[Ran], subject: Ran, result: Result) -> None:
            subject.append(f"after {action.name}: {len(result.errors)} errors")

    ran: Ran = []
    await InOrder(Recorded("a"), Recorded("b", ERROR)).run(ran, Seen())

    assert ran == ["before a", "a", "after a: 0 errors", "before b", "b", "after b: 1 errors"]


def test_a_workflow_lists_its_actions_in_order() -> None:
    workflow: Any = Always(
        Sequential(Recorded("a"), If("x", bool, InOrder(Recorded("b"), Recorded("c")))), Recorded("d")
    )
    assert [action.name for action in workflow.actions()] == ["a", "b", "c", "d"]
