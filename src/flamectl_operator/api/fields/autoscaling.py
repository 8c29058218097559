"""The parts of the spec that depend on Flame's sessions: the number of executors, and the suspension of an idle cluster."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.model import Int32, Model
from flamectl_operator.api.rules import Rule

#: Longest stabilization window in seconds, as for a HorizontalPodAutoscaler.
MAX_WINDOW = 3600
#: Longest idle time in seconds: a week.
MAX_IDLE = 7 * 24 * 3600

#: The action on an idle cluster.
IdlePolicy = Literal["Suspend"]


class ScaleUpBehavior(Model):
    """How the number of executors goes up."""

    stabilization_window_seconds: Annotated[Int32, Field(ge=0, le=MAX_WINDOW)] = Field(
        0,
        description="Seconds that a higher demand must last before the operator creates executors. The new number of executors "
        "is the smallest that was needed in that time.",
    )


class ScaleDownBehavior(Model):
    """How the number of executors goes down."""

    stabilization_window_seconds: Annotated[Int32, Field(ge=0, le=MAX_WINDOW)] = Field(
        0,
        description="Seconds that a lower demand must last before the operator removes executors, if longer than "
        "idleTimeoutSeconds. It keeps the largest number that was needed in that time.",
    )


class ScalingBehavior(Model):
    """How fast the number of executors changes."""

    scale_up: ScaleUpBehavior = Field(ScaleUpBehavior(), description="How the number of executors goes up.")
    scale_down: ScaleDownBehavior = Field(ScaleDownBehavior(), description="How the number of executors goes down.")


class Autoscaling(Model):
    """A number of executors that follows the demand of Flame's sessions."""

    rules: ClassVar = (
        Rule(
            "self.minReplicas <= self.maxReplicas",
            lambda autoscaling: autoscaling.min_replicas <= autoscaling.max_replicas,
            "must not be more than maxReplicas",
            ".minReplicas",
        ),
    )

    min_replicas: Annotated[Int32, Field(ge=0)] = Field(
        1, description="Number of executors without any demand; may be 0."
    )
    max_replicas: Annotated[Int32, Field(ge=1)] = Field(description="The most executors, whatever the demand.")
    max_pending: Annotated[Int32, Field(ge=1)] = Field(
        10,
        description="The most executors that have no node or fail. At this number the operator creates no more executors for the "
        "demand.",
    )
    idle_timeout_seconds: Annotated[Int32, Field(ge=0, le=MAX_IDLE)] = Field(
        60, description="Seconds that executors without demand stay before the operator removes them."
    )
    behavior: ScalingBehavior = Field(ScalingBehavior(), description="How fast the number of executors changes.")


class Idle(Model):
    """The suspension of a cluster whose sessions are not in use."""

    timeout_seconds: Annotated[Int32, Field(ge=1, le=MAX_IDLE)] = Field(
        description="Seconds without a session in use after which the cluster suspends itself."
    )
    policy: IdlePolicy = Field(
        "Suspend",
        description="Suspend deletes the Pods as spec.suspend does, until the spec changes, for example by suspend: false.",
    )
