"""The owner of each field of a Service's spec: the operator restores its own fields, and never writes those of others.

A field belongs to the operator if it decides which Pods the Service leads to, or from where and with which protocol clients reach
them. The type is always ClusterIP, so fields of other types are always absent. The address belongs to the API server, or to the
administrator who chose it.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Owner(Enum):
    """The party that decides on a field."""

    OPERATOR = "operator"
    OTHERS = "others"


_OURS, _THEIRS = Owner.OPERATOR, Owner.OTHERS

#: Each field of `spec`. A field of the operator that the manifest leaves out has Kubernetes' default.
SPEC_FIELDS: Final[Mapping[str, Owner]] = MappingProxyType(
    {
        "type": _OURS,
        "selector": _OURS,
        "ports": _OURS,
        "externalIPs": _OURS,
        "externalName": _OURS,
        "publishNotReadyAddresses": _OURS,
        "sessionAffinity": _OURS,
        "sessionAffinityConfig": _OURS,
        "trafficDistribution": _OURS,
        "internalTrafficPolicy": _OURS,
        "externalTrafficPolicy": _OURS,
        "healthCheckNodePort": _OURS,
        "allocateLoadBalancerNodePorts": _OURS,
        "loadBalancerClass": _OURS,
        "loadBalancerIP": _OURS,
        "loadBalancerSourceRanges": _OURS,
        "clusterIP": _THEIRS,
        "clusterIPs": _THEIRS,
        "ipFamilies": _THEIRS,
        "ipFamilyPolicy": _THEIRS,
    }
)
#: Each field of an entry of `spec.ports`. The operator writes the list as a whole, so no field of an entry can be of others.
PORT_FIELDS: Final[Mapping[str, Owner]] = MappingProxyType(
    {
        "name": _OURS,
        "port": _OURS,
        "targetPort": _OURS,
        "protocol": _OURS,
        "appProtocol": _OURS,
        "nodePort": _OURS,
    }
)
