"""Validation rules, declared once and enforced twice: in CEL by the API server at admission, in Python by the operator.

The operator repeats the check because an object that was stored before a rule existed stays accepted (ratcheting), and because an
older CRD may be installed. Both give the same message.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

#: Key of `x-kubernetes-validations` in a schema, and type of the pydantic error that a broken rule raises.
VALIDATIONS = "x-kubernetes-validations"
BROKEN_RULES = "broken_rules"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about a value. Put it in `Annotated[...]` for a field or in `Model.rules` for an object.

    Args:
        cel: The rule for the API server, about `self`. It sees only declared fields.
        holds: The same rule in Python, called with the value or the model.
        message: The requirement, as text after the path and a colon.
        field: The field of the object in the message, as in `.hostname`; empty for the value itself.
    """

    cel: str
    holds: Callable[[Any], object]
    message: str
    field: str = ""

    def to_schema(self) -> dict[str, str]:
        """Return the entry for `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        if self.field:
            entry["fieldPath"] = self.field
        return entry

    def check(self, value: Any) -> Any:
        """Return the value unchanged, or raise an error that `validation` turns into a problem."""
        if not self.holds(value):
            raise broken([(self.field, self.message)])
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Check the rule after all other declarations of the field."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rule to the schema of the field."""
        result = handler(schema)
        return {**result, VALIDATIONS: [*result.get(VALIDATIONS, []), self.to_schema()]}


def broken(problems: Sequence[tuple[str, str]]) -> PydanticCustomError:
    """Return one pydantic error for all problems of an object, given as the field (see `Rule.field`) and the message."""
    text = "; ".join(message for _, message in problems)
    return PydanticCustomError(BROKEN_RULES, "{text}", {"text": text, "problems": tuple(problems)})


def matching(pattern: str, message: str) -> Rule:
    """Return the rule that a string matches a pattern that RE2 and Python read alike (no look-around, ASCII classes).

    It replaces the schema's own `pattern`, whose message is only the expression. A single quote would end CEL's raw string.
    """
    return Rule(f"self.matches(r'{pattern}')", re.compile(pattern, re.ASCII).fullmatch, message)
