"""Remedies of a Pod for which the scheduler finds no node: what the FlameCluster asks for, and by which field."""

import re
from collections.abc import Iterator
from typing import Any

from flamectl_operator.api.constants import WAIT_CONTAINER
from flamectl_operator.api.quantity import amount
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.resource_asks import asked
from flamectl_operator.desired.unvalidated import as_object, entries
from flamectl_operator.kube.pod_views import ContainerResources, PodSpec
from flamectl_operator.observed.scheduling import OF_GROUP

#: The most characters of two remedies of one Pod, because each node may lack something else. A message has room for so many.
_MAX_REMEDIES_LENGTH = 130
_LACKING = re.compile(r"Insufficient ([\w./-]+?)(?=[,.;]?(?:\s|$))")
#: The scheduler's words for the nodeSelector and the affinity of a Pod. It calls that of a volume a node affinity, too.
_OF_POD = "Pod's node affinity"
#: The key of a taint that keeps a Pod off, as schedulers before 1.35 name it.
_TAINT = re.compile(r"untolerated taint \{([^:}\s]+)")
#: The begin of the keys of taints that no toleration of an author should bear.
_OF_NODES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cilium.io/",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/",
)
#: The same of drivers, network plugins and node pools, for a node that begins or ends, such as
#: `startup-taint.cluster-autoscaler.kubernetes.io/x` and `ebs.csi.aws.com/agent-not-ready`.
_OF_BEGIN_OR_END = re.compile(
    r"not-?ready|uninitialized|startup|ignore-taint|terminati|maintenance|drain", re.IGNORECASE
)
#: The most claims that a message names.
_MAX_NAMED_CLAIMS = 2
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
#: The spec of a Pod of which nothing is known.
_UNKNOWN = PodSpec()
_OTHER_PLACE = "add a node where the volume is, see kubectl describe pvc{claims}"
#: Other messages of the scheduler, as patterns, with the remedy. `{claims}` are the names of the claims that the Pod mounts.
_OTHERS = (
    ("untolerated taint", "{taint}"),
    ("existing pods anti-affinity", "add a node, or change the anti-affinity of the Pods that run there"),
    ("match pod anti-affinity", "{affinity}, or add a node"),
    ("match pod affinity|affinity terms conflict", "{affinity}"),
    ("free ports", "{host_port}, or add a node"),
    ("volume node affinity", _OTHER_PLACE),
    ("PersistentVolume's node affinity", _OTHER_PLACE),
    ("available volume zone", _OTHER_PLACE),
    ("enough free storage", "free storage of its class, or add some, see kubectl describe pvc{claims}"),
    (
        "CSI driver is not installed",
        "an administrator installs the driver on the nodes, see kubectl describe pvc{claims}",
    ),
    ("required features", "add a node whose kubelet supports what {template} asks for, or take it out"),
    (
        "bound to non-existent",
        "restore the PersistentVolume, or take another claim, see kubectl describe pvc{claims}",
    ),
    (" is being deleted", "create the claim again when it is gone, or correct {template}.volumes"),
    ("unbound immediate PersistentVolumeClaims", "see kubectl describe pvc{claims}{class}"),
    ("ephemeral volume controller", "if the claim does not come, see kubectl get events"),
    (r'available: persistentvolumeclaim "[^"]*" not found', "create the claim, or correct {template}.volumes"),
    ("available persistent volumes to bind", "see kubectl describe pvc{claims}{class}"),
    (
        "ReadWriteOncePod",
        "delete the other Pod that uses it (Used By in kubectl describe pvc{claims}), or use another claim",
    ),
    ("max volume count", "add a node"),
    ("allocate all claims|cannot fit resource|extended resource claim", "{devices}"),
    ("resourceclaim", "change {template}.resourceClaims, or see kubectl describe resourceclaims"),
    ("device class", "create the DeviceClass, or correct the request of {template}.resourceClaims"),
    ('"VolumeBinding"|VolumeBindingMode not set', "see kubectl describe pvc{claims}"),
    ("no available disk", "add a node, because another Pod on this one has the disk, see kubectl describe pvc{claims}"),
    ('"DynamicResources"|pod level (?:limit|request)|mapped device', "see kubectl describe resourceclaims"),
    ("pod is not owner", "delete that claim, or rename the volume in {template}.volumes"),
    ("Too many pods", "add a node"),
    # KAI names GPUs, processors and memory in its own words.
    ("have enough resources|is not a gpu node", "lower {resources}, or add a node"),
    ("no nodes available", "add a node"),
    ("were unschedulable", "add a node, or kubectl uncordon one"),
    ("scheduler-enforced", "label a node as the scheduler's configuration demands"),
    ("[qQ]uota", "raise the quota of the scheduler's queue, or end other Pods of that queue"),
    (OF_GROUP, "see kubectl describe podgroups for the Pods that it waits for"),
)


