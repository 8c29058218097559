"""The answer of `flamectl-operator plan`, as text, JSON or YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import yaml

from flamectl_operator.kube.recording_client import Write
from flamectl_operator.subreconcilers import PIPELINE

Output = Literal["text", "json", "yaml"]


@dataclass(frozen=True)
class Entry:
    """Something that the operator would do or say.

    Args:
        part: The part of the stage; empty for the stage's own.
        write: The request, for one that changes an object.
    """

    stage: str
    part: str = ""
    write: Write | None = None
    message: str = ""


@dataclass
class PlanResult:
    """A plan for the FlameCluster of this namespace and name."""

    cluster: tuple[str, str]
    entries: list[Entry] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def writes(self) -> list[Write]:
        """The changes of objects; a status only says how the work goes, and a Lease only keeps operators apart."""
        return [each.write for each in self.entries if each.write is not None]

    @property
    def exit_code(self) -> int:
        """0 when there is nothing to do, 2 when there are changes, 1 when something would fail."""
        return 1 if self.errors else 2 if self.writes else 0

    def text(self) -> str:
        """Return the plan as a tree by stage."""
        count = len(self.writes)
        lines = [f"FlameCluster {'/'.join(self.cluster)}: {count or 'no'} change{'s' * (count != 1)}"]
        for stage in dict.fromkeys(each.name for each in PIPELINE.stages()):
            mine = [each for each in self.entries if each.stage == stage]
            lines += [stage] if mine else []
            lines += [f"  {each.message}" if each.write is None else f"    {each.write}" for each in mine]
        lines += [f"Waits: {each}" for each in self.waits]
        lines += [f"Fails: {each}" for each in self.errors]
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "flameCluster": {"namespace": self.cluster[0], "name": self.cluster[1]},
            "changes": [
                {"stage": each.stage, "part": each.part, "verb": each.write.verb}
                | {"kind": each.write.resource.kind, "name": each.write.name}
                for each in self.entries
                if each.write is not None
            ],
            "events": [
                {"stage": each.stage, "part": each.part, "message": each.message}
                for each in self.entries
                if each.write is None
            ],
            "waits": self.waits,
            "errors": self.errors,
        }

    def rendered(self, output: Output) -> str:
        """Return the plan as text, JSON or YAML."""
        if output == "text":
            return self.text()
        if output == "json":
            return msgspec.json.format(msgspec.json.encode(self.data())).decode() + "\n"
        return yaml.safe_dump(self.data(), sort_keys=False)
