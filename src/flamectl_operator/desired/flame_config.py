"""Renders flame-cluster.yaml for Flame's processes and flame.yaml for Flame's clients from the spec.

For Flame 0.6 flame-cluster.yaml has the documented keys (`cluster.slot`, top-level `executors`) and also the keys that 0.6
really reads (`cluster.resreq`, `cluster.executors`, `cluster.limits`), because every version ignores unknown keys. `policies`
is left out unless the author asks for a policy other than the default, because leaving it out works with each version.
"""

import hashlib
import io
import re
from typing import Any

import yaml

from flamectl_operator.api.checks.images import tagged_version
from flamectl_operator.api.constants import (
    CLIENT_CONFIG_FILE,
    CONFIG_FILE,
    CONFIG_GENERATION_ANNOTATION,
    CONFIG_HASH_ANNOTATION,
    FRONTEND_PORT,
    OBJECT_CACHE_PORT,
)
from flamectl_operator.api.fields.flame_options import ClientConfigSpec
from flamectl_operator.api.fields.object_cache import Eviction
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.problems import InvalidSpecError, Problem
from flamectl_operator.desired import names, tls
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.unvalidated import as_object
from flamectl_operator.runtime.merge_patch import merge

#: The last release of Flame whose scheduler has the plugin `gang`.
_LAST_WITH_GANG = (0, 6, 0)
#: Bytes of flame-cluster.yaml. A normal file has less than one KiB, but indentation can turn a short spec into megabytes.
MAX_SIZE = 64 * 1024


def session_manager_endpoint(cluster: str, *, secure: bool = False) -> str:
    """Return the session manager's URL for clients in the same namespace; also `status.sessionManager.endpoint`."""
    return f"{'https' if secure else 'http'}://{names.session_manager(cluster)}:{FRONTEND_PORT}"


def object_cache_endpoint(cluster: str, *, secure: bool = False) -> str:
    """Return the object cache's URL for Flame's processes."""
    return f"{'grpcs' if secure else 'grpc'}://{names.object_cache(cluster)}:{OBJECT_CACHE_PORT}"


def flame_config(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the content of flame-cluster.yaml, with `configOverrides` merged in last."""
    config = _flat(name, spec) if spec.flame_version == "0.5" else _sectioned(name, spec)
    return merge(config, spec.config_overrides)


def render(config: dict[str, Any]) -> str:
    """Return the text of flame-cluster.yaml, stable and in the order of the documentation.

    The text must not depend on how PyYAML was built. Its C emitter is ten times as fast, but writes some strings differently from
    the Python emitter, so the Python emitter writes documents with such strings.

    Raises:
        InvalidSpecError: The text is larger than `MAX_SIZE`, which only `configOverrides` can cause.
    """
    dumper = _FastDumper if _plain(config) else _QuotingDumper
    text = _LimitedText()
    yaml.dump(config, text, Dumper=dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text.getvalue()


def content_hash(text: str) -> str:
    """Return a short hash of the text, which detects changes for `configGeneration`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def config_map(owner: Identity, text: str, generation: int) -> dict[str, Any]:
    """Return the ConfigMap with flame-cluster.yaml, which is mounted into every Pod.

    Args:
        generation: `configGeneration` of this text. The ConfigMap and the status both hold it with the hash, so that neither a
            crash between the two writes nor a deleted ConfigMap loses the count.
    """
    metadata = owner.metadata(names.config_map(owner.name), "config")
    metadata["annotations"] = {
        CONFIG_GENERATION_ANNOTATION: str(generation),
        CONFIG_HASH_ANNOTATION: content_hash(text),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_FILE: text}}


