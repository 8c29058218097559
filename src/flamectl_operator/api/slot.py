"""The slot: what one executor of a session gets if the session does not say, in Flame's words (`cpu=1,mem=1g,gpu=1`).

Flame 0.6 ends its session manager over a slot it cannot read; 0.5 panics its scheduler while the process stays up. So
what could not be read is refused at admission. A missing part counts as 0 in Flame, and that is the value which is
refused when written (in this API, absent never means zero): cpu and mem must both be there, also under 0.6. Spaces
around the commas are fine, Flame trims them.
"""

from __future__ import annotations

import re
from typing import Annotated

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
#: Two or three parts; that each comes once is a rule of its own, for without look-ahead no expression can say it.
PATTERN = rf"^ *{_PART}( *, *{_PART}){{1,2}} *$"
#: What 0.5 reads: no gpu, no unit above g, no `Gi`, no `GB`.
_PART_0_5 = r"(cpu=[1-9][0-9]{0,5}|mem=([1-9][0-9]{0,8}[kKmMgG]|[1-9][0-9]{0,17}))"
PATTERN_0_5 = rf"^ *{_PART_0_5} *, *{_PART_0_5} *$"

MAX_LENGTH = 100
DEFAULT = "cpu=1,mem=1g"

_SHAPE = matching(
    PATTERN,
    "must be a list such as cpu=1,mem=1g or cpu=2,mem=512Mi,gpu=1: whole numbers, cpu and mem 1 or more",
)
_PARTS = Rule(
    "size(self.split('cpu=')) == 2 && size(self.split('mem=')) == 2 && size(self.split('gpu=')) <= 2",
    lambda text: text.count("cpu=") == 1 and text.count("mem=") == 1 and text.count("gpu=") <= 1,
    "must have cpu and mem, and no part twice",
)
SlotText = Annotated[str, Field(max_length=MAX_LENGTH), _SHAPE, _PARTS]


def readable_by_0_5(text: str) -> bool:
    """Whether Flame 0.5 reads the slot as it is meant."""
    return re.fullmatch(PATTERN_0_5, text, re.ASCII) is not None
