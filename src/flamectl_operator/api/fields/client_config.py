"""`clientConfig`: the configuration file of a cluster's clients."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flamectl_operator.api.model import Atomic, Model

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
