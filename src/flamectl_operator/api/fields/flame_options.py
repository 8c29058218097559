"""Options of flame-cluster.yaml beyond the HLD, and `clientConfig`. Without a value, Flame's own default applies."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.model import Atomic, Int32, Model
from flamectl_operator.api.quantity import ModelWithQuantities, Quantity

#: `emptyDir.medium` other than the node's disk.
Medium = Literal["Memory"]


class Limits(Model):
    """Limits of the whole cluster."""

    max_sessions: Annotated[Int32, Field(ge=1)] | None = Field(
        None, description="The most sessions that are open at one time; no limit when left out. Flame 0.5 ignores it."
    )


class Recovery(Model):
    """The session manager's handling of executors that fail to start a session."""

    retry_limits: Annotated[Int32, Field(ge=1)] | None = Field(
        None,
        description="Number of retries of a session after Flame executors failed to bind to it; Flame's default, 5, when "
        "left out. Flame 0.5 ignores it.",
    )


class RuntimeStorage(ModelWithQuantities):
    """Storage for files that Flame writes while executors run: an emptyDir for each directory."""

    quantities: ClassVar = ("sizeLimit",)

    medium: Medium | None = Field(
        None,
        description="Memory for a tmpfs, which counts towards the container's memory limit; the node's disk when left "
        "out.",
    )
    size_limit: Quantity | None = Field(
        None, description="Size limit of each directory, such as 10Gi; no limit when left out."
    )


#: A pattern such as `*.log`.
ExcludePattern = Annotated[str, Field(min_length=1, max_length=256)]


class ClientPackage(Model):
    """The packaging of applications by clients."""

    excludes: Annotated[Atomic[ExcludePattern], Field(max_length=64)] = Field(
        (), description="Patterns of files to leave out of a package, such as *.log."
    )


class ClientConfigSpec(Model):
    """The ConfigMap that clients mount at ~/.flame."""

    package: ClientPackage = Field(ClientPackage(), description="Packaging of applications by clients.")
