"""A component's container in the spec: resources and environment, as in core/v1."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from flamectl_operator.api.constants import OWN_VARIABLES
from flamectl_operator.api.model import Flag, MapKey, Model, Text, without_nulls
from flamectl_operator.api.quantity import ListedQuantity, ModelWithQuantities, Quantity, parse_quantity
from flamectl_operator.api.rules import Rule, matching

ImagePullPolicy = Annotated[
    Literal["Always", "IfNotPresent", "Never"] | None,
    Field(description="Pull policy of the image; Kubernetes' own default when left out."),
]

# Container runtimes parse image references; this rule only rejects text that can never be one.
Image = Annotated[
    str, Field(min_length=1, max_length=1024), matching(r"^[^ \t\r\n]*$", "must be an image reference, without spaces")
]

Quantities = Annotated[dict[str, Quantity], Field(max_length=16), BeforeValidator(without_nulls)]


# Admission compares these resources, and others where both are whole numbers; the operator compares all. To compare more
# quantities would exceed the budget that Kubernetes 1.30 has for the rules of a CRD.
_COMPARED = ("cpu", "memory", "ephemeral-storage")


def _within_limit(resources: "ResourceRequirements", name: str) -> bool:
    request, limit = resources.requests.get(name), resources.limits.get(name)
    return request is None or limit is None or parse_quantity(request) <= parse_quantity(limit)


class ResourceClaim(Model):
    """A resource claim of the Pod that the container uses."""

    name: Text = Field(description="Name of an entry in resourceClaims of the Pod; see podTemplate.spec.")
    request: Text | None = Field(None, description="Request within the claim; the whole claim when left out.")


class ResourceRequirements(ModelWithQuantities):
    """Compute resources of a container, as in core/v1."""

    quantities: ClassVar = ("limits", "requests")
    rules: ClassVar = (
        Rule(
            f"!has(self.limits) || !has(self.requests) || [{', '.join(repr(name) for name in _COMPARED)}].all(r,"
            " !(r in self.requests) || !(r in self.limits)"
            " || !isQuantity(string(self.requests[r])) || !isQuantity(string(self.limits[r]))"
            " || quantity(string(self.requests[r])).compareTo(quantity(string(self.limits[r]))) <= 0)",
            lambda resources: all(_within_limit(resources, name) for name in _COMPARED),
            "requests must not be above limits",
        ),
        Rule(
            "!has(self.limits) || !has(self.requests) || self.requests.all(r, !(r in self.limits)"
            f" || r in [{', '.join(repr(name) for name in _COMPARED)}]"
            " || !(type(self.requests[r]) in [int]) || !(type(self.limits[r]) in [int]) || self.requests[r] <= self.limits[r])",
            lambda resources: all(
                _within_limit(resources, name) for name in resources.requests if name not in _COMPARED
            ),
            "requests must not be above limits",
        ),
    )

    limits: Quantities = Field(
        {},
        description='Limits of the container, by resource name, such as cpu, memory or nvidia.com/gpu. Quote a fraction: "0.5".',
    )
    requests: Quantities = Field(
        {},
        description='Requests of the container, by resource name; equal to the limits when left out. Quote a fraction: "0.5".',
    )
    claims: Annotated[tuple[ResourceClaim, ...], Field(max_length=16), MapKey("name")] = Field(
        (), description="Dynamically allocated resources that the container uses."
    )


class ObjectFieldSelector(Model):
    """A field of the Pod."""

    api_version: Text = Field("v1", description="Version of the schema that fieldPath is written for.")
    field_path: Text = Field(description="Path of a field of the Pod, such as status.podIP or metadata.labels['app'].")


class ResourceFieldSelector(ModelWithQuantities):
    """A resource of a container."""

    quantities: ClassVar = ("divisor",)

    container_name: Text | None = Field(None, description="Name of the container; this container when left out.")
    resource: Text = Field(description="Resource to select, such as limits.cpu or requests.memory.")
    divisor: ListedQuantity | None = Field(None, description="Unit of the value, as a quantity; 1 when left out.")


class KeySelector(Model):
    """A key of a ConfigMap or Secret in the namespace of the FlameCluster."""

    name: Text = Field(description="Name of the object.")
    key: Text = Field(description="Key within the object.")
    optional: Flag = Field(default=False, description="Whether the container starts without the object or the key.")


class FileKeySelector(Model):
    """A key of a file with environment variables in a volume of the Pod."""

    volume_name: Text = Field(description="Name of the volume, which an init container has written to.")
    path: Text = Field(description="Path of the file within the volume.")
    key: Text = Field(description="Key within the file.")
    optional: Flag = Field(default=False, description="Whether the container starts without the file or the key.")


class EnvVarSource(Model):
    """The source of an environment variable's value."""

    rules: ClassVar = (
        Rule(
            "[has(self.fieldRef), has(self.resourceFieldRef), has(self.configMapKeyRef), has(self.secretKeyRef),"
            " has(self.fileKeyRef)].filter(one, one).size() == 1",
            lambda source: len(source.model_fields_set) == 1,
            "must have exactly one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef and fileKeyRef",
        ),
    )

    field_ref: ObjectFieldSelector | None = Field(None, description="A field of the Pod.")
    resource_field_ref: ResourceFieldSelector | None = Field(
        None, description="A resource limit or request of a container."
    )
    config_map_key_ref: KeySelector | None = Field(None, description="A key of a ConfigMap in the same namespace.")
    secret_key_ref: KeySelector | None = Field(None, description="A key of a Secret in the same namespace.")
    file_key_ref: FileKeySelector | None = Field(
        None, description="A key of a file in a volume of the Pod; Kubernetes 1.35 or newer."
    )


class EnvVar(Model):
    """An environment variable of a component's container."""

    rules: ClassVar = (
        Rule(
            "!has(self.value) || self.value == '' || !has(self.valueFrom)",
            lambda variable: not variable.value or variable.value_from is None,
            "must have either value or valueFrom, not both",
        ),
        Rule(
            f"!(self.name in [{', '.join(repr(name) for name in OWN_VARIABLES)}])",
            lambda variable: variable.name not in OWN_VARIABLES,
            f"must not be one of {', '.join(OWN_VARIABLES)}: the operator sets them",
            ".name",
        ),
    )

    # Kubernetes 1.34 and later: printable ASCII except the equals sign.
    name: Annotated[
        str,
        Field(min_length=1, max_length=253),
        matching(r"^[ -<>-~]*$", "must be the name of an environment variable: printable ASCII without ="),
    ] = Field(description="Name of the variable. RUST_LOG overrides the operator's default.")
    value: Annotated[str, Field(max_length=32768)] = Field(
        "", description="Value of the variable; $(NAME) refers to an earlier variable."
    )
    value_from: EnvVarSource | None = Field(None, description="Source of the value, in place of value.")


Environment = Annotated[tuple[EnvVar, ...], Field(max_length=256), MapKey("name")]
