"""Certificates: where Pods find them, what flame-cluster.yaml says about them, and which names they must cover.

The session manager reads its certificate, its key and the authority. Executors read the authorities alone, and get nothing else.
Flame reads the files when a process starts.
"""

from typing import Any, Final

from flamectl_operator.api.constants import OWN_VOLUME_PREFIX
from flamectl_operator.api.fields.tls import TlsSpec
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.desired.metadata import Identity

#: Beside `/etc/flame`, because nothing can be mounted below a ConfigMap, which is read-only.
CLUSTER_DIRECTORY: Final = "/etc/flame-tls/cluster"
CACHE_DIRECTORY: Final = "/etc/flame-tls/cache"
CLUSTER_VOLUME: Final = f"{OWN_VOLUME_PREFIX}tls"
CACHE_VOLUME: Final = f"{OWN_VOLUME_PREFIX}cache-tls"
#: Names of the files in these directories, whatever the keys of the Secret are.
CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE = "tls.crt", "tls.key", "ca.crt"


def files(directory: str) -> dict[str, str]:
    """Return the files of a certificate as flame-cluster.yaml names them."""
    return {
        "cert_file": f"{directory}/{CERTIFICATE_FILE}",
        "key_file": f"{directory}/{KEY_FILE}",
        "ca_file": f"{directory}/{AUTHORITY_FILE}",
    }


def cluster_is_secure(spec: FlameClusterSpec) -> bool:
    """Return whether the session manager serves TLS."""
    return spec.tls is not None


def cache_is_secure(spec: FlameClusterSpec) -> bool:
    """Return whether the object cache serves TLS. Flame 0.7 has one certificate for all services."""
    return (spec.tls if spec.flame_version == "0.7" else spec.object_cache.tls) is not None


def configuration(spec: FlameClusterSpec) -> dict[str, Any]:
    """Return what flame-cluster.yaml says about certificates, for Flame 0.6 and later."""
    config: dict[str, Any] = {}
    if spec.tls is not None and spec.flame_version == "0.7":
        config["security"] = {"trust_domain": spec.tls.trust_domain, "tls": files(CLUSTER_DIRECTORY)}
    elif spec.tls is not None:
        config["cluster"] = {"tls": files(CLUSTER_DIRECTORY)}
    if spec.object_cache.tls is not None:
        config["cache"] = {"tls": files(CACHE_DIRECTORY)}
    return config


def add_server_files(defaults: dict[str, Any], spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the defaults of the session manager's Pod with its certificate, key and authority, if it has TLS."""
    return defaults if spec.tls is None else _with_secret(defaults, CLUSTER_VOLUME, CLUSTER_DIRECTORY, spec.tls)


def add_cache_files(defaults: dict[str, Any], spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the defaults of an object cache's Pod with its certificate, key and authority, if it has TLS."""
    if spec.flame_version == "0.7":
        return add_server_files(defaults, spec)
    tls = spec.object_cache.tls
    return defaults if tls is None else _with_secret(defaults, CACHE_VOLUME, CACHE_DIRECTORY, tls)


def add_authorities(defaults: dict[str, Any], spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the defaults of an executor's Pod with the authorities of the services that have TLS."""
    if spec.tls is not None:
        defaults = _with_secret(defaults, CLUSTER_VOLUME, CLUSTER_DIRECTORY, spec.tls, authority_alone=True)
    if spec.object_cache.tls is not None:
        defaults = _with_secret(defaults, CACHE_VOLUME, CACHE_DIRECTORY, spec.object_cache.tls, authority_alone=True)
    return defaults


def read_by_services(tls: TlsSpec) -> dict[str, Any]:
    """Return what a service reads of its certificate: the input of its revision. The operator alone reads `caBundle`."""
    return {key: value for key, value in tls.authored().items() if key != "caBundle"}


def read_by_executors(tls: TlsSpec) -> dict[str, Any]:
    """Return what an executor reads of a certificate: the input of its revision."""
    return {key: value for key, value in read_by_services(tls).items() if key not in {"certKey", "keyKey"}}


def certificate_names(owner: Identity, service: str, domain: str) -> tuple[str, ...]:
    """Return the names under which clients reach a Service. Its certificate must cover all of them."""
    qualified = f"{service}.{owner.namespace}"
    return (service, qualified, f"{qualified}.svc", f"{qualified}.svc.{domain}")


def own_secrets(cluster: str) -> tuple[str, str]:
    """Return names of Secrets, for all services and for the object cache, that a FlameCluster may mount without permission."""
    return (f"{cluster}-flame-tls", f"{cluster}-flame-cache-tls")


def _with_secret(
    defaults: dict[str, Any], volume: str, directory: str, tls: TlsSpec, *, authority_alone: bool = False
) -> dict[str, Any]:
    items = [{"key": tls.ca_key, "path": AUTHORITY_FILE}]
    if not authority_alone:
        items = [{"key": tls.cert_key, "path": CERTIFICATE_FILE}, {"key": tls.key_key, "path": KEY_FILE}, *items]
    mount = {"name": volume, "mountPath": directory, "readOnly": True}
    [container] = defaults["containers"]
    return defaults | {
        "containers": [container | {"volumeMounts": [*container["volumeMounts"], mount]}],
        "volumes": [*defaults["volumes"], {"name": volume, "secret": {"secretName": tls.secret_name, "items": items}}],
    }
