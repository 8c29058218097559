"""The executors' init container: it waits until the session manager's backend accepts connections.

Flame's executor manager connects once at its start and exits if there is no answer. The container uses the executor's own image,
so that the node needs no second image, and checks the port with bash, Python or nc, whichever the image has.
"""

from __future__ import annotations

from typing import Any

from flamectl_operator.api.constants import WAIT_CONTAINER
from flamectl_operator.api.flamecluster import ExecutorManagerSpec
from flamectl_operator.desired.pod_template import CONTAINER_SECURITY
from flamectl_operator.settings.model import FlameSettings

#: Defines `answers`, which checks whether $port of $host accepts connections; continues with an `else`.
# Each check has a timeout of 2 s, because a connection to an address that does not answer hangs for two minutes.
# An nc that cannot check a port prints its usage. Without this test the container would wait for ever.
PROBES = """\
if command -v bash >/dev/null && command -v timeout >/dev/null; then
  answers() { timeout 2 bash -c ": </dev/tcp/$host/$port" 2>/dev/null; }
elif command -v python3 >/dev/null; then
  answers() { python3 -c "import socket; socket.create_connection(('$host', $port), 2)" 2>/dev/null; }
elif command -v nc >/dev/null && ! nc -z -w 2 127.0.0.1 1 2>&1 | grep -qi usage; then
  answers() { nc -z -w 2 "$host" "$port"; }
"""
_SCRIPT = """\
host='{host}' port={port}
{probes}else
  echo "not waiting for $host:$port, because this image has no bash, no python3 and no nc that knows -z"
  exit 0
fi
until answers; do echo "waiting for $host:$port"; sleep 1; done
"""


def wait_defaults(component: ExecutorManagerSpec, settings: FlameSettings) -> dict[str, Any]:
    """Return the container's defaults but for its resources: the executors' image unless the settings name another."""
    container: dict[str, Any] = {
        "name": WAIT_CONTAINER,
        "image": settings.init_image or component.image,
        "securityContext": CONTAINER_SECURITY | {"readOnlyRootFilesystem": True},
    }
    if not settings.init_image and component.image_pull_policy is not None:
        container["imagePullPolicy"] = component.image_pull_policy
    return container


def wait_command(backend: str) -> dict[str, Any]:
    """Return the command, which a podTemplate may not override; `backend` is host:port."""
    host, port = backend.rsplit(":", 1)
    return {"name": WAIT_CONTAINER, "command": ["sh", "-c", _SCRIPT.format(host=host, port=port, probes=PROBES)]}
