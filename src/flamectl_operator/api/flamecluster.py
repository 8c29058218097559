"""`FlameCluster.spec`: what a user asks for. The schema in `config/crd` is made of these models and their words."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.container import Environment, Image, ImagePullPolicy, ResourceRequirements
from flamectl_operator.api.model import Atomic, Flag, Int32, IntOrString, Model, Text
from flamectl_operator.api.pod_template import CheckedAgainst, ExecutorManagerPodTemplate, SessionManagerPodTemplate
from flamectl_operator.api.rules import Rule
from flamectl_operator.api.slot import DEFAULT as DEFAULT_SLOT
from flamectl_operator.api.slot import PATTERN_0_5, SlotText, readable_by_0_5

FlameVersion = Literal["0.5", "0.6"]
Shim = Literal["host", "wasm"]
UpdateStrategyType = Literal["RollingUpdate", "Recreate", "OnDelete"]

# Errors of Python's `re` for which Rust's regex, which Flame uses, has no valid reading either. Python refuses other
# things that Rust takes (`\pL`, `^*`): those are left to the API server, whose RE2 is a sibling of Rust's.
_SURELY_WRONG = (
    "unterminated character set",
    "missing )",
    "unbalanced parenthesis",
    "bad character range",
    "bad escape (end of pattern)",
)
_NOTHING_TO_REPEAT = "nothing to repeat"


def _may_compile(expression: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(expression)
    except re.error as error:
        # After an anchor, as in `^*`, there is something to repeat for Rust; at the start of a branch there is not.
        at_start = error.msg == _NOTHING_TO_REPEAT and (error.pos == 0 or expression[(error.pos or 0) - 1] in "(|")
        return not at_start and not error.msg.startswith(_SURELY_WRONG)
    except OverflowError:  # a number of repetitions that fits no integer
        return False
    return True


def _percentage(limit: str, what: str) -> Rule:
    pattern = re.compile(limit, re.ASCII)
    return Rule(
        f"type(self) == int ? self >= 0 : self.matches(r'{limit}')",
        lambda value: value >= 0 if isinstance(value, int) else pattern.fullmatch(value),
        f"must be a whole number of 0 or more, or a percentage {what}",
    )


_COUNT_OR_PERCENTAGE = IntOrString(8, 'a whole number or a percentage such as "25%"')


class RollingUpdate(Model):
    """How far a rolling update may go at a time."""

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
        description="How many executors may be missing during the update: a number, or a percentage of replicas, "
        "rounded down.",
    )
    max_surge: Annotated[int | str, _COUNT_OR_PERCENTAGE, _percentage(r"^(0|[1-9][0-9]{0,3})%$", "such as 25%")] = (
        Field(
            0,
            description="How many executors may be there beyond replicas during the update: a number, or a percentage, "
            "rounded up. When both come out as 0 by rounding, maxUnavailable is 1.",
        )
    )


class UpdateStrategy(Model):
    """How executors are replaced when what they were made from changed."""

    type: UpdateStrategyType = Field(
        "RollingUpdate",
        description="RollingUpdate replaces executors within the limits of rollingUpdate, Recreate all at once, and "
        "OnDelete only those that somebody deletes.",
    )
    rolling_update: RollingUpdate = Field(
        RollingUpdate(), description="Limits of a rolling update; without effect for other types."
    )


class SessionManagerSpec(Model):
    """The session manager: the one coordinator of the cluster."""

    image: Image = Field(description="Image of the session manager. Use an explicit version tag.")
    image_pull_policy: ImagePullPolicy | None = Field(
        None, description="When the image is pulled; by Kubernetes' own rule when left out."
    )
    resources: ResourceRequirements = Field(ResourceRequirements(), description="Compute resources of the container.")
    env: Environment = Field((), description="Environment variables to add to the container.")
    slot: SlotText = Field(
        DEFAULT_SLOT,
        description="What one executor of a session gets unless the session says otherwise: whole cores, memory, and "
        "GPUs if any, as in cpu=1,mem=1g or cpu=2,mem=512Mi,gpu=1. Units are powers of 1024.",
    )
    policy: Text = Field("priority", description="Scheduling policy of the cluster.")
    storage: Text = Field(
        "sqlite://flame.db",
        description="Where sessions are kept: none, a directory as in fs:///var/lib/flame/session, or an SQLite "
        "database.",
    )
    pod_template: Annotated[dict[str, Any], CheckedAgainst(SessionManagerPodTemplate)] | None = Field(
        None, description="Additions to the Pod: a partial Pod template, merged under what the operator must set."
    )


class ExecutorManagerSpec(Model):
    """The executor managers: the workers that run tasks."""

    image: Image = Field(description="Image of the executor manager. Use an explicit version tag.")
    image_pull_policy: ImagePullPolicy | None = Field(
        None, description="When the image is pulled; by Kubernetes' own rule when left out."
    )
    replicas: Annotated[Int32, Field(ge=0)] = Field(
        1, description="How many executor managers there should be; may be 0."
    )
    resources: ResourceRequirements = Field(ResourceRequirements(), description="Compute resources of each container.")
    env: Environment = Field((), description="Environment variables to add to the containers.")
    shim: Shim = Field("host", description="How tasks are run: as processes of the host, or as WebAssembly.")
    max_executors: Annotated[Int32, Field(ge=1)] = Field(
        10, description="How many executors one executor manager may run at a time."
    )
    update_strategy: UpdateStrategy = Field(
        UpdateStrategy(), description="How executors are replaced when what they were made from changed."
    )
    pod_template: Annotated[dict[str, Any], CheckedAgainst(ExecutorManagerPodTemplate)] | None = Field(
        None, description="Additions to the Pods: a partial Pod template, merged under what the operator must set."
    )


class ObjectCacheSpec(Model):
    """The object cache, which runs in the executors' Pods."""

    network_interface: Annotated[
        Text,
        Field(max_length=256),
        Rule(
            "''.matches(self) || !''.matches(self)",
            _may_compile,
            "must be a regular expression that compiles, such as eth0 or eth.*",
        ),
    ] = Field(
        "eth0", description="Network interface that the cache listens on: a regular expression that matches its name."
    )
    storage: Text = Field("/var/lib/flame/cache", description="Where the cache keeps objects: a directory.")


