"""Refusals of the API server, and the joined error of a step that does several things."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from flamectl_operator.kube.errors import BadRequestError, ForbiddenError, InvalidError, KubernetesError
from flamectl_operator.reconcile.limit_range import limit_range_remedy
from flamectl_operator.runtime.outcome import Outcome, blocked
from flamectl_operator.runtime.text import LONGEST_MESSAGE, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from flamectl_operator.desired.pod_template import ComponentTemplate
    from flamectl_operator.kube.errors import ApiError

#: Errors that do not go away by themselves.
REFUSALS = (ForbiddenError, InvalidError, BadRequestError)

#: The reason of a refusal by a ResourceQuota.
QUOTA_EXCEEDED = "QuotaExceeded"

#: The remedy of a refusal, by its reason. The author of the FlameCluster, the administrator of the namespace and that of the
#: operator are each responsible for some of the reasons.
_REMEDIES = {
    QUOTA_EXCEEDED: "raise the quota, or request fewer resources",
    "PodSecurity": "set podTemplate.spec.securityContext of the component, or lower the level of the namespace",
    "PermissionDenied": "an administrator of the operator gives it the permissions of its version",
    "AdmissionDenied": (
        "change the field that the message names; set labels and annotations that a policy demands of each object in"
        " spec.commonLabels and spec.commonAnnotations; or change the policy or the webhook"
    ),
    "Rejected": "correct the field that the message names",
}
#: Remedies of Pods, whose field is known.
_POD_REMEDIES = {
    QUOTA_EXCEEDED: "lower {field}.resources, or raise the quota",
    "PodSecurity": "set {field}.podTemplate.spec.securityContext, or lower the level of the namespace",
}
#: A quota on limits or requests needs them on each container: `must specify limits.cpu for: main; limits.memory for: main`.
_MISSING = re.compile(r"failed quota: [^:]*: must specify (.*)", re.DOTALL)
_FOR_CONTAINERS = re.compile(r"([\w./-]+) for: ([\w.,-]+)")
#: The words before the cause, which the component in front of the message tells already.
_PREAMBLE = re.compile(r"^pods \"[^\"]*\" is forbidden: ")
_ADMISSION = re.compile(r"admission webhook|ValidatingAdmissionPolicy|MutatingAdmissionPolicy|admission plugin")
_PERMISSION = re.compile(r"\bUser \"[^\"]*\" cannot |can't set finalizers on|\(RBAC\)|attempting to grant RBAC")


class RefusedError(Exception):
    """The API server refuses a write that cannot succeed until a person changes something.

    Args:
        reason: One CamelCase word for the `Degraded` condition.
        message: The server's own text and the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: ApiError, template: ComponentTemplate | None = None) -> RefusedError:
        """Return the refusal for an error of the API server.

        Args:
            error: The error.
            template: The template of the Pod that is refused; None for another object.
        """
        words = str(error)
        reason = _reason(error, words)
        remedy = limit_range_remedy(words, template) or (
            _REMEDIES[reason] if template is None else _remedy_of_pod(words, template, reason)
        )
        # The remedy stays whole, because it says what to do.
        room = LONGEST_MESSAGE - len(remedy) - len(" ()")
        cause = words if template is None else template.explain(_PREAMBLE.sub("", words))
        return cls(reason, f"{one_line(cause, room)} ({remedy})")

    @property
    def outcome(self) -> Outcome:
        """The outcome that reports the refusal to users."""
        return blocked(self.reason, str(self))


def _reason(error: ApiError, words: str) -> str:
    if isinstance(error, ForbiddenError) and (error.quota or _MISSING.search(words)):
        return QUOTA_EXCEEDED
    if "violates PodSecurity" in words:
        return "PodSecurity"
    if _ADMISSION.search(words):
        return "AdmissionDenied"
    if isinstance(error, ForbiddenError):
        return "PermissionDenied" if _PERMISSION.search(words) else "AdmissionDenied"
    return "Rejected"


def _remedy_of_pod(words: str, template: ComponentTemplate, why: str) -> str:
    if (missing := _MISSING.search(words)) is not None:
        return f"set {', '.join(_missing(missing[1], template))}"
    return _POD_REMEDIES.get(why, _REMEDIES[why]).format(field=template.field)


def _missing(words: str, template: ComponentTemplate) -> dict[str, None]:
    """Return the fields that a quota misses."""
    found = _FOR_CONTAINERS.findall(words) or [(each, template.component) for each in words.split(",")]
    return {
        f"{template.container_field(container)}.resources.{name.strip()}": None
        for name, containers in found
        for container in containers.split(",")
    }


Failure = RefusedError | KubernetesError


async def collect(*works: Callable[[], Awaitable[Outcome]]) -> list[Outcome]:
    """Do several things one after the other; an error of one does not prevent the others.

    Raises:
        RefusedError: A work was refused.
        KubernetesError: None was refused, and one failed.
    """
    outcomes: list[Outcome] = []
    errors: list[Failure] = []
    for work in works:
        try:
            outcomes.append(await work())
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
    if errors:
        raise primary_error(errors)
    return outcomes


async def collect_in_parallel(*works: Callable[[], Awaitable[Outcome]]) -> tuple[list[Outcome], list[Failure]]:
    """Do several independent things in parallel.

    Returns:
        The outcomes of the works that did not fail, and the errors of the others.
    """
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
