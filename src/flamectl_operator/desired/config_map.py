"""The ConfigMap `<name>-config`, mounted into every Pod."""

from __future__ import annotations

from typing import Any

from flamectl_operator.api.constants import CONFIG_FILE, CONFIG_GENERATION_ANNOTATION, CONFIG_HASH_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.desired.flame_config import content_hash
from flamectl_operator.desired.metadata import Identity


def config_map(owner: Identity, text: str, generation: int) -> dict[str, Any]:
    """Return the desired ConfigMap.

    Args:
        text: The content of flame-cluster.yaml.
        generation: `configGeneration` of this text. The ConfigMap and the status both hold it with the hash, so that neither a
            crash between the two writes nor a deleted ConfigMap loses the count.
    """
    metadata = owner.metadata(names.config_map(owner.name), "config")
    metadata["annotations"] = {
        CONFIG_GENERATION_ANNOTATION: str(generation),
        CONFIG_HASH_ANNOTATION: content_hash(text),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_FILE: text}}
