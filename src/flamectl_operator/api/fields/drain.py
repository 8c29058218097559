"""`drain`: how executors end their work before they are deleted."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from flamectl_operator.api.model import Flag, Int32, Model
from flamectl_operator.api.rules import Rule

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
