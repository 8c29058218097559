"""Digests in place of large content that is only compared.

A user who creates objects with the names and owners of a FlameCluster's decides how large they are. The content of the operator's
own objects has some KiB, at most 64 KiB. So the store keeps only a digest of large content.
"""

import hashlib
from typing import Any, Final

import msgspec

from flamectl_operator.desired.network_policy import operators
from flamectl_operator.kube.views import ConfigMapView, NetworkPolicyView

#: The most characters of a value of a ConfigMap that is kept as it is.
MAX_VALUE_SIZE = 2048
#: The field of a rule that has the digest of others. The API server drops such a field, so nobody can write it.
_DIGEST = "sha256"

#: Stands for binary data.
BINARY: Final = {"": ""}
#: Stands for larger content. No ConfigMap can have an empty key, so this never equals the desired content.
TOO_LARGE: Final = {"": ""}
#: Stands for the spec of a NetworkPolicy that is foreign or too large. No NetworkPolicy can have it.
NO_POLICY: Final = msgspec.Raw(b"null")


def digested_data(data: dict[str, str]) -> dict[str, str]:
    """Return the data of a ConfigMap with a digest in place of each large value. Digested data stays the same.

    The digest follows a slash in the key, because no user can write a key with a slash.
    """
    return {key if _short(value) else f"{key}/{_digest(value.encode())}": _kept(value) for key, value in data.items()}


def key_of(digested: str) -> str:
    """Return the key of a ConfigMap's data from the key of its digested data."""
    return digested.partition("/")[0]


def digested_policy(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec of a NetworkPolicy, digested or not, with a digest of its ingress rules. The operators' rule stays."""
    rules = spec.get("ingress")
    if not isinstance(rules, list) or any(isinstance(rule, dict) and _DIGEST in rule for rule in rules):
        return spec
    others = rules[:-1] if operators(spec) else rules
    digest = {_DIGEST: _digest(msgspec.json.encode(others, order="deterministic"))}
    return {**spec, "ingress": [digest, *rules[len(others) :]]}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _short(value: str) -> bool:
    return len(value) <= MAX_VALUE_SIZE


def _kept(value: str) -> str:
    return value if _short(value) else ""


def is_too_large(config_map: ConfigMapView) -> bool:
    """Return whether the store dropped the content of a ConfigMap because of its size."""
    return config_map.data == TOO_LARGE


def is_too_large_policy(policy: NetworkPolicyView) -> bool:
    """Return whether the store dropped the spec of a NetworkPolicy because of its size."""
    return policy.raw_spec == NO_POLICY
