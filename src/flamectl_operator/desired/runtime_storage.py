"""The emptyDirs for files that Flame writes while executors run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import OWN_VOLUME_PREFIX

if TYPE_CHECKING:
    from flamectl_operator.api.flame_options import RuntimeStorage

#: The volumes of `runtimeStorage`. Logs stay on the node's disk, where a restart or a full tmpfs does not lose them.
RUNTIME_VOLUMES = frozenset(f"{OWN_VOLUME_PREFIX}{name}" for name in ("work", "apps", "data-cache", "tmp", "var"))


def runtime_volumes(volumes: list[dict[str, Any]], storage: RuntimeStorage) -> list[dict[str, Any]]:
    """Return an executor's volumes with the medium and the size limit of the spec.

    Args:
        volumes: The operator's emptyDirs.
        storage: The medium and the size limit.
    """
    wanted = {"medium": storage.medium, "sizeLimit": storage.size_limit}
    source = {field: value for field, value in wanted.items() if value is not None}
    return [volume | {"emptyDir": source} if volume["name"] in RUNTIME_VOLUMES else volume for volume in volumes]
