"""The workflow algebra: actions composed into one value, which a controller runs and documentation is generated from.

The design follows ctrlkit's RFC. An action returns an outcome or raises an error. A workflow joins the results by four rules:

- all errors and all waits are kept, in the order of the actions;
- the shortest delay wins;
- an interruption (an outcome of kind STOP) is never lost;
- a nested workflow equals its flattening.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar, Generic, TypeVar

from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.outcome import NOTHING, Kind, Outcome, Result
from flamectl_operator.runtime.turns import side_by_side

S = TypeVar("S")


class Hooks(Generic[S]):
    """Called around stages and actions; this one does nothing. Logs, metrics and progress override the methods."""

    def enter(self, stage: "Stage[S]") -> None:
        """Prepare for a stage that is about to run."""

    def leave(self, stage: "Stage[S]") -> None:
        """Clean up after a stage that has run or was cancelled."""

    def skipped(self, workflow: "Workflow[S]", why: str) -> None:
        """Handle a workflow that does not run."""

    def before(self, action: "Action[S]", subject: S) -> None:
        """Prepare for an action that is about to run."""

    def after(self, action: "Action[S]", subject: S, result: Result) -> None:
        """Handle the result of an action that has run."""

    def branch(self) -> "Hooks[S]":
        """Return the hooks of a workflow that runs beside others."""
        return self


class Workflow(ABC, Generic[S]):
    """A node of the tree. Leaves are actions."""

    nodes: "tuple[Workflow[S], ...]" = ()

    @abstractmethod
    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all actions and return the joined results. An action's exception is an error there; cancellation is raised."""

    def actions(self) -> "Iterator[Action[S]]":
        """Iterate over all actions, in the order of the tree."""
        for node in self.nodes:
            yield from node.actions()

    def stages(self) -> "Iterator[Stage[S]]":
        """Iterate over all stages, in the order of the tree."""
        for node in self.nodes:
            yield from node.stages()


class Action(Workflow[S]):
    """A unit of work that an author names, describes and implements."""

    #: CamelCase, as logs, metrics and documentation call it; the name of the class unless the class says otherwise.
    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Name the action after its class."""
        cls.name = cls.__dict__.get("name", cls.__name__)

    @property
    def summary(self) -> str:
        """The responsibility of the action: the first paragraph of the docstring."""
        return " ".join(inspect.cleandoc(type(self).__doc__ or "").partition("\n\n")[0].split())

    @abstractmethod
    async def run(self, subject: S, /) -> Outcome:
        """Do the work, and return DONE, a wait, or a stop."""

    def actions(self) -> "Iterator[Action[S]]":
        """Iterate over this action."""
        yield self

    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the action between its hooks."""
        hooks.before(self, subject)
        try:
            outcome = await self.run(subject)
        except Exception as error:  # noqa: BLE001 - the caller gets every error in the result
            result = Result(errors=(error,))
        else:
            result = NOTHING if outcome.kind is Kind.DONE else Result(outcomes=(outcome,))
        hooks.after(self, subject, result)
        return result


@dataclass(frozen=True)
class Place:
    """The place of an action, as logs and metrics name it; the stage's own has no part, and many stages have no phase."""

    subreconciler: str
    part: str = ""
    phase: str = ""

    @cached_property
    def title(self) -> str:
        """All names in one text."""
        return " ".join(self.labels.values())

    @cached_property
    def labels(self) -> dict[str, str]:
        """The fields that are not empty, by name."""
        found = {"subreconciler": self.subreconciler, "part": self.part, "phase": self.phase}
        return {key: value for key, value in found.items() if value}


class InOrder(Workflow[S]):
    """Run all nodes one after the other; an error of one does not stop the others. Another `InOrder` in it is flattened."""

    def __init__(self, *nodes: Workflow[S]) -> None:
        flat: list[Workflow[S]] = []
        for node in nodes:
            flat += node.nodes if isinstance(node, InOrder) else (node,)
        self.nodes = tuple(flat)

    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all nodes, one after the other."""
        result = NOTHING
        for node in self.nodes:
            if (end := await node.execute(subject, hooks)) is not NOTHING:
                result = result.join(end)
        return result


class Stage(Workflow[S]):
    """Several actions under one name, which run one after the other; an error of one does not stop the others.

    Args:
        name: CamelCase, as logs, metrics and documentation call it. An action of the same name is the stage's own.
        phase: Tells two stages with the same name apart; empty for others.
    """

    def __init__(self, name: str, *nodes: Workflow[S], phase: str = "") -> None:
        self.name = name
        self.phase = phase
        self.parts: Workflow[S] = InOrder(*nodes)
        self.nodes = (self.parts,)
        self._places: dict[str, Place] = {}

    @property
    def title(self) -> str:
        """The name with the phase."""
        return f"{self.name} ({self.phase})" if self.phase else self.name

    def place(self, action: Action[S]) -> Place:
        """Return the place of an action of this stage."""
        place = self._places.get(action.name)
        if place is None:
            part = "" if action.name == self.name else action.name
            place = self._places[action.name] = Place(self.name, part, self.phase)
        return place

    def stages(self) -> "Iterator[Stage[S]]":
        """Iterate over this stage."""
        yield self

    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all parts, one after the other."""
        hooks.enter(self)
        try:
            return await self.parts.execute(subject, hooks)
        finally:
            hooks.leave(self)


class If(Workflow[S]):
    """Run a workflow when a condition holds: `why_not`, called right before that, returns why it does not, or nothing."""

    def __init__(self, label: str, why_not: Callable[[S], str], then: Workflow[S]) -> None:
        self.label = label
        self._why_not = why_not
        self.then = then
        self.nodes = (then,)

    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run the workflow if the condition holds now."""
        if why := self._why_not(subject):
            hooks.skipped(self.then, why)
            return NOTHING
        return await self.then.execute(subject, hooks)


class SideBySide(Workflow[S]):
    """Run all nodes at the same time when a condition holds (see `If`), and one after the other when it does not.

    An error of one does not stop the others. Results and reports have the order of the nodes: see `turns.in_turn`.
    """

    def __init__(self, label: str, why_not: Callable[[S], str], *nodes: Workflow[S]) -> None:
        self.label = label
        self._why_not = why_not
        self.nodes = nodes

    async def execute(self, subject: S, hooks: Hooks[S]) -> Result:
        """Run all nodes."""
        if self._why_not(subject):
            results = [await node.execute(subject, hooks) for node in self.nodes]
        else:
            results = await side_by_side(*(partial(node.execute, subject, hooks.branch()) for node in self.nodes))
        return reduce(Result.join, results, NOTHING)
