"""Devices of containers, such as GPUs, of which their driver says that they are unhealthy.

The kubelet tells it in the status of the container since Kubernetes 1.36. Nothing else follows from it there: the container runs
on, or fails by what it finds, and no controller replaces the Pod.
"""

from msgspec.structs import replace

from flamectl_operator.kube.pod_views import ContainerStatus, DeviceStatus
from flamectl_operator.runtime.text import one_line

_UNHEALTHY = "Unhealthy"
#: The most characters of the id of a device and of the name of its resource. A driver may write anything.
_MAX_LENGTH = 100
#: Braces stand for fields in remedies.
_NO_BRACES = str.maketrans("{}", "()")


def unhealthy(status: ContainerStatus) -> tuple[DeviceStatus, ...]:
    """Return the first unhealthy device of each resource of a container. Its health may be unknown for a moment."""
    allocated = status.allocated_resources_status
    found = [(each, device) for each in allocated for device in each.resources if device.health == _UNHEALTHY]
    first = {each.name: replace(each, resources=(device,)) for each, device in reversed(found)}
    return tuple(reversed(first.values()))


def unhealthy_device(status: ContainerStatus) -> str:
    """Return the first unhealthy device of a container with its resource or claim, for a message; empty where there is none."""
    first = next(iter(unhealthy(status)), None)
    if first is None:
        return ""
    texts = (first.resources[0].resource_id, first.name)
    device, resource = (one_line(text, _MAX_LENGTH).translate(_NO_BRACES) for text in texts)
    return f'"{device}" ({resource})'