def _flat(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the content for Flame 0.5: five required strings."""
    manager = spec.session_manager
    return {
        "name": name,
        "endpoint": session_manager_endpoint(name),
        "slot": manager.slot,
        "policy": manager.policy,
        "storage": manager.storage,
    }


def _sectioned(name: str, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the content for Flame 0.6 and later."""
    manager, executors, cache = spec.session_manager, spec.executor_manager, spec.object_cache
    config: dict[str, Any] = {
        "cluster": {
            "name": name,
            "endpoint": session_manager_endpoint(name, secure=tls.cluster_is_secure(spec)),
            "slot": manager.slot,
            "resreq": manager.slot,
            "policy": manager.policy,
            "storage": manager.storage,
            "executors": {"shim": executors.shim},
            "limits": {"max_executors": executors.max_executors},
        },
        "executors": {"shim": executors.shim, "limits": {"max_executors": executors.max_executors}},
        "cache": {
            "endpoint": object_cache_endpoint(name, secure=tls.cache_is_secure(spec)),
            "network_interface": cache.network_interface,
            "storage": cache.storage,
        }
        | _eviction(cache.eviction),
    }
    return merge(merge(config, {"cluster": _options(spec)}), tls.configuration(spec))


def _options(spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the options of `cluster` that the author sets; Flame has defaults for the others."""
    options: dict[str, Any] = {}
    if policies := _policies(spec):
        options["policies"] = policies
    if spec.schedule_interval is not None:
        options["schedule_interval"] = spec.schedule_interval
    if spec.limits.max_sessions is not None:
        options["limits"] = {"max_sessions": spec.limits.max_sessions}
    if spec.session_manager.recovery.retry_limits is not None:
        options["recovery"] = {"session": {"retry_limits": spec.session_manager.recovery.retry_limits}}
    return options


def _policies(spec: FlameClusterSpec) -> list[str]:
    """Return the scheduler's plugins for a policy; none when Flame's default applies or Flame does not know the policy.

    Release 0.6.0 needs `gang` as well, because it schedules nothing with `drf` alone. Later releases have no `gang`, and a
    session manager ends when the list names an unknown policy.
    """
    if spec.session_manager.policy != "drf":
        return []
    tagged = tagged_version(spec.session_manager.image)
    without_gang = spec.flame_version != "0.6" or (tagged is not None and tagged > _LAST_WITH_GANG)
    return ["drf"] if without_gang else ["drf", "gang"]


def _eviction(eviction: Eviction) -> dict[str, Any]:
    """Return what the file says about eviction: nothing where Flame's own defaults hold."""
    fields = {"policy": eviction.policy, "max_memory": eviction.max_memory, "max_objects": eviction.max_objects}
    section = {key: value for key, value in fields.items() if value is not None}
    return {"eviction": section} if section else {}


class _LimitedText(io.StringIO):
    """A text buffer that rejects more than `MAX_SIZE`."""

    _size = 0

    def write(self, text: str) -> int:
        self._size += len(text.encode())
        if self._size > MAX_SIZE:
            limit = f"{MAX_SIZE >> 10} KiB"
            raise InvalidSpecError(
                (Problem("spec.configOverrides", f"must not make flame-cluster.yaml larger than {limit}"),)
            )
        return super().write(text)


#: Strings that both emitters write alike: one line of printable ASCII. A key must also be non-empty and short enough not to be
#: written as `? key`.
_PLAIN_TEXT = re.compile(r"[ -~]*")
_PLAIN_KEY = re.compile(r"[ -~]{1,100}")


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_PLAIN_KEY.fullmatch(key) and _plain(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    return not isinstance(value, str) or _PLAIN_TEXT.fullmatch(value) is not None


class _QuotingDumper(yaml.SafeDumper):
    """Quotes strings such as `0o7`, which PyYAML (YAML 1.1) leaves plain but a YAML 1.2 reader takes for a number."""


class _FastDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # missing when built without libyaml
    """The same in C."""


#: Characters that a YAML reader takes for line breaks or byte order marks outside double quotes.
_NEEDS_ESCAPES = re.compile("[\x85\u2028\u2029\ufeff]")


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    quoted = value[:1] in tuple("0123456789.+-") or _NEEDS_ESCAPES.search(value) is not None
    style = '"' if quoted else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


for each in (_QuotingDumper, _FastDumper):
    each.add_representer(str, _represent_string)


def client_config_map(owner: Identity, wanted: ClientConfigSpec, config: dict[str, Any]) -> dict[str, Any]:
    """Return the ConfigMap `<name>-client` with flame.yaml for clients' `~/.flame`, made from flame-cluster.yaml's content."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owner.metadata(names.client_config(owner.name), "client"),
        "data": {CLIENT_CONFIG_FILE: render(client_config(owner.name, wanted, config))},
    }


def client_config(name: str, wanted: ClientConfigSpec, config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of flame.yaml: one context, which is current."""
    context: dict[str, Any] = {"name": name, "cluster": _service(config, "cluster")}
    if cache := _service(config, "cache"):
        context["cache"] = cache
    if wanted.package.excludes:
        context["package"] = {"excludes": list(wanted.package.excludes)}
    return {"current-context": name, "contexts": [context]}


def _service(config: dict[str, Any], section: str) -> dict[str, Any]:
    """Return the client settings of a service; empty when flame-cluster.yaml does not have it."""
    service = as_object(config.get(section))
    known = {"endpoint": service["endpoint"]} if "endpoint" in service else {}
    shared = as_object(as_object(config.get("security")).get("tls"))  # of Flame 0.7
    authority = (as_object(service.get("tls")) or shared).get("ca_file")
    return known | ({"tls": {"ca_file": authority}} if known and authority else {})
