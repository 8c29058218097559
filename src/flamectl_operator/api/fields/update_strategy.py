"""`updateStrategy` and `drain`: how Pods are replaced after a change of the spec, and how executors end their work."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.model import Flag, Int32, IntOrString, Model
from flamectl_operator.api.rules import Rule

UpdateStrategyType = Literal["RollingUpdate", "Recreate", "OnDelete"]
SessionManagerUpdateType = Literal["Recreate", "WhenIdle", "OnDelete"]

#: Longest wait in seconds for the end of tasks: a week.
MAX_WAIT = 7 * 24 * 3600


def _percentage(limit: str, what: str) -> Rule:
    pattern = re.compile(limit, re.ASCII)
    return Rule(
        f"type(self) == int ? self >= 0 : self.matches(r'{limit}')",
        lambda value: value >= 0 if isinstance(value, int) else pattern.fullmatch(value),
        f"must be a whole number of 0 or more, or a percentage {what}",
    )


_COUNT_OR_PERCENTAGE = IntOrString(8, 'a whole number or a percentage such as "25%"')


class RollingUpdate(Model):
    """Limits of a rolling update."""

    rules: ClassVar = (
        Rule(
            "(type(self.maxUnavailable) == int ? self.maxUnavailable != 0 : self.maxUnavailable != '0%')"
            " || (type(self.maxSurge) == int ? self.maxSurge != 0 : self.maxSurge != '0%')",
            lambda update: update.max_unavailable not in (0, "0%") or update.max_surge not in (0, "0%"),
            "maxUnavailable and maxSurge must not both be 0, or no executor could ever be replaced",
        ),
    )

    max_unavailable: Annotated[
        int | str, _COUNT_OR_PERCENTAGE, _percentage(r"^(0|[1-9][0-9]?|100)%$", "from 0% to 100%")
    ] = Field(
        "25%",
        description="The most executors that may be unavailable during the update: a number, or a percentage of replicas, "
        "rounded down.",
    )
    max_surge: Annotated[int | str, _COUNT_OR_PERCENTAGE, _percentage(r"^(0|[1-9][0-9]{0,3})%$", "such as 25%")] = (
        Field(
            0,
            description="The most executors beyond replicas during the update: a number, or a percentage, "
            "rounded up. If both round to 0, maxUnavailable is 1.",
        )
    )


class UpdateStrategy(Model):
    """Replacement of executors after a change of the spec."""

    type: UpdateStrategyType = Field(
        "RollingUpdate",
        description="RollingUpdate replaces executors within the limits of rollingUpdate, Recreate replaces all at once, and "
        "OnDelete leaves executors of an earlier revision until a user deletes them.",
    )
    rolling_update: RollingUpdate = Field(
        RollingUpdate(),
        description="Limits of a rolling update. Other types ignore it, except that with OnDelete maxUnavailable limits how many "
        "executors of an earlier session manager are replaced at once.",
    )


class SessionManagerUpdateStrategy(Model):
    """Replacement of the session manager after a change of the spec."""

    type: SessionManagerUpdateType = Field(
        "Recreate",
        description="Recreate replaces the session manager at once, WhenIdle when no task runs, and OnDelete when a user deletes "
        "its Pod. A session manager whose container does not run is replaced at once, because the change may mend it.",
    )
    max_wait_seconds: Annotated[Int32, Field(ge=1, le=MAX_WAIT)] = Field(
        3600,
        description="The most seconds that WhenIdle waits for the end of tasks; then the session manager is replaced although "
        "tasks run. Ignored for other types.",
    )


#: Longest drain, in seconds: a week.
MAX_DRAIN = 7 * 24 * 3600
#: Shortest time in seconds for work after an eviction: the hook itself needs some seconds to look.
MIN_ON_TERMINATION = 5


class OnTermination(Model):
    """The end of an executor's work when somebody else deletes its Pod, as an eviction does."""

    enabled: Flag = Field(
        default=False,
        description="Whether the Pods of new executors have a hook that waits for their work when somebody deletes or evicts "
        "them. The image needs a shell. A change restarts no Pod.",
    )
    max_seconds: Annotated[Int32, Field(ge=MIN_ON_TERMINATION, le=MAX_DRAIN)] = Field(
        120, description="The most seconds that the hook waits; not more than drain.timeoutSeconds."
    )


class Drain(Model):
    """How executors end their work before they are deleted by a scale-down, a rollout, or somebody else."""

    rules: ClassVar = (
        Rule(
            "!self.onTermination.enabled || self.onTermination.maxSeconds <= self.timeoutSeconds",
            lambda drain: not drain.on_termination.enabled or drain.on_termination.max_seconds <= drain.timeout_seconds,
            "must not be more than drain.timeoutSeconds, the time that an executor gets to end its work",
            ".onTermination.maxSeconds",
        ),
    )

    timeout_seconds: Annotated[Int32, Field(ge=0, le=MAX_DRAIN)] = Field(
        600,
        description="How long an executor may go on with its sessions, without getting new ones, before it is deleted. "
        "0 deletes it at once.",
    )
    protect_busy: Flag = Field(
        default=False,
        description='Whether executors with work are annotated with cluster-autoscaler.kubernetes.io/safe-to-evict: "false" and '
        'karpenter.sh/do-not-disrupt: "true", so that autoscalers of nodes leave them alone. A change restarts no Pod.',
    )
    on_termination: OnTermination = Field(
        OnTermination(),
        description="How an executor ends its work when somebody else deletes its Pod, as an eviction does.",
    )
