"""The desired objects by a spec, or the reason why the spec is invalid."""

from dataclasses import dataclass

from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.settings.model import FlameSettings

#: Bytes that a rendered spec takes at most, by measurement: in any case, for each byte of the spec, and for each value in it.
#: Values cost most, because a list of a list takes two bytes in JSON and some hundred in memory.
SPEC_COST, BYTE_COST, VALUE_COST = 28 * 1024, 3, 280


@dataclass(frozen=True)
class RenderedSpec:
    """The desired objects of one generation under some settings, which every pass over it shares.

    Args:
        spec_digest: The digest of the spec. It may differ at the same generation: after etcd was set back, or under another CRD.
        desired: The objects that should exist; None when the spec is invalid.
        problem: The reason why the spec is invalid; empty when it is valid.
        spec_size: Bytes of the encoded spec.
    """

    generation: int
    spec_digest: bytes
    settings: FlameSettings
    desired: DesiredCluster | None
    problem: str = ""
    spec_size: int = 0
    values: int = 0

    @property
    def inputs(self) -> tuple[int, bytes, FlameSettings]:
        """The generation, the digest of the spec, and the settings: all that the rest is computed from."""
        return self.generation, self.spec_digest, self.settings

    @property
    def cost(self) -> int:
        """The most bytes of memory that the rendered spec takes."""
        if self.desired is None:
            return 1024 + 4 * len(self.problem)
        return SPEC_COST + BYTE_COST * self.spec_size + VALUE_COST * self.values
