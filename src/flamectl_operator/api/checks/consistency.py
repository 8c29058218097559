"""Checks across fields: contradictions that Flame could not run with, and contradictions and typos that deserve a warning."""

import math
import re
import ssl
from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any

from flamectl_operator.api.checks.executor_limits import CONTAINER_LIMITS, Limit, executor_limits, gpu_limit
from flamectl_operator.api.checks.images import tagged_version
from flamectl_operator.api.checks.override_schema import override_problems, override_warnings
from flamectl_operator.api.constants import COMPONENT_FIELDS, EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.fields.checked_template import pod_spec, resources
from flamectl_operator.api.fields.network_policy import address_problems
from flamectl_operator.api.fields.slot import parse_slot
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.problems import Problem
from flamectl_operator.api.quantity import quantity_or_none

_SLOT = "spec.sessionManager.slot"
_KI, _MI, _GI = 2**10, 2**20, 2**30
#: Resources that are counted in bytes.
_IN_BYTES = ("memory", "ephemeral-storage")
#: Policies that the schedulers of Flame 0.6 and later know by themselves.
_POLICIES = ("priority", "drf")
#: The default of `maxExecutors`, about which nothing has to be said.
_MAX_EXECUTORS = 10
#: The path of an executor's own certificate in Flame 0.7.
_NODE_CERTIFICATE = "/etc/flame-tls/cluster"


def problems(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Yield contradictions with which no session could run, or that Flame could not read."""
    yield from _slot_beyond_limits(spec)
    yield from _unreadable_bundle(spec)
    yield from override_problems(spec.config_overrides, spec.flame_version)
    yield from address_problems(spec.network_policy)
    yield from _beside_the_hook(spec)


def warnings(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Yield what is probably a mistake, or has no effect. `ConfigValid` says it, and nothing is refused."""
    yield from _versions(spec)
    yield from _memory(spec)
    yield from _without_unit(spec)
    yield from _lost_nodes(spec)
    yield from _shared_claim(spec)
    yield from _without_effect(spec)
    yield from _without_answers(spec)
    yield from _lost_tasks(spec)
    yield from _relative_storage(spec)
    yield from _node_certificates(spec)
    yield from _long_evictions(spec)
    yield from override_warnings(spec.config_overrides, spec.flame_version)


def _slot_beyond_limits(spec: FlameClusterSpec) -> Iterator[Problem]:
    slot, limits = parse_slot(spec.session_manager.slot), executor_limits(spec.executor_manager)
    if (cpus := _cpus(limits)) is not None and slot.cpu > cpus:
        yield Problem(_SLOT, f"must fit an executor: cpu={slot.cpu}, but {limits['cpu'].path} gives it {cpus}")
    if (memory := limits.get("memory")) is not None and slot.memory > memory.amount:
        needs = f"mem is {_size(slot.memory)}"
        yield Problem(_SLOT, f"must fit an executor: {needs}, but {memory.path} is {_size(memory.amount)}")
    if (gpus := gpu_limit(limits)) is not None and slot.gpu > gpus:
        yield Problem(_SLOT, f"must fit an executor: gpu={slot.gpu}, but its limits have {gpus}")


def _unreadable_bundle(spec: FlameClusterSpec) -> Iterator[Problem]:
    if spec.tls is None or spec.tls.ca_bundle is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=spec.tls.authorities)
    except (ssl.SSLError, ValueError) as error:
        yield Problem("spec.tls.caBundle", f"must hold certificates in PEM; they cannot be read: {error}")


