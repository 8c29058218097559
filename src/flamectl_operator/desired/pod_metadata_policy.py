"""podPolicy for labels and annotations: keys by which other software in the cluster gives a Pod more than its spec says."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import OWN_PREFIX
from flamectl_operator.api.problems import Problem
from flamectl_operator.desired.unvalidated import as_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flamectl_operator.settings import PodPolicy

#: Keys that webhooks, network plugins and container runtimes act on. `*` in the settings does not allow them.
WELL_KNOWN = (
    # identity in a cloud or in a mesh
    "aadpodidbinding",
    "azure.workload.identity/*",
    "eks.amazonaws.com/*",
    "iam.amazonaws.com/*",
    "iam.gke.io/*",
    "spiffe.io/*",
    "*.spiffe.io/*",
    # other networks and addresses
    "cni.projectcalico.org/*",
    "danm.k8s.io/*",
    "egress.projectcalico.org/*",
    "ipam.cilium.io/*",
    "k8s.ovn.org/*",
    "k8s.v1.cni.cncf.io/*",
    "networking.antrea.io/*",
    "networking.gke.io/*",
    "ovn.kubernetes.io/*",
    "*.kubernetes.io/logical_switch",
    "v1.multus-cni.io/*",
    "vpc.amazonaws.com/*",
    # sidecars and other containers that webhooks add
    "admission.datadoghq.com/*",
    "appmesh.k8s.aws/*",
    "consul.hashicorp.com/*",
    "dapr.io/*",
    "gke-gcsfuse/*",
    "injector.tumblr.com/*",
    "istio.io/*",
    "*.istio.io/*",
    "kuma.io/*",
    "*.kuma.io/*",
    "linkerd.io/*",
    "*.linkerd.io/*",
    "openservicemesh.io/*",
    "*.dynatrace.com/*",
    "*.opentelemetry.io/*",
    "sidecar.jaegertracing.io/*",
    # Secrets
    "bank-vaults.io/*",
    "conjur.org/*",
    "operator.1password.io/*",
    "secrets.hashicorp.com/*",
    "vault.hashicorp.com/*",
    "vault.security.banzaicloud.io/*",
    # the node: devices, mounts and runtimes
    "cdi.k8s.io/*",
    "dev.gvisor.*",
    "io.containerd.*",
    "io.katacontainers.*",
    "io.kubernetes.cri-o.*",
    "*.nri.io/*",
    "org.systemd.property.*",
    "run.oci.*",
    # rules of the cluster
    "openshift.io/*",
    "*.openshift.io/*",
    "policies.kyverno.io/*",
)
#: Values with which a well-known key asks for less: no sidecar.
_OPT_OUT = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", "dapr.io/enabled": "false"}


def metadata_problems(path: str, metadata: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    """Yield the labels and annotations of a podTemplate that the policy does not allow.

    Args:
        path: The path of `metadata`.
        metadata: The unvalidated metadata in the spec.
        policy: The policy.
    """
    for field, patterns in (("labels", policy.labels), ("annotations", policy.annotations)):
        for key, value in sorted(as_object(metadata.get(field)).items()):
            if key.startswith(OWN_PREFIX) or _OPT_OUT.get(key) == value:
                continue  # keys of the operator have rules of their own
            if not _allowed(key, patterns):
                yield Problem(
                    f"{path}.{field}[{key}]", f"is not allowed by the operator's setting flame.podPolicy.{field}"
                )


def _allowed(key: str, patterns: Sequence[str]) -> bool:
    """Return whether a key may be set: `*` allows all but the well-known keys, any other pattern what it matches."""
    if any(fnmatchcase(key, pattern) for pattern in patterns if pattern != "*"):
        return True
    return "*" in patterns and not any(fnmatchcase(key, pattern) for pattern in WELL_KNOWN)
