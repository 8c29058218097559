"""Writes docs/subreconcilers.md from the pipeline: `python -m tools.steps_page`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from flamectl_operator.runtime.workflow_graph import as_mermaid, as_text
from flamectl_operator.subreconcilers import PIPELINE

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "subreconcilers.md"

INTRO = """\
# The subreconcilers

<!-- Written by `make generate` from the pipeline in src/flamectl_operator/subreconcilers/__init__.py. -->

A pass over a FlameCluster takes a snapshot of its objects, resolves the effective spec, and then runs the pipeline below, which
`flamectl-operator graph` prints. It has seven stages, and a stage has one or more parts. Each part is one file in
`src/flamectl_operator/subreconcilers/`. A part is idempotent, and leaves early when there is nothing to do.

## How a part ends

| outcome | the pass | the next pass |
|---|---|---|
| `done` | goes on | when something changes |
| `wait` | goes on | after `delay` seconds, or when something changes |
| `stop` | ends here: only the opening UpdateStatus stops a pass | likewise |
| `error` | goes on; an error of the opening UpdateStatus ends it | with backoff, 0.5 s to a minute |

The shortest delay of all parts wins. A refusal (quota, admission, RBAC) is an error that `Degraded` shows at once; so is a bug.
Neither keeps the other parts from their work. A conflict is no error: the view was old, and a read updates it.

A batch of requests has ten seconds in a pass, so that the status is written in between; the next pass follows at once and does
the rest (`NextBatch`, `Creating`).

[Troubleshooting](troubleshooting.md#reading-the-log) explains the lines that a pass logs, and their fields. `part` is empty
for the part that has the name of its stage; `Observe` is what a pass does before its first part. A stage or a part that does
not run says so at `debug`, with the outcome `skipped` and `why`. The metrics of parts have the labels `subreconciler`, `part`
and `phase`.

## The pipeline
"""


def render() -> str:
    """Return the page."""
    return "\n".join(
        [INTRO, _fenced("mermaid", as_mermaid(PIPELINE)), "", _fenced("text", as_text(PIPELINE)), *_steps()]
    )


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _steps() -> Iterator[str]:
    for number, stage in enumerate(PIPELINE.stages(), start=1):
        yield f"\n## {number}. {stage.title}"
        for step in stage.actions():
            part = stage.place(step).part
            yield f"\n### {part}\n" if part else ""
            yield inspect.cleandoc(type(step).__doc__ or "")
            yield f"\nFile: `{type(step).__module__.rpartition('.')[2]}.py`."


def main() -> None:
    """Write the page."""
    PAGE.write_text(render() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