def _versions(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Compare the images' tags with `flameVersion`, and with each other where that finds nothing."""
    images = {f"{COMPONENT_FIELDS[name]}.image": part.image or "" for name, part in spec.components.items()}
    tagged = {path: version for path, image in images.items() if (version := tagged_version(image)) is not None}
    for path, version in tagged.items():
        if version.flame_version != spec.flame_version:
            yield Problem(path, f"has a tag of Flame {version.flame_version}, but flameVersion is {spec.flame_version}")
    if len({version.flame_version for version in tagged.values()}) > 1:
        versions = " and ".join(f"{version.flame_version} ({path})" for path, version in tagged.items())
        yield Problem("spec", f"components of different minor versions may not understand each other: {versions}")


def _memory(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Compare the memory limit with the slots that fit the CPUs, because Flame fills an executor by CPU alone."""
    slot, limits = parse_slot(spec.session_manager.slot), executor_limits(spec.executor_manager)
    memory, cpus = limits.get("memory"), _cpus(limits)
    if memory is None:
        yield Problem(
            f"{CONTAINER_LIMITS}.memory",
            "is not set, so each executor reports all memory of its node to Flame, and together they get more work than "
            "the node has memory for",
        )
    elif cpus is None:
        yield Problem(
            f"{CONTAINER_LIMITS}.cpu",
            "is not set, so an executor reports all CPUs of its node to Flame, and its slots may need more than its memory "
            f"limit of {_size(memory.amount)}",
        )
    elif (slots := cpus // slot.cpu) * slot.memory > memory.amount:
        yield Problem(
            memory.path,
            f"is {_size(memory.amount)}, but Flame may run {slots} slots with cpu={slot.cpu} in an executor with cpu={cpus}, "
            f"and they need {_size(slots * slot.memory)}",
        )


def _without_unit(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Name sizes that are so small that their author left out the unit."""
    storage = spec.executor_manager.runtime_storage
    sizes: dict[str, object] = {"spec.executorManager.runtimeStorage.sizeLimit": storage.size_limit}
    for name, persistence in (
        (SESSION_MANAGER, spec.session_manager.persistence),
        (OBJECT_CACHE, spec.object_cache.persistence),
    ):
        sizes[f"{COMPONENT_FIELDS[name]}.persistence.size"] = None if persistence is None else persistence.size
    for name, part in spec.components.items():
        field = COMPONENT_FIELDS[name]
        asked: dict[str, dict[str, Any]] = {field: vars(part.resources)}
        asked |= {f"{field}.podTemplate.spec{path}": each for path, each in resources(part.pod_template).items()}
        for place, each in asked.items():
            for kind in ("limits", "requests"):
                if isinstance(quantities := each.get(kind), dict):
                    found = (resource for resource in _IN_BYTES if resource in quantities)
                    sizes |= {f"{place}.resources.{kind}.{resource}": quantities[resource] for resource in found}
    for path, size in sizes.items():
        if (amount := quantity_or_none(size)) is not None and 0 < amount < _MI:
            yield Problem(path, f"is {float(amount):.9g} bytes: write Mi or Gi after the number")


def _lost_nodes(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Name tolerations of every taint, which are mostly meant for nodes that one has to ask for."""
    for name, part in spec.components.items():
        listed = pod_spec(part.pod_template).get("tolerations")
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            of_each = isinstance(each, dict) and each.get("operator") == "Exists" and not each.get("key")
            if of_each and each.get("effect") in (None, "", "NoExecute") and each.get("tolerationSeconds") is None:
                yield Problem(
                    f"{COMPONENT_FIELDS[name]}.podTemplate.spec.tolerations[{index}]",
                    "tolerates that a node is lost, so Kubernetes never deletes a Pod of a lost node, and the operator does not "
                    "replace it (set effect: NoSchedule, or the key of the taint that is meant)",
                )


def _shared_claim(spec: FlameClusterSpec) -> Iterator[Problem]:
    manager, cache = spec.session_manager.persistence, spec.object_cache.persistence
    if manager is None or cache is None or manager.existing_claim is None:
        return
    if manager.existing_claim == cache.existing_claim:
        yield Problem(
            "spec.objectCache.persistence.existingClaim",
            "is the claim of the session manager as well: unless it has ReadWriteMany, both can only run on one node; use"
            " another claim",
        )


def _without_effect(spec: FlameClusterSpec) -> Iterator[Problem]:
    version, manager = spec.flame_version, spec.session_manager
    if version == "0.5":
        for path, value in (
            ("spec.scheduleInterval", spec.schedule_interval),
            ("spec.limits.maxSessions", spec.limits.max_sessions),
            ("spec.sessionManager.recovery.retryLimits", manager.recovery.retry_limits),
            ("spec.sessionManager.policy", manager.policy if manager.policy != "priority" else None),
        ):
            if value is not None:
                yield Problem(path, "has no effect: Flame 0.5 ignores it")
        if re.match("(fs|file|filesystem)://|none$", manager.storage):
            yield Problem("spec.sessionManager.storage", "Flame 0.5 opens only SQLite databases")
    elif manager.policy not in _POLICIES:
        yield Problem(
            "spec.sessionManager.policy",
            f"has no effect: Flame {version} has the policies {' and '.join(_POLICIES)}; to use another policy, set "
            "configOverrides.cluster.policies",
        )
    if version == "0.6" and spec.executor_manager.max_executors != _MAX_EXECUTORS:
        yield Problem("spec.executorManager.maxExecutors", "has no effect: Flame 0.6 reads it and does not enforce it")


def _without_answers(spec: FlameClusterSpec) -> Iterator[Problem]:
    if spec.session_manager_verifiable:
        return
    advice = (
        "Flame 0.7 demands a client certificate, which the operator does not have"
        if spec.flame_version == "0.7"
        else "set spec.tls.caBundle"
    )
    why = f"the operator cannot ask a session manager that serves TLS; {advice}"
    for path, field in (
        ("spec.executorManager.autoscaling", spec.executor_manager.autoscaling),
        ("spec.idle", spec.idle),
    ):
        if field is not None:
            yield Problem(path, f"has no effect: {why}")
    if spec.session_manager.update_strategy.type == "WhenIdle":
        yield Problem("spec.sessionManager.updateStrategy", f"always waits for all of maxWaitSeconds: {why}")


def _lost_tasks(spec: FlameClusterSpec) -> Iterator[Problem]:
    if spec.session_manager.storage == "none" and spec.flame_version != "0.5":
        yield Problem(
            "spec.sessionManager.storage",
            "is none, so Flame cannot rerun the tasks of a lost executor, and these tasks stay Running",
        )


def _relative_storage(spec: FlameClusterSpec) -> Iterator[Problem]:
    storage = spec.session_manager.storage
    if (found := re.match("((?:fs|file|filesystem)://)([^/].*)", storage)) is not None:
        scheme, directory = found.groups()
        yield Problem(
            "spec.sessionManager.storage",
            f"has no slash before {directory}, so it is below Flame's working directory and lost with the container; write "
            f"{scheme}/{directory}",
        )


def _node_certificates(spec: FlameClusterSpec) -> Iterator[Problem]:
    if spec.flame_version != "0.7" or spec.tls is None:
        return
    if f'"{_NODE_CERTIFICATE}"' not in str(spec.executor_manager.pod_template or {}).replace("'", '"'):
        yield Problem(
            "spec.executorManager.podTemplate",
            "executors of Flame 0.7 exit if TLS is on and they have no certificate of their own; mount one for each at "
            f"{_NODE_CERTIFICATE}",
        )


def _beside_the_hook(spec: FlameClusterSpec) -> Iterator[Problem]:
    """Yield what a podTemplate may not set beside `drain.onTermination`."""
    if not spec.executor_manager.drain.on_termination.enabled:
        return
    path = "spec.executorManager.podTemplate.spec"
    asked = pod_spec(spec.executor_manager.pod_template)
    for container in asked.get("containers", ()):
        lifecycle = container.get("lifecycle")
        if container["name"] == EXECUTOR_MANAGER and isinstance(lifecycle, dict) and "preStop" in lifecycle:
            yield Problem(
                f"{path}.containers[name={EXECUTOR_MANAGER}].lifecycle.preStop",
                "must not be set beside drain.onTermination, because a container has one such hook",
            )
    if asked.get("hostPID") is True:
        yield Problem(
            f"{path}.hostPID", "must not be true beside drain.onTermination, which looks at the Pod's processes"
        )
    if asked.get("shareProcessNamespace") is False:
        yield Problem(
            f"{path}.shareProcessNamespace",
            "must not be false beside drain.onTermination, because Flame ignores SIGTERM as process 1",
        )


def _long_evictions(spec: FlameClusterSpec) -> Iterator[Problem]:
    ending, storage = spec.executor_manager.drain.on_termination, spec.session_manager.storage
    if not ending.enabled:
        return
    if storage != "none" and not re.match("(fs|file|filesystem)://", storage):
        yield Problem(
            "spec.executorManager.drain.onTermination",
            "with SQLite storage Flame never ends the processes of an executor that gets no more work, so each eviction of an "
            f"executor with work takes all of maxSeconds ({ending.max_seconds} s); storage fs://... ends with the work",
        )


def _cpus(limits: dict[str, Limit]) -> int | None:
    """Return the CPUs that an executor registers: those of its limit, rounded up; None without a limit."""
    return math.ceil(limits["cpu"].amount) if "cpu" in limits else None


def _size(amount: Decimal | int) -> str:
    """Return a size for a message; one below a kilobyte has no unit, or `m`, which is a thousandth."""
    if amount < _KI:
        return f"{float(amount):.4g} bytes (write Mi or Gi after the number)"
    return f"{float(amount) / _GI:.4g} GiB"


#: How alike two names must be, from 0 to 1, to be taken for a typo.
_ALIKE = 0.85


def near_names(spec: FlameClusterSpec) -> tuple[str, ...]:
    """Return a warning for each container whose name is nearly that of the component's own container: probably a typo."""
    templates = {name: part.pod_template for name, part in spec.components.items() if part.pod_template}
    return tuple(warning for name, template in templates.items() for warning in _near_names_in(name, template))


def _near_names_in(own: str, template: dict[str, Any]) -> Iterator[str]:
    for index, container in enumerate(pod_spec(template).get("containers", ())):
        name = container["name"]
        if name != own and _is_near(name, own):
            where = f"{COMPONENT_FIELDS[own]}.podTemplate.spec.containers[{index}]"
            yield f'{where} adds another container "{name}", because the component\'s container is named "{own}"'


def _is_near(name: str, own: str) -> bool:
    short, wanted = (re.sub(r"[-_.]|flame", "", each.lower()) for each in (name, own))
    component = wanted.removesuffix("manager")
    # config/admission/spec-warnings.yaml has the same names, without those that are only alike.
    return short in {component, f"{component}s", wanted} or SequenceMatcher(None, short, wanted).ratio() >= _ALIKE
