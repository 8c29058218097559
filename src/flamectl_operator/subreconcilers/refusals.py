"""What the API server will not have, and how the errors of a step that does several things become one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.kube.errors import BadRequestError, ForbiddenError, InvalidError, KubernetesError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from flamectl_operator.kube.errors import ApiError
    from flamectl_operator.runtime.outcome import Outcome

#: Answers that do not change by themselves.
REFUSALS = (ForbiddenError, InvalidError, BadRequestError)

#: The reason of a refusal for want of room in a ResourceQuota.
QUOTA_EXCEEDED = "QuotaExceeded"


class RefusedError(Exception):
    """The API server refuses a write that will not succeed until somebody changes something.

    Args:
        reason: One CamelCase word for the `Degraded` condition.
        message: The server's own words.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: ApiError) -> RefusedError:
        """From the API server's answer."""
        if isinstance(error, ForbiddenError):
            return cls(QUOTA_EXCEEDED if error.quota else "Forbidden", str(error))
        return cls("Rejected", str(error))


Failure = RefusedError | KubernetesError


async def collect(*works: Callable[[], Awaitable[Outcome]]) -> tuple[list[Outcome], list[Failure]]:
    """Does several things one after the other, each whatever became of those before it.

    Returns:
        How those that did not fail ended, and the errors of the others.
    """
    outcomes: list[Outcome] = []
    errors: list[Failure] = []
    for work in works:
        try:
            outcomes.append(await work())
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
    return outcomes, errors


def foremost(errors: Sequence[Exception]) -> Exception:
    """The one of several errors that a step ends in: the first refusal, which somebody has to be told of, else the first."""
    return next((error for error in errors if isinstance(error, RefusedError)), errors[0])