def remedy(words: str, template: ComponentTemplate, pod: str = "", found: PodSpec = _UNKNOWN) -> str:
    """Return what was asked, and what to do about it; empty where the scheduler's words are not known.

    A claim of `persistence` has the name of its Pod, and a webhook may have added something to the spec that was found.
    """
    first, *others = dict.fromkeys(_remedies(words, template, pod, found)) or [""]
    both = "; ".join([first, *others[:1]])
    return both if len(both) <= _MAX_REMEDIES_LENGTH else first


def asked_before(words: str, spec: PodSpec) -> str:
    """Return the requests of a Pod of an earlier spec that the scheduler cannot satisfy; empty where that is not known."""
    found = []
    for resource in dict.fromkeys(_LACKING.findall(words)):
        # The requests of a whole Pod count in place of those of its containers.
        parts = (each.resources for each in spec.containers)
        requested = _quantity(spec.resources, resource) or " + ".join(
            filter(None, (_quantity(each, resource) for each in parts))
        )
        if requested:
            found.append(f"{resource} {requested}")
    if spec.node_selector and _OF_POD in words:
        found.append(f"nodeSelector {_pairs(spec.node_selector)}")
    return ", ".join(found)


def _quantity(asks: ContainerResources | None, resource: str) -> str:
    """Return the request for a resource, which is the limit where only that is set; empty where there is none."""
    return "" if asks is None else (asks.requests or {}).get(resource) or (asks.limits or {}).get(resource) or ""


def _remedies(words: str, template: ComponentTemplate, pod: str, found: PodSpec) -> Iterator[str]:
    place = f"{template.field}.podTemplate.spec"
    spec = template.manifest["spec"]
    asks: dict[str, dict[str, str]] = {}
    for resource in dict.fromkeys(_LACKING.findall(words)):
        own = field, quantities = asked(template, "requests", resource)
        if added := _added(template, found, resource, own, pod):
            yield added
        elif field:
            asks.setdefault(field.removesuffix(f".{resource}"), {})[resource] = " + ".join(quantities)
        else:
            yield f"a LimitRange or a webhook asks for it: set {template.field}.resources.requests.{resource}"
    for parent, each in asks.items():
        what = " and ".join(f"{resource} {quantity}" for resource, quantity in each.items())
        lowered = f"{parent}.{next(iter(each))}" if len(each) == 1 else f"them in {parent}"
        yield f"it asks for {what}: lower {lowered}, or add a node"
    if _OF_POD in words:
        yield from _added_selection(spec, found)
        yield from _selection(spec, place, words)
    if "topology spread constraints" in words:
        yield _spread(spec, place)
    claims = [pod] if template.claim_volume or pod in template.claim_names else []
    # Kubernetes makes a claim of this name for such a volume.
    made = [f"{pod}-{each.get('name')}" for each in entries(spec, "volumes") if "ephemeral" in each]
    mounted = (*claims, *sorted(template.claim_names - {*claims}), *made)
    of_class = f"{template.field}.persistence.storageClassName" if claims else f"{place}.volumes" if made else ""
    names = {
        "template": place,
        "claims": "".join(f" {each}" for each in mounted[:_MAX_NAMED_CLAIMS]),
        "class": of_class and f", or correct {of_class}",
        "host_port": _host_port(spec, place),
        "affinity": f"change {place}.affinity" if "affinity" in spec else "a webhook adds an affinity: change it there",
        "devices": _devices(template, spec, place),
        "taint": _taint(words, place),
        "resources": f"{template.field}.resources",
    }
    claim = _MISSING_CLAIM.search(words)
    if claim is not None and claim[1] not in {*claims, *template.claim_names}:
        yield "create the claim; a webhook added it to the Pod"
        return
    for pattern, advice in _OTHERS:
        if re.search(pattern, words):
            yield advice.format(**names)


def _added(
    template: ComponentTemplate, found: PodSpec, resource: str, own: tuple[str, tuple[str, ...]], pod: str
) -> str:
    """Return who asks for more of a resource than the template's `own` field; empty where nobody does, or it is not known."""
    field, quantities = own
    overhead = (found.overhead or {}).get(resource, "")
    if amount(overhead) > sum(map(amount, quantities)):
        place = f"{template.field}.podTemplate.spec.runtimeClassName"
        return f"its RuntimeClass adds {resource} {overhead} as overhead: change {place}, or add a node"
    asks = {each.name: _quantity(each.resources, resource) for each in found.containers}
    name = max(asks, key=lambda each: amount(asks[each] or 0), default="")
    if name and amount(asks[name] or 0) > sum(map(amount, quantities)):
        if name in template.container_names:
            return f"a LimitRange or a webhook asks for it: set {template.container_field(name)}.resources.requests.{resource}"
        return f'container "{name}", which a webhook added, asks for {resource} {asks[name]}: lower it there, or add a node'
    if not asks or any(asks.values()) or (field and WAIT_CONTAINER not in field):
        return ""
    return f"see what it asks for by kubectl describe pod {pod}, or add a node"


