"""Volumes for PersistentVolumeClaims, because the control plane has no provisioner."""

from tests.e2e.namespace import E2ENamespace


def add_volumes(world: E2ENamespace, count: int, size: str = "10Gi", *, growing: bool = True) -> str:
    """Create volumes that the claims of one test can bind to.

    Args:
        world: The test's namespace.
        count: How many volumes.
        size: Size of each volume.
        growing: Whether their claims may grow.

    Returns:
        The name of the StorageClass that the claims must ask for.
    """
    name = f"volumes-of-{world.namespace}"
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": growing,
    }
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{name}-{number}"},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": name,
                "hostPath": {"path": f"/var/lib/volumes/{number}"},
            },
        }
        for number in range(count)
    ]
    world.apply(storage_class, *volumes)
    return name
