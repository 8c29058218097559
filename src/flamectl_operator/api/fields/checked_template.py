"""A `podTemplate` as plain data that a model has checked. The operator alone rejects merge directives: CEL cannot see them."""

import itertools
from collections.abc import Iterator
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from flamectl_operator.api.fields.merge_keys import repeated
from flamectl_operator.api.fields.pod_template import PodTemplate
from flamectl_operator.api.model import without_nulls
from flamectl_operator.api.rules import broken

#: The most merge directives or repeated entries in one message: each has a whole path, and many long paths take a lot of memory.
_SHOWN = 10


class CheckedAgainst:
    """Keeps a podTemplate as plain data, but validates and describes it with a model."""

    def __init__(self, model: type[PodTemplate]) -> None:
        self._model = model

    def _check(self, value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        value = _tidy(value, self._model.own)
        handler(value)
        if found := list(itertools.islice(_directives(value), _SHOWN)):
            raise broken([(path, "must not be there: merge directives are not supported") for path in found])
        if same := list(itertools.islice(repeated(value), _SHOWN)):
            raise broken(same)
        return value

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Run the model's validation and return the input."""
        return core_schema.no_info_wrap_validator_function(
            self._check,
            handler.generate_schema(self._model),
            serialization=core_schema.plain_serializer_function_ser_schema(without_nulls),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.WrapValidatorFunctionSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the model."""
        return handler(schema["schema"])


def pod_spec(template: dict[str, Any] | None) -> dict[str, Any]:
    """Return the PodSpec of a checked template, in which containers are objects with names."""
    found: dict[str, Any] = (template or {}).get("spec", {})
    return found


def resources(template: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the resources that a checked template sets, of the whole Pod and of its containers, by the path of their parent."""
    if not (pod := pod_spec(template)):
        return {}
    members = {"": pod}
    for field in ("containers", "initContainers"):
        members |= {f".{field}[name={each['name']}]": each for each in pod.get(field, ())}
    return {path: found for path, each in members.items() if isinstance(found := each.get("resources"), dict)}


def _tidy(template: Any, own: str) -> Any:
    """Return a template without nulls and empty parts, such as the `resources: {}` that `kubectl create --dry-run` prints."""
    template = without_nulls(template)
    if not isinstance(template, dict):
        return template
    parts = {
        name: {key: field for key, field in part.items() if field not in ({}, [])} if isinstance(part, dict) else part
        for name, part in template.items()
    }
    if isinstance(spec := parts.get("spec"), dict) and isinstance(containers := spec.get("containers"), list):
        spec["containers"] = [_without_empty_resources(each) if _is(each, own) else each for each in containers]
    return {name: part for name, part in parts.items() if part != {}}


def _is(container: Any, own: str) -> bool:
    return isinstance(container, dict) and container.get("name") == own


def _without_empty_resources(container: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in container.items() if key != "resources" or part != {}}


def _directives(value: Any) -> Iterator[str]:
    """Iterate over the paths of merge directives. Only a directive costs a path."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key.startswith("$"):
                yield f".{key}"
            else:
                yield from (f".{key}{path}" for path in _directives(part))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from (f"[{index}]{path}" for path in _directives(part))
