"""`networkPolicy`: who may connect to the cluster."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.fields.pod_template_rules import QUALIFIED_KEY, QUALIFIED_KEYS, LabelValue
from flamectl_operator.api.model import Atomic, Model
from flamectl_operator.api.problems import Problem
from flamectl_operator.api.rules import Rule, matching

SelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
#: Text that may be a block of addresses. The operator checks the numbers, because CEL has no function for it in Kubernetes 1.30.
Cidr = Annotated[
    str,
    Field(max_length=64),
    matching(r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$", "must be a block of addresses, such as 10.0.0.0/8 or 2001:db8::/64"),
]


class LabelSelectorRequirement(Model):
    """A condition on one label, as in meta/v1."""

    rules: ClassVar = (
        Rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
            lambda requirement: (requirement.operator in ("In", "NotIn")) == bool(requirement.values),
            "must be set for In and NotIn, and must not be set for Exists and DoesNotExist",
            ".values",
        ),
    )

    key: Annotated[str, Field(max_length=317), QUALIFIED_KEY] = Field(description="Key of the label.")
    operator: SelectorOperator = Field(description="Relation of the label to the values.")
    values: Annotated[Atomic[LabelValue], Field(max_length=16)] = Field(
        (), description="Values for In and NotIn; nothing for Exists and DoesNotExist."
    )


class LabelSelector(Model):
    """A selection of objects by their labels, as in meta/v1; all conditions must hold, and {} selects everything."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=16), QUALIFIED_KEYS] = Field(
        {}, description="Labels that must have these values."
    )
    match_expressions: Annotated[Atomic[LabelSelectorRequirement], Field(max_length=16)] = Field(
        (), description="Further conditions on labels."
    )


class IpBlock(Model):
    """A block of addresses, as in networking.k8s.io/v1."""

    cidr: Cidr = Field(description="Block of addresses, such as 10.0.0.0/8.")
    except_: Annotated[Atomic[Cidr], Field(max_length=16)] = Field(
        (), alias="except", description="Parts of the block that may not connect."
    )


class NetworkPolicyPeer(Model):
    """Clients that may connect, as in networking.k8s.io/v1."""

    rules: ClassVar = (
        Rule(
            "has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
            lambda peer: not (peer.pod_selector is peer.namespace_selector is peer.ip_block is None),
            "must have a podSelector, a namespaceSelector or an ipBlock; podSelector: {} selects all Pods of the namespace",
        ),
        Rule(
            "!has(self.ipBlock) || (!has(self.podSelector) && !has(self.namespaceSelector))",
            lambda peer: peer.ip_block is None or (peer.pod_selector is peer.namespace_selector is None),
            "must not be set together with podSelector or namespaceSelector: list two peers",
            ".ipBlock",
        ),
    )

    pod_selector: LabelSelector | None = Field(
        None,
        description="Pods that may connect: of the namespaces that namespaceSelector selects, or of the FlameCluster's own "
        "namespace without it.",
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Namespaces whose Pods may connect: all Pods, or those that podSelector selects."
    )
    ip_block: IpBlock | None = Field(None, description="Addresses that may connect.")


class NetworkPolicySpec(Model):
    """Limits on connections to the cluster."""

    clients: Annotated[Atomic[NetworkPolicyPeer], Field(max_length=32)] = Field(
        (),
        description="Peers that may connect to the session manager's port 8080 and the object cache's port 9090, besides the "
        "cluster's executors and the operator.",
    )


def address_problems(policy: NetworkPolicySpec | None) -> Iterator[Problem]:
    """Yield blocks of addresses that Kubernetes would refuse."""
    for number, peer in enumerate(policy.clients if policy is not None else ()):
        if peer.ip_block is None:
            continue
        path = f"spec.networkPolicy.clients[{number}].ipBlock"
        block = _network(peer.ip_block.cidr)
        if block is None:
            yield Problem(f"{path}.cidr", f"is not a block of addresses: {peer.ip_block.cidr}")
            continue
        for index, text in enumerate(peer.ip_block.except_):
            part = _network(text)
            if part is None:
                yield Problem(f"{path}.except[{index}]", f"is not a block of addresses: {text}")
            elif part == block or not _within(part, block):
                yield Problem(f"{path}.except[{index}]", f"must be a part of {peer.ip_block.cidr}, is {text}")


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _within(part: IPv4Network | IPv6Network, block: IPv4Network | IPv6Network) -> bool:
    return part.version == block.version and part.prefixlen >= block.prefixlen and part.network_address in block
