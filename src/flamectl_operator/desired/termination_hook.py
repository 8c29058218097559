"""The executors' preStop hook: it holds the end of a Pod up as long as the executor manager has work.

Somebody else may delete the Pod: the eviction API, a drain of the node, a person. The kubelet runs the hook before it stops any
process. Flame's executor manager runs the work of sessions in processes of its own, so the hook waits until it has no child. The
hook needs the process namespace of the Pod, because without it the executor manager is process 1 and ignores SIGTERM.
"""

from __future__ import annotations

from typing import Any

from flamectl_operator.api.fields.drain import OnTermination
from flamectl_operator.desired.wait_container import PROBES

#: Seconds without an answer of the session manager after which the hook ends, because nobody wants the work any more.
SILENCE_LIMIT_SECONDS = 10
# Only builtins of the shell read /proc, so that the hook starts no process but `sleep`. The name of a process may hold spaces and
# brackets, so the fields behind it are counted from the last one. The first wait lets the operator release the node.
_SCRIPT = """\
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
    """Return the fields that the executor's container must have for the hook; `backend` is host:port."""
    host, port = backend.rsplit(":", 1)
    script = _SCRIPT.format(
        host=host, port=port, probes=PROBES, seconds=options.max_seconds, silent=SILENCE_LIMIT_SECONDS
    )
    return {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", script]}}}}
