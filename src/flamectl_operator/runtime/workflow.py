"""The workflow algebra: actions composed into one value, which a controller runs and documentation is generated from.

The design follows ctrlkit's RFC. An action returns an outcome or raises an error. A workflow joins the results by four rules:

- all errors and all waits are kept, in the order of the actions;
- the shortest delay wins;
- an interruption (an outcome of kind STOP) is never lost;
- a nested workflow equals its flattening.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from flamectl_operator.runtime.outcome import NOTHING, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flamectl_operator.runtime.outcome import Outcome

S = TypeVar("S")


class Action(ABC, Generic[S]):
    """A unit of work that an author names, describes and implements.

    Args:
        name: CamelCase, as logs, metrics and documentation call it.
        summary: One sentence on what the action is responsible for.
        reads: The objects that the action reads, for documentation.
        writes: The objects that the action changes, for documentation. A controller may also conclude from `writes` whether an
            action changes anything.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    async def run(self, subject: S, /) -> Outcome:
        """Do the work.

        Args:
            subject: The object that the workflow runs on.

        Returns:
            DONE, a wait, or a stop.
        """


class Hooks(Generic[S]):
    """Called around each action; this one does nothing. Logs, metrics and progress override the methods."""

    def before(self, action: Action[S], subject: S) -> None:
        """Prepare for an action that is about to run."""

    def after(self, action: Action[S], subject: S, result: Result) -> None:
        """Handle the result of an action that has run."""


class Workflow(ABC, Generic[S]):
    """A node of the tree. Leaves are actions."""

    #: The workflows that this one is composed of.
    children: tuple[Workflow[S], ...] = ()

    @abstractmethod
    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the workflow.

        Args:
            subject: The object that the workflow runs on; each action receives it.
            hooks: Called around each action.

        Returns:
            The joined results of all actions that ran. An exception of an action becomes an error of the result; only
            cancellation passes through.
        """

    def actions(self) -> Iterator[Action[S]]:
        """Iterate over all actions, in the order of the tree."""
        for child in self.children:
            yield from child.actions()


Node = Workflow[S] | Action[S]


@dataclass(frozen=True)
class _Leaf(Workflow[S]):
    """An action as a workflow."""

    action: Action[S]

    def actions(self) -> Iterator[Action[S]]:
        yield self.action

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        hooks.before(self.action, subject)
        try:
            outcome = await self.action.run(subject)
        except Exception as error:  # noqa: BLE001 - the caller gets every error in the result
            result = Result(errors=(error,))
        else:
            result = NOTHING if outcome.kind is Kind.DONE else Result(outcomes=(outcome,))
        hooks.after(self.action, subject, result)
        return result


class _Composite(Workflow[S]):
    """A workflow with several children; nodes of the same class are flattened."""

    def __init__(self, *nodes: Node[S]) -> None:
        flat: list[Workflow[S]] = []
        for node in map(_workflow, nodes):
            flat += node.children if type(node) is type(self) else (node,)
        self.children = tuple(flat)


class Sequential(_Composite[S]):
    """Run the children one after the other; an error or an interruption ends the sequence."""

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the children until one fails or interrupts."""
        result = NOTHING
        for child in self.children:
            result = result.join(await child.run(subject, hooks))
            if result.errors or result.interrupted:
                break
        return result


class InOrder(_Composite[S]):
    """Run all children one after the other; an error of one does not stop the others."""

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all children, one after the other."""
        result = NOTHING
        for child in self.children:
            result = result.join(await child.run(subject, hooks))
        return result


class Join(_Composite[S]):
    """Run all children in parallel; the result is that of `InOrder`."""

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all children at the same time."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child.run(subject, hooks)) for child in self.children]
        result = NOTHING
        for task in tasks:
            result = result.join(task.result())
        return result


class If(Workflow[S]):
    """Run a workflow only when a condition holds.

    Args:
        label: The condition in words.
        condition: Evaluated right before the workflow would run.
        then: The workflow.
    """

    def __init__(self, label: str, condition: Callable[[S], bool], then: Node[S]) -> None:
        self.label = label
        self._condition = condition
        self.then: Workflow[S] = _workflow(then)
        self.children = (self.then,)

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the workflow if the condition holds now."""
        return await self.then.run(subject, hooks) if self._condition(subject) else NOTHING


class Timeout(Workflow[S]):
    """Abort a workflow that takes longer than a limit; the timeout becomes an error of the result.

    Args:
        seconds: The limit.
        then: The workflow.
    """

    def __init__(self, seconds: float, then: Node[S]) -> None:
        self.seconds = seconds
        self.then: Workflow[S] = _workflow(then)
        self.children = (self.then,)

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the workflow, and abort it at the limit."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self.then.run(subject, hooks)
        except TimeoutError as error:
            return Result(errors=(error,))


class Always(Workflow[S]):
    """Run a closing workflow after a body, even if the body failed.

    Args:
        body: Runs first.
        closing: Runs after the body ended, failed or was interrupted, but not after a cancellation.
    """

    def __init__(self, body: Node[S], closing: Node[S]) -> None:
        self.body: Workflow[S] = _workflow(body)
        self.closing: Workflow[S] = _workflow(closing)
        self.children = (self.body, self.closing)

    async def run(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the body, then the closing workflow."""
        result = await self.body.run(subject, hooks)
        return result.join(await self.closing.run(subject, hooks))


def _workflow(node: Node[S]) -> Workflow[S]:
    return node if isinstance(node, Workflow) else _Leaf(node)
