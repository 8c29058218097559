"""podPolicy for labels and annotations: keys by which other software in the cluster gives a Pod more than its spec says.

`*` stands for all labels but well-known ones, because selectors and teams use labels of any name. Software reads what it grants
from annotations, and nobody knows the annotations of all software. So `*` stands only for annotations known to be harmless.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flamectl_operator.api.constants import OWN_PREFIX
from flamectl_operator.api.problems import Problem
from flamectl_operator.desired.unvalidated import as_object
from flamectl_operator.settings.model import PodPolicy

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
#: The annotations with a prefix for which `*` stands. Nothing that acts on them gives a Pod rights.
HARMLESS_ANNOTATIONS = (
    # Kubernetes and its tools
    "app.kubernetes.io/*",
    "checksum/*",
    "controller.kubernetes.io/*",
    "helm.sh/*",
    "kubectl.kubernetes.io/*",
    "kubernetes.io/change-cause",
    "kubernetes.io/description",
    "kubernetes.io/egress-bandwidth",
    "kubernetes.io/ingress-bandwidth",
    # scheduling and eviction
    "cluster-autoscaler.kubernetes.io/*",
    "descheduler.alpha.kubernetes.io/*",
    "karpenter.sh/*",
    "kueue.x-k8s.io/*",
    "scheduling.k8s.io/*",
    "scheduling.volcano.sh/*",
    "volcano.sh/*",
    # metrics, logs and profiles
    "fluentbit.io/*",
    "k8s.grafana.com/*",
    "profiles.grafana.com/*",
    "prometheus.io/*",
    # the setting `privileged` judges these
    "container.apparmor.security.beta.kubernetes.io/*",
    # names that RFC 2606 reserves, so no software acts on them
    "example.com/*",
    "*.example.com/*",
    "example.net/*",
    "*.example.net/*",
    "example.org/*",
    "*.example.org/*",
    "*.example/*",
    "*.test/*",
)
#: Values with which a well-known key asks for less: no sidecar.
_OPT_OUT = {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", "dapr.io/enabled": "false"}


def metadata_problems(path: str, metadata: dict[str, Any], policy: PodPolicy) -> Iterator[Problem]:
    """Yield the labels and annotations of a podTemplate that the policy does not allow."""
    for field, patterns in (("labels", policy.labels), ("annotations", policy.annotations)):
        for key, value in sorted(as_object(metadata.get(field)).items()):
            if key.startswith(OWN_PREFIX) or _OPT_OUT.get(key) == value:
                continue  # keys of the operator have rules of their own
            if not _allowed(field, key, patterns):
                yield Problem(f"{path}.{field}[{key}]", _complaint(field, patterns))


def _allowed(field: str, key: str, patterns: Sequence[str]) -> bool:
    """Return whether a key may be set: `*` allows the keys that give no rights, any other pattern what it matches."""
    if _matches(key, (pattern for pattern in patterns if pattern != "*")):
        return True
    if "*" not in patterns or _matches(key, WELL_KNOWN):
        return False
    # A key without a prefix is private to the users of the cluster. Keys with dots belong to container runtimes.
    return field == "labels" or not ("/" in key or "." in key) or _matches(key, HARMLESS_ANNOTATIONS)


def _complaint(field: str, patterns: Sequence[str]) -> str:
    except_it = ', where "*" covers only keys that grant no rights' if "*" in patterns else ""
    return f"is not allowed by the operator's setting flame.podPolicy.{field}{except_it}"


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
