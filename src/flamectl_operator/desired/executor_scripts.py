"""The scripts of the executors: the init container, and the preStop hook.

The init container waits until the session manager's backend accepts connections.

Flame's executor manager connects once at its start and exits if there is no answer. The container uses the executor's own image,
so that the node needs no second image, and checks the port with bash, Python or nc, whichever the image has.

The preStop hook holds the end of a Pod up as long as the executor manager has work. Somebody else may delete the Pod: the
eviction API, a drain of the node, a person. The kubelet runs the hook before it stops any process. Flame's executor manager runs
the work of sessions in processes of its own, so the hook waits until it has no child. The hook needs the process namespace of the
Pod, because without it the executor manager is process 1 and ignores SIGTERM.
"""

from typing import Any

from flamectl_operator.api.constants import WAIT_CONTAINER
from flamectl_operator.api.fields.update_strategy import OnTermination
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
    """Return the command that waits for a backend, given as host:port. A podTemplate may not override it."""
    host, port = backend.rsplit(":", 1)
    return {"name": WAIT_CONTAINER, "command": ["sh", "-c", _SCRIPT.format(host=host, port=port, probes=PROBES)]}


#: Seconds without an answer of the session manager after which the hook ends, because nobody wants the work any more.
SILENCE_LIMIT_SECONDS = 10

# Only builtins of the shell read /proc, so that the hook starts no process but `sleep`. The name of a process may hold spaces and
# brackets, so the fields behind it are counted from the last one. The first wait lets the operator release the node.
_HOOK = """\
host='{host}' port={port}
{probes}else
  answers() {{ :; }}
fi
clock() {{ read -r up _ </proc/uptime; up=${{up%%.*}}; }}
working() {{
  managers= parents=' '
  for each in /proc/[0-9]*/stat; do
    {{ read -r line <"$each"; }} 2>/dev/null || continue
    name=${{line#*(}} rest=${{line##*) }}
    case $name in flame-executor*) managers="$managers ${{line%% *}}" ;; esac
    case $rest in [ZX]*) continue ;; esac
    rest=${{rest#* }}
    parents="$parents${{rest%% *}} "
  done
  for id in $managers; do
    case $parents in *" $id "*) return 0 ;; esac
  done
  return 1
}}
clock
end=$((up + {seconds})) heard=$up
sleep 2
while working && clock && [ "$up" -lt "$end" ]; do
  if answers; then clock; heard=$up; fi
  clock
  [ $((up - heard)) -lt {silent} ] || break
  sleep 1
done
exit 0
"""


def termination_hook(backend: str, options: OnTermination) -> dict[str, Any]:
    """Return what the executor's container must have for the hook; the session manager's backend is given as host:port."""
    host, port = backend.rsplit(":", 1)
    script = _HOOK.format(
        host=host, port=port, probes=PROBES, seconds=options.max_seconds, silent=SILENCE_LIMIT_SECONDS
    )
    return {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", script]}}}}
