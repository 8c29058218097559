"""Kubernetes' quantities: `500m`, `1.5Gi`, `2`, `1e3`. The grammar is that of `resource.Quantity` in apimachinery."""

import re
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from flamectl_operator.api.model import IntOrString, Model
from flamectl_operator.api.rules import Rule

#: Not negative, because Pods reject negative quantities. The exponent is limited, so that a short text cannot take gigabytes.
PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$"
#: The most characters, far more than any quantity needs.
MAX_LENGTH = 64

_QUANTITY = re.compile(r"(?P<sign>[-+]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<suffix>.*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]{1,2})", re.ASCII)
_FACTORS = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    "": Decimal(1),
    **{suffix: Decimal(10) ** (3 * (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Decimal(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
}
# Digits; 64 characters of number times 2**60 or 10**99 stay exact.
_PRECISION = 256


@lru_cache(maxsize=256)
def parse_quantity(quantity: int | str) -> Decimal:
    """Return the exact value in cores, bytes or pieces, or raise ValueError. Specs have few different ones."""
    if isinstance(quantity, int):
        return Decimal(quantity)
    match = _QUANTITY.fullmatch(quantity) if len(quantity) <= MAX_LENGTH else None
    if match is None:
        raise ValueError(f"not a quantity: {quantity[:MAX_LENGTH]!r}")
    suffix = match["suffix"]
    if (factor := _FACTORS.get(suffix)) is None:
        if (exponent := _EXPONENT.fullmatch(suffix)) is None:
            raise ValueError(f"unknown unit in quantity {quantity!r}")
        factor = Decimal(10) ** int(exponent[1])
    with localcontext() as context:
        context.prec = _PRECISION
        value = Decimal(match["number"]) * factor
    return -value if match["sign"] == "-" else value


def quantity_or_none(quantity: Any) -> Decimal | None:
    """Return the value of a quantity, also of a fraction without quotes; None for JSON that the API server rejects."""
    if isinstance(quantity, bool) or not isinstance(quantity, int | float | str):
        return None
    try:
        return parse_quantity(repr(quantity) if isinstance(quantity, float) else quantity)
    except ValueError:
        return None


def amount(quantity: Any) -> Decimal:
    """Return the value of a quantity in any notation; 0 for what is no quantity."""
    return quantity_or_none(quantity) or Decimal(0)


def canonical(quantity: int | str) -> str:
    """Return the plain decimal number of equal quantities, or raise ValueError: `1`, `"1"` and `1000m` are `1`."""
    text = f"{parse_quantity(quantity):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_quantity(quantity: int | str) -> bool:
    """Return whether a value is a quantity of 0 or more."""
    if isinstance(quantity, int):
        return quantity >= 0
    return len(quantity) <= MAX_LENGTH and re.fullmatch(PATTERN, quantity, re.ASCII) is not None


class ModelWithQuantities(Model):
    """An object in some of whose fields a revision hash reads equal quantities alike."""

    #: The fields that hold a quantity, or quantities by name.
    quantities: ClassVar[tuple[str, ...]]

    def authored(self) -> dict[str, Any]:
        """Return the fields that the author set, with equal quantities alike."""
        result = super().authored()
        for field in self.quantities:
            if isinstance(value := result.get(field), dict):
                result[field] = {name: canonical(quantity) for name, quantity in value.items()}
            elif value is not None:
                result[field] = canonical(value)
        return result


_QUANTITY_TYPE = IntOrString(
    MAX_LENGTH, 'a quantity: a whole number, or a string such as "0.5", "500m" or "1Gi"; quote a fraction', PATTERN
)
_MESSAGE = "must be a quantity of 0 or more, such as 2, 500m or 1Gi"

# The API server of Kubernetes 1.30 estimates the cost of a rule without the length of such a string. It counts each function that
# reads the string as if that had 3 MB, `type(self) == int` too, and refuses a CRD that exceeds its budget. `in` and comparisons
# with short strings are cheap; they find the minus sign here.
Quantity = Annotated[
    int | str,
    _QUANTITY_TYPE,
    Rule("type(self) in [int] ? self >= 0 : isQuantity(self) && (self < '-' || self >= '.')", is_quantity, _MESSAGE),
]

#: A quantity in a list of hundreds, of which the rule checks the first character. The schema's pattern checks the rest.
ListedQuantity = Annotated[
    int | str,
    _QUANTITY_TYPE,
    Rule(
        "type(self) in [int] ? self >= 0"
        " : (self >= '+' && self < ',') || (self >= '.' && self < '/') || (self >= '0' && self < ':')",
        is_quantity,
        _MESSAGE,
    ),
]
