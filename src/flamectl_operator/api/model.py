"""Base of all models of the API: reads JSON of the API server, and provides the types of the schema."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from flamectl_operator.api.rules import VALIDATIONS, Rule, broken


def without_nulls(value: Any) -> Any:
    """Return JSON data without null fields, because null means absent in this API and would delete in a merge patch."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


class PlainModel(BaseModel):  # noqa: PLW1641 - pydantic adds a hash, because it is immutable
    """An object of the API without rules about several fields: camelCase in JSON, immutable, and strict about unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
    )

    def __eq__(self, other: object) -> bool:
        """Compare the fields. Pydantic's own comparison takes three times as long, and each write of a status needs some."""
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__ and (self.__pydantic_extra__ or {}) == (other.__pydantic_extra__ or {})

    def having(self, fields: Mapping[str, Any]) -> Self:
        """Return a copy with these fields, or this object if it has them already. The fields are not validated."""
        return self if fields.items() <= self.__dict__.items() else self.model_copy(update=dict(fields))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return itself, because it is immutable. Pydantic copies some defaults for each object that it makes."""
        return self


class Model(PlainModel):
    """An object of a spec, which may have rules and explicit nulls."""

    #: Rules about several fields; a rule about one field is declared at the field.
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        """Leave out explicit nulls, as the API server does before it fills in defaults."""
        if isinstance(value, dict) and None in value.values():
            return {key: part for key, part in value.items() if part is not None}
        return value

    @model_validator(mode="after")
    def _keeps_rules(self) -> Self:
        if violated := [rule for rule in self.rules if not rule.holds(self)]:
            raise broken([(rule.field, rule.message) for rule in violated])
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the rules to the schema of the object."""
        result = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(result)[VALIDATIONS] = [rule.to_schema() for rule in cls.rules]
        return result

    def authored(self) -> dict[str, Any]:
        """Return the fields that the author set, as plain JSON data: the input of a revision hash.

        Fields at their default are left out at every depth, so that neither an explicit default nor a new optional field of a
        later release changes the result.
        """
        result: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            # Models are immutable, so their defaults need not be copied as get_default() does.
            if field.is_required() or field.default_factory is not None or value != field.default:
                plain = _authored(value)
                if plain not in ({}, []):
                    result[field.alias or name] = plain
        return result


def _authored(value: Any) -> Any:
    if isinstance(value, Model):
        return value.authored()
    if isinstance(value, tuple):
        return [_authored(item) for item in value]
    return value


class AtomicModel(PlainModel):
    """An object that one owner replaces as a whole, so the API server does not record an owner of each of its fields.

    These records would be a fifth of each FlameCluster, and a quarter of what a write of the status costs the API server.
    """

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})


class OpenModel(Model):
    """A part of a Kubernetes object that declares only the fields of rules; other fields pass through."""

    model_config = ConfigDict(extra="allow")


class IntOrString:
    """Kubernetes' int-or-string, for `Annotated[int | str, IntOrString(...)]`.

    Args:
        max_length: Limit for the string, which also bounds the API server's estimate of what a rule costs.
        pattern: A pattern in the schema, for tools that do not support CEL.
    """

    def __init__(self, max_length: int, expected: str, pattern: str | None = None) -> None:
        self._max_length = max_length
        self._expected = expected
        self._pattern = pattern

    def _check(self, value: Any) -> int | str:
        # JSON's true is an int to Python, but not to Kubernetes.
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise PydanticCustomError("int_or_string", "must be {expected}", {"expected": self._expected})
        if isinstance(value, str) and len(value) > self._max_length:
            raise PydanticCustomError("string_too_long", "too long", {"max_length": self._max_length})
        return value

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Accept ints and strings as they are, with one error instead of one for each half of a union."""
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return a schema that lets the API server say what it expects.

        The mark stands for both types, and the API server would list each of them again if `anyOf` did. A fraction without quotes
        fails both branches, and the refusal shows the enum's. Strings are multiples of anything.
        """
        expected = self._expected.replace('"', "'")
        schema: JsonSchemaValue = {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"enum": [expected]}, {"multipleOf": 1}],
            "maxLength": self._max_length,
        }
        if self._pattern:
            schema["pattern"] = self._pattern
        return schema


class MapKey:
    """Makes a list a map with one key field: items merge in server-side apply, and keys are unique."""

    def __init__(self, key: str) -> None:
        self._key = key

    def _check(self, items: tuple[Model, ...]) -> tuple[Model, ...]:
        if not items:
            return items
        seen: set[object] = set()
        name = next(name for name, field in type(items[0]).model_fields.items() if field.alias == self._key)
        for item in items:
            value = getattr(item, name)
            if value in seen:
                raise PydanticCustomError(
                    "duplicate", "must not list {key} {value} twice", {"key": self._key, "value": value}
                )
            seen.add(value)
        return items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Check for duplicates after the items were read."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Declare the key."""
        return {**handler(schema), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self._key]}


Item = TypeVar("Item")
#: A list whose order matters and which is replaced as a whole.
Atomic = Annotated[tuple[Item, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]

INT32_MAX = 2**31 - 1
Flag = StrictBool
Int32 = Annotated[StrictInt, Field(le=INT32_MAX, json_schema_extra={"format": "int32"})]
Int64 = Annotated[StrictInt, Field(json_schema_extra={"format": "int64"})]
#: Text with a maximal length, which keeps objects readable and limits the cost of rules.
Text = Annotated[str, Field(min_length=1, max_length=1024)]