#: The name of an operator deployment, as a Lease holds it. By default a namespace (63), a slash, and the name of a Lease (253).
LockIdentity = Annotated[str, Field(min_length=1, max_length=317)]


class LockOptions(Model):
    """How operators that see the same cluster keep out of each other's way."""

    disabled: Flag = Field(
        default=False, description="Whether Pods are deleted without the lock that lets one operator do so at a time."
    )
    deny_list: Annotated[Atomic[LockIdentity], Field(max_length=32)] = Field(
        (),
        description="Operators that must not take the lock, by their lock identity: they delete no Pods, and if one of "
        "them holds the lock, the others do not wait for it.",
    )


class FlameClusterSpec(Model):
    """What a Flame cluster should be like."""

    rules: ClassVar = (
        Rule(
            f"self.flameVersion != '0.5' || self.sessionManager.slot.matches(r'{PATTERN_0_5}')",
            lambda spec: spec.flame_version != "0.5" or readable_by_0_5(spec.session_manager.slot),
            "must be like cpu=1,mem=512m for Flame 0.5: k, m or g as unit of mem, and no gpu",
            ".sessionManager.slot",
        ),
    )

    session_manager: SessionManagerSpec = Field(description="The session manager, the one coordinator of the cluster.")
    executor_manager: ExecutorManagerSpec = Field(description="The executor managers, the workers that run tasks.")
    object_cache: ObjectCacheSpec = Field(ObjectCacheSpec(), description="The object cache.")
    flame_version: FlameVersion = Field(
        "0.6",
        description="Which Flame the images hold. Decides their command line and the form of flame-cluster.yaml. Put "
        "it in quotes.",
    )
    suspend: Flag = Field(
        default=False,
        description="Whether the cluster is put to rest: all its Pods are deleted, its configuration and its Services "
        "stay.",
    )
    paused: Flag = Field(
        default=False, description="Whether the operator leaves everything about this cluster as it is."
    )
    lock_options: LockOptions = Field(
        LockOptions(), description="The lock that lets only one operator at a time delete Pods of this cluster."
    )
    config_overrides: dict[str, Any] = Field(
        {},
        description="Merged last into flame-cluster.yaml, for what this API has no field for, such as cluster.tls or "
        "cluster.limits.max_sessions.",
    )
