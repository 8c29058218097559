"""The slot: the default resources of one executor of a session, in Flame's notation (`cpu=1,mem=1g,gpu=1`).

Flame 0.6 ends its session manager on a slot that it cannot parse; the scheduler of 0.5 panics while its process stays up. So such
slots are rejected at admission. Flame counts a missing part as 0, and this API rejects 0, because absent never means zero here:
cpu and mem are both required, also for 0.6. Spaces around the commas are allowed, because Flame trims them.
"""

import re
from typing import Annotated, NamedTuple

from pydantic import Field

from flamectl_operator.api.rules import Rule, matching

# Sizes are bounded so that none overflows Flame's 64 bits: 999999999g is the largest with its unit, and so on.
_SIZE = (
    r"([1-9][0-9]{0,8}[kKmMgG]i?[bB]?"
    r"|[1-9][0-9]{0,5}[tT]i?[bB]?"
    r"|[1-9][0-9]{0,2}[pP]i?[bB]?"
    r"|[1-9][0-9]{0,17})"
)
_PART = rf"(cpu=[1-9][0-9]{{0,5}}|mem={_SIZE}|gpu=(0|[1-9][0-9]{{0,5}}))"
#: Two or three parts; a separate rule rejects duplicates, because an expression without look-ahead cannot.
PATTERN = rf"^ *{_PART}( *, *{_PART}){{1,2}} *$"
#: The notation of 0.5: no gpu, no unit above g, no `Gi`, no `GB`.
_PART_0_5 = r"(cpu=[1-9][0-9]{0,5}|mem=([1-9][0-9]{0,8}[kKmMgG]|[1-9][0-9]{0,17}))"
PATTERN_0_5 = rf"^ *{_PART_0_5} *, *{_PART_0_5} *$"

#: Units of mem in their order.
_UNITS = "kmgtp"
_LETTERS = "kKmMgGtTpPiIbB"

MAX_LENGTH = 100
DEFAULT = "cpu=1,mem=1g"

_SHAPE = matching(
    PATTERN, "must be a list such as cpu=1,mem=1g or cpu=2,mem=512Mi,gpu=1: whole numbers, cpu and mem 1 or more"
)
_PARTS = Rule(
    "size(self.split('cpu=')) == 2 && size(self.split('mem=')) == 2 && size(self.split('gpu=')) <= 2",
    lambda text: text.count("cpu=") == 1 and text.count("mem=") == 1 and text.count("gpu=") <= 1,
    "must have cpu and mem, and no part twice",
)
SlotText = Annotated[str, Field(max_length=MAX_LENGTH), _SHAPE, _PARTS]


def readable_by_0_5(text: str) -> bool:
    """Return whether Flame 0.5 parses the slot correctly."""
    return re.fullmatch(PATTERN_0_5, text, re.ASCII) is not None


class Slot(NamedTuple):
    """A slot as Flame reads it: cores, bytes of memory, and GPUs."""

    cpu: int
    memory: int
    gpu: int


def parse_slot(text: str) -> Slot:
    """Return what a slot that `SlotText` accepts asks for. Units of mem are powers of 1024."""
    parts = dict(part.strip().split("=", 1) for part in text.split(","))
    number = parts["mem"].rstrip(_LETTERS)
    unit = parts["mem"][len(number) :][:1].lower()
    memory = int(number) * 1024 ** (_UNITS.index(unit) + 1 if unit else 0)
    return Slot(int(parts["cpu"]), memory, int(parts.get("gpu", 0)))
