"""Writes the software bill of materials of the image from the lock file: `python -m tools.sbom`.

CycloneDX 1.6 in JSON: each package that `requirements/run.txt` locks for Linux, with its hashes and what needs it. The file has
no time and no random number, so that the same lock file gives the same bytes. The base image is not in it: `tools.release` has
the builder describe that.
"""

import json
import re
import tomllib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "run.txt"
SBOM = ROOT / "requirements" / "run.cdx.json"
_PACKAGE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.*?))? \\$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^ +#(?: via|  ) (?P<name>[\w.-]+)(?: \(pyproject\.toml\))?$")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the lock file.

    Attributes:
        hashes: SHA-256 of each file that may be installed, in hex.
        needed_by: Names of the packages that need it.
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def reference(self) -> str:
        """Return its package URL."""
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def packages(lock: str) -> tuple[Package, ...]:
    """Return the packages that a lock file has for Linux."""
    found: list[Package] = []
    for block in re.split(r"\n(?=[^\s#])", lock):
        lines = block.splitlines()
        first = _PACKAGE.match(lines[0]) if lines else None
        if first is None:
            if any(line and not line.startswith("#") for line in lines):
                raise ValueError(f"not a locked package: {lines[0]}")
            continue
        if "win32" in (first["marker"] or ""):
            continue
        needed_by = tuple(match["name"] for line in lines if (match := _VIA.match(line)))
        found.append(Package(first["name"], first["version"], tuple(_HASH.findall(block)), needed_by))
    return tuple(found)


def render(lock: str, project: dict[str, Any]) -> str:
    """Return the bill of materials.

    Args:
        lock: The text of the lock file.
        project: The table `project` of pyproject.toml.
    """
    locked = packages(lock)
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, root + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": root,
            }
        },
        "components": [_component(each) for each in locked],
        "dependencies": [_needs(root, project["name"], locked), *(_needs(p.reference, p.name, locked) for p in locked)],
    }
    return json.dumps(bill, indent=2) + "\n"


def _component(package: Package) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.reference,
        "name": package.name,
        "version": package.version,
        "purl": package.reference,
        # One file of several is installed, so that none of the hashes is the component's own.
        "externalReferences": [
            {
                "type": "distribution",
                "url": package.reference,
                "comment": "one of these files, by its hash",
                "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
            }
        ],
    }


def _needs(reference: str, name: str, locked: Sequence[Package]) -> dict[str, Any]:
    return {"ref": reference, "dependsOn": [each.reference for each in locked if name in each.needed_by]}


def main() -> None:
    """Write the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    SBOM.write_text(render(LOCK.read_text(encoding="utf-8"), project), encoding="utf-8")


if __name__ == "__main__":
    main()
