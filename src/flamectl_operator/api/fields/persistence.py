"""The storage for data of a component that must survive its Pod: a PersistentVolumeClaim of the operator, or an existing one."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.model import Atomic, Model
from flamectl_operator.api.quantity import Quantity, parse_quantity
from flamectl_operator.api.rules import Rule, matching

AccessMode = Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]
DeletionPolicy = Literal["Delete", "Retain"]

#: Name of an object as Kubernetes has it (RFC 1123 subdomain).
_OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


#: A name in a path, as a regular expression.
SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
#: Storage of the session manager that lies on its claim.
PERSISTENT_STORAGE = re.compile(
    rf"^((fs|file|filesystem):///var/lib/flame/session(/{SEGMENT})*/?"
    rf"|sqlite:(//)?/var/lib/flame/session(/{SEGMENT})+)$",
    re.ASCII,
)


class Persistence(Model):
    """A PersistentVolumeClaim of a component."""

    rules: ClassVar = (
        Rule(
            "has(self.size) != has(self.existingClaim)",
            lambda claim: (claim.size is None) != (claim.existing_claim is None),
            "must have either size, for a claim that the operator makes, or existingClaim",
        ),
        Rule(
            "!has(self.existingClaim) || (!has(self.storageClassName) && !has(self.accessModes))",
            lambda claim: (
                claim.existing_claim is None or (claim.storage_class_name is None and claim.access_modes is None)
            ),
            "must not be set together with storageClassName or accessModes: the operator does not change that claim",
            ".existingClaim",
        ),
    )

    size: (
        Annotated[
            Quantity,
            Rule(
                "type(self) == int ? self > 0 : !isQuantity(self) || quantity(self).isGreaterThan(quantity('0'))",
                lambda size: parse_quantity(size) > 0,
                "must be more than 0",
            ),
        ]
        | None
    ) = Field(
        None, description="Size of the claim, such as 10Gi. A larger size grows the claim; a claim cannot shrink."
    )
    storage_class_name: (
        Annotated[
            str,
            Field(max_length=253),
            matching(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", "must be the name of a StorageClass, or empty"),
        ]
        | None
    ) = Field(
        None,
        description="StorageClass of the claim; the cluster's default when left out, no dynamic provisioning when empty.",
    )
    access_modes: (
        Annotated[
            Atomic[AccessMode],
            Field(min_length=1, max_length=3),
            Rule(
                "self.size() == 1 || !('ReadWriteOncePod' in self)",
                lambda modes: len(modes) == 1 or "ReadWriteOncePod" not in modes,
                "must not have ReadWriteOncePod together with other modes",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Access modes of the claim; ReadWriteOnce when left out. With ReadWriteOncePod, where the class has "
        "it, no second Pod can mount it.",
    )
    existing_claim: (
        Annotated[
            str,
            Field(min_length=1, max_length=253),
            matching(_OBJECT_NAME, "must be the name of a PersistentVolumeClaim"),
        ]
        | None
    ) = Field(None, description="A claim in the same namespace to use; the operator neither changes nor deletes it.")
    deletion_policy: DeletionPolicy = Field(
        "Delete",
        description="Delete deletes the claim with the FlameCluster, or when scaling down leaves the claim without a Pod. Retain "
        "keeps the claim. No effect on existingClaim.",
    )

    def authored(self) -> dict[str, Any]:
        """Return which claim is mounted: only that is in the Pod, and a claim that grows restarts nothing."""
        return {"existingClaim": self.existing_claim} if self.existing_claim is not None else {"claim": True}
