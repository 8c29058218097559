"""`spec.commonLabels` and `spec.commonAnnotations`: on every child, and removed again when the spec no longer asks for them.

An annotation of each child lists the keys that come from the spec, so that any process can remove them later and leaves others
alone. Metadata that is more specific, such as that of a podTemplate, takes precedence. No revision reads any of it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flamectl_operator.api.constants import COMMON_KEYS_ANNOTATION
from flamectl_operator.api.fields.pod_template_rules import is_own_key
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.kube.views import REDUCED, KubernetesObject

#: Between the keys of labels and those of annotations in the list. No key may contain it.
_SEPARATOR = ";"


@dataclass(frozen=True)
class CommonMetadata:
    """Labels and annotations of all children of a FlameCluster, without the `specific` keys that a child has of its own."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    specific: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    @classmethod
    def of(cls, spec: FlameClusterSpec) -> "CommonMetadata":
        """Return the common metadata that a spec asks for."""
        return cls(spec.common_labels, spec.common_annotations)

    def besides(self, metadata: Mapping[str, Any]) -> "CommonMetadata":
        """Return what is left beside more specific metadata."""
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        return CommonMetadata(
            {key: value for key, value in self.labels.items() if key not in labels},
            {key: value for key, value in self.annotations.items() if key not in annotations},
            (frozenset(labels), frozenset(annotations)),
        )

    def added_to(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the manifest of a new child with the common metadata."""
        metadata = manifest["metadata"]
        ours = self.besides(metadata)
        if not ours.labels and not ours.annotations:
            return manifest
        labels = {**(metadata.get("labels") or {}), **ours.labels}
        annotations = {**(metadata.get("annotations") or {}), **ours.annotations, COMMON_KEYS_ANNOTATION: ours.keys()}
        return {**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}

    def patch(self, child: KubernetesObject) -> dict[str, Any] | None:
        """Return the merge patch that brings the common metadata of a child up to date; None when the child needs none.

        The child's more specific metadata takes precedence, so call this on the result of `besides`. A child whose labels or
        annotations a store has reduced stays as it is, because nobody knows what it lacks.
        """
        listed = child.annotations.get(COMMON_KEYS_ANNOTATION, "")
        if not listed and not self.labels and not self.annotations:
            return None
        if REDUCED in child.labels or REDUCED in child.annotations:
            return None
        # A key that stays because it is specific now stays on the list, so that it is removed when it is specific no longer.
        found, earlier = (child.labels, child.annotations), _keys_in(listed)
        stay = [[key for key in earlier[kind] if key in self.specific[kind] and key in found[kind]] for kind in (0, 1)]
        labels = _changes(child.labels, self.labels, earlier[0], stay[0])
        annotations = _changes(child.annotations, self.annotations, earlier[1], stay[1])
        keys = _list_of({*self.labels, *stay[0]}, {*self.annotations, *stay[1]})
        if keys != listed:
            annotations[COMMON_KEYS_ANNOTATION] = keys or None
        changes = {name: part for name, part in (("labels", labels), ("annotations", annotations)) if part}
        return {"metadata": {**changes, "resourceVersion": child.metadata.resource_version}} if changes else None

    def joined_to(self, patch: Mapping[str, Any], child: KubernetesObject) -> Mapping[str, Any]:
        """Return a merge patch of a child that also brings the common metadata up to date."""
        ours = self.patch(child)
        return patch if ours is None else {**patch, "metadata": {**ours["metadata"], **patch["metadata"]}}

    def keys(self) -> str:
        """Return the list of keys, as the annotation holds it; empty without any."""
        return _list_of(self.labels, self.annotations)


def _changes(
    found: Mapping[str, str], wanted: Mapping[str, str], earlier: Iterable[str], stay: Collection[str]
) -> dict[str, str | None]:
    removed = {key: None for key in earlier if key not in wanted and key in found and key not in stay}
    return {**removed, **{key: value for key, value in wanted.items() if found.get(key) != value}}


def _list_of(labels: Collection[str], annotations: Collection[str]) -> str:
    if not labels and not annotations:
        return ""
    return f"{','.join(sorted(labels))}{_SEPARATOR}{','.join(sorted(annotations))}"


def _keys_in(text: str) -> tuple[list[str], list[str]]:
    # Somebody may have edited the list: the operator's own keys stay whatever it says.
    labels, annotations = (
        [key for key in part.split(",") if key and not is_own_key(key)] for part in text.partition(_SEPARATOR)[::2]
    )
    return labels, annotations
