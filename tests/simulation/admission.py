"""Admission of writes: strict field validation, webhooks and a quota. No event reports that a refusal has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flamectl_operator.api.quantity import parse_quantity
from flamectl_operator.kube import errors
from tests.simulation.objects import PODS, phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.objects import Obj

#: Fields of a Pod's spec, as far as worlds have them.
POD_SPEC_FIELDS = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "restartPolicy",
        "schedulingGates",
        "securityContext",
        "shareProcessNamespace",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)


@dataclass(frozen=True)
class Denial:
    """A webhook that refuses.

    Args:
        resource: Plural name of what it looks at.
        verb: `create`, `update` or `delete`; empty for all three.
        in_dry_runs: Whether it can be asked in a dry run.
    """

    resource: str
    verb: str
    in_dry_runs: bool


@dataclass
class Admission:
    """The writes that are admitted at the moment.

    Args:
        quota: How many Pods there may be; None for no quota.
        denials: Webhooks that refuse.
    """

    quota: int | None = None
    denials: list[Denial] = field(default_factory=list)

    def refuses(self, verb: str, resource: str) -> bool:
        return any(denial.resource == resource and denial.verb in {"", verb} for denial in self.denials)

    def ask_webhooks(self, verb: str, resource: str, *, dry_run: bool) -> None:
        """Admit or refuse a request.

        Args:
            verb: `create`, `update` or `delete`.
            resource: Plural name.
            dry_run: Whether it is a dry run.

        Raises:
            ForbiddenError: It is refused.
            BadRequestError: It is a dry run, and a webhook knows none.
        """
        for denial in self.denials:
            if denial.resource != resource or denial.verb not in {"", verb}:
                continue
            if dry_run and not denial.in_dry_runs:
                message = 'admission webhook "policy.example.com" does not support dry run'
                raise errors.BadRequestError(400, "BadRequest", message)
            message = 'admission webhook "policy.example.com" denied the request: not now'
            raise errors.ForbiddenError(403, "Forbidden", message)

    def charge(self, pods: Iterable[Obj]) -> None:
        """Admit or refuse one more Pod.

        Raises:
            ForbiddenError: The quota is used up.
        """
        if self.quota is None:
            return
        used = sum(map(charged, pods))
        if used >= self.quota:
            message = f"pods is forbidden: exceeded quota: compute, requested: pods=1, used: pods={used}"
            raise errors.ForbiddenError(403, "Forbidden", message)

    def calm(self) -> None:
        """From now on everything is admitted."""
        self.quota = None
        self.denials.clear()


def charged(pod: Obj) -> bool:
    """Return whether a Pod counts for a quota: one on its way out does, one that is over does not."""
    return phase(pod) not in {"Failed", "Succeeded"}


def unknown_fields(resource: str, body: Obj) -> list[str]:
    """Fields of a manifest that its kind does not have, as far as worlds have such."""
    if resource != PODS:
        return []
    return [f"spec.{name}" for name in body["spec"] if name not in POD_SPEC_FIELDS]


def check_claim_update(old: Obj, new: Obj) -> None:
    """Admit a change of a claim's spec: only one that is bound can grow, and none can shrink.

    Raises:
        InvalidError: The API server does not take it.
    """
    before, after = _without_size(old["spec"]), _without_size(new["spec"])
    size, wanted = (parse_quantity(each["spec"]["resources"]["requests"]["storage"]) for each in (old, new))
    if before != after or (size != wanted and old.get("status", {}).get("phase") != "Bound"):
        message = "spec: Forbidden: spec is immutable after creation except resources.requests for bound claims"
        raise errors.InvalidError(422, "Invalid", message)
    if wanted < size:
        message = "spec.resources.requests.storage: Forbidden: field can not be less than previous value"
        raise errors.InvalidError(422, "Invalid", message)


def _without_size(spec: Obj) -> Obj:
    return {name: part for name, part in spec.items() if name != "resources"}
