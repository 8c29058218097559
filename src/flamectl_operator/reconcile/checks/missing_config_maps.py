"""Looks for the ConfigMaps that a new Pod needs, before a Pod is deleted for it.

The API server accepts a Pod whose ConfigMaps do not exist, and the kubelet never starts its containers. Secrets are not looked
for, because the operator may not read them.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.unvalidated import as_object, entries
from flamectl_operator.kube.resources import CONFIG_MAP_KEYS, CONFIG_MAPS
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import Outcome, blocked

#: The most ConfigMaps that are read for a template, because a user decides how many there are and how large these are.
MAX_READ = 8


async def missing_config_map(reads: ClusterReads, template: ComponentTemplate, consequence: str) -> Outcome | None:
    """Return which ConfigMap, or key of one, a new Pod would lack, with the consequence at the end; None when it lacks none."""
    needed = needed_config_maps(template.manifest["spec"])
    # The operator creates its own ones before the Pods.
    unknown = (name for name in sorted(needed) if reads.stores.of(CONFIG_MAPS).get(reads.owner.namespace, name) is None)
    for name in islice(unknown, MAX_READ):
        try:
            found = await reads.read(CONFIG_MAP_KEYS, name)
        except RefusedError:
            return None
        lacking = needed[name] if found is None else needed[name].difference(found.keys)
        if found is None or lacking:
            how = "does not exist" if found is None else f'has no key "{min(lacking)}"'
            label = f'ConfigMap "{name}" of {template.field}'
            advice = f"create it, or correct {template.field}"
            return blocked("ConfigMapNotFound", f"{label} {how}{consequence}; {advice}", TAKEN_NAME_RECHECK_SECONDS)
    return None


def needed_config_maps(spec: dict[str, Any]) -> dict[str, set[str]]:
    """Return the ConfigMaps that a Pod's spec needs, without optional ones, by name, each with the keys that it must have."""
    needed: dict[str, set[str]] = {}
    for reference, keys in _references(spec):
        name = str(reference.get("name") or "")
        if name and reference.get("optional") is not True:
            needed.setdefault(name, set()).update(str(key) for key in keys if key)
    return needed


def _references(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    for volume in entries(spec, "volumes"):
        projected = entries(as_object(volume.get("projected")), "sources")
        for source in (volume, *projected):
            reference = as_object(source.get("configMap"))
            yield reference, [item.get("key") for item in entries(reference, "items")]
    for container in (*entries(spec, "initContainers"), *entries(spec, "containers")):
        for source in entries(container, "envFrom"):
            yield as_object(source.get("configMapRef")), []
        for variable in entries(container, "env"):
            reference = as_object(as_object(variable.get("valueFrom")).get("configMapKeyRef"))
            yield reference, [reference.get("key")]