def _added_selection(spec: dict[str, Any], found: PodSpec) -> Iterator[str]:
    asked_for = as_object(spec.get("nodeSelector"))
    added = {key: value for key, value in (found.node_selector or {}).items() if key not in asked_for}
    if added:
        name = spec.get("runtimeClassName")
        who = f"RuntimeClass {name}, a webhook or the namespace" if name else "a webhook or the namespace"
        yield f"{who} adds nodeSelector {_pairs(added)}: change it there, or label a node"
    elif found.containers and not asked_for and "affinity" not in spec:
        yield "a webhook adds an affinity: change it there, or label a node"


def _selection(spec: dict[str, Any], place: str, words: str) -> Iterator[str]:
    """Yield what the Pod asks of a node. The nodes that the scheduler passes over for a taint or a cordon may have it."""
    or_tolerations = " or tolerations" * ("untolerated taint" in words)
    label = "label or uncordon" if "were unschedulable" in words else "label"
    if selector := as_object(spec.get("nodeSelector")):
        yield f"it asks for nodeSelector {_pairs(selector)}: change {place}.nodeSelector{or_tolerations}, or {label} a node"
    affinity = as_object(as_object(spec.get("affinity")).get("nodeAffinity"))
    required = as_object(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = " or ".join(_term(each) for each in entries(required, "nodeSelectorTerms"))
    if terms:
        yield f"it asks for node affinity {terms}: change {place}.affinity{or_tolerations}, or {label} a node"


def _spread(spec: dict[str, Any], place: str) -> str:
    asked_for = entries(spec, "topologySpreadConstraints")
    if keys := ", ".join(dict.fromkeys(str(each.get("topologyKey")) for each in asked_for)):
        return f"it asks for topologySpreadConstraints by {keys}: change {place}.topologySpreadConstraints"
    return "a webhook or the scheduler's configuration asks to spread it: change it there, or add a node"


def _host_port(spec: dict[str, Any], place: str) -> str:
    for kind in ("containers", "initContainers"):
        for each in entries(spec, kind):
            if any(port.get("hostPort") for port in entries(each, "ports")):
                return f"change the hostPort in {place}.{kind}[name={each.get('name')}].ports"
    return "a webhook adds a hostPort: change it there"


def _taint(words: str, place: str) -> str:
    """Return what to do about taints. Kubernetes and autoscalers set some on nodes in trouble, and on nodes that begin or end."""
    keys = list(dict.fromkeys(_TAINT.findall(words)))
    if found := [key for key in keys if key.startswith(_OF_NODES) or _OF_BEGIN_OR_END.search(key)]:
        return f"see by kubectl describe node why nodes have the taint {' and '.join(found[:2])}, or add a node"
    if not keys:  # since Kubernetes 1.35
        return f"see by kubectl describe node which taint, then add a toleration to {place}.tolerations, or a node without it"
    return f"add a toleration to {place}.tolerations, or a node without the taint"


def _devices(template: ComponentTemplate, spec: dict[str, Any], place: str) -> str:
    """Return what to do about devices that no node has free. A DeviceClass may stand behind a resource such as nvidia.com/gpu."""
    if entries(spec, "resourceClaims"):
        return f"change {place}.resourceClaims, or see kubectl describe resourceclaims"
    limits = (
        f"{template.container_field(str(each.get('name')))}.resources.limits.{resource}"
        for each in (*entries(spec, "containers"), *entries(spec, "initContainers"))
        for resource, count in as_object(as_object(each.get("resources")).get("limits")).items()
        if "/" in resource and amount(count)
    )
    lower = next(limits, "")
    return f"{f'lower {lower}' if lower else 'a webhook adds the devices: change it there'}, or add a node"


def _pairs(labels: dict[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _term(term: dict[str, Any]) -> str:
    found = (*entries(term, "matchExpressions"), *entries(term, "matchFields"))
    return " and ".join(_expression(each) for each in found)


def _expression(each: dict[str, Any]) -> str:
    values = each.get("values")
    listed = ",".join(map(str, values)) if isinstance(values, list) else ""
    return f"{each.get('key')} {each.get('operator')} {listed}".strip()
