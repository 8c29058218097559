"""Several works of one step: an error of one does not prevent the others, and the step raises one error in the end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import Outcome

Failure = RefusedError | KubernetesError


async def collect(*works: Callable[[], Awaitable[Outcome]], earlier: Exception | None = None) -> list[Outcome]:
    """Do things one after the other; an error, also an earlier one, prevents none of them, and is raised in the end."""
    outcomes: list[Outcome] = []
    errors = [] if earlier is None else [earlier]
    for work in works:
        try:
            outcomes.append(await work())
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
    if errors:
        raise primary_error(errors)
    return outcomes


async def collect_in_parallel(*works: Callable[[], Awaitable[Outcome]]) -> tuple[list[Outcome], list[Failure]]:
    """Do several independent things in parallel; return the outcomes of those that did not fail, and the errors."""
    outcomes: list[Outcome] = []
    errors: list[Failure] = []
    for result in await asyncio.gather(*(work() for work in works), return_exceptions=True):
        if isinstance(result, (RefusedError, KubernetesError)):
            errors.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            outcomes.append(result)
    return outcomes, errors


def primary_error(errors: Sequence[Exception]) -> Exception:
    """Return the error that a step with several errors raises: the first refusal, which users must see, else the first error."""
    return next((error for error in errors if isinstance(error, RefusedError)), errors[0])
