"""Specs that must be refused or accepted, as changes to a minimal FlameCluster.

One table for two judges: the operator's own validation (a unit test) and a real API server (an end-to-end test). Neither may
let through what the other refuses.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any


class _Removed:
    """In a change: the field goes. Each process of tests must give its row the same id."""

    def __repr__(self) -> str:
        return "removed"


REMOVE = _Removed()

MINIMAL: dict[str, Any] = {
    "apiVersion": "flame.xflops.io/v1alpha1",
    "kind": "FlameCluster",
    "metadata": {"name": "my-flame"},
    "spec": {
        "sessionManager": {"image": "xflops/flame-session-manager:v0.6.0"},
        "executorManager": {"image": "xflops/flame-executor-manager:v0.6.0"},
    },
}


@dataclass(frozen=True)
class Rejection:
    """A change that must be refused.

    Args:
        title: The problem in words.
        change: Merged into `MINIMAL`; lists are replaced.
        path: The field that the operator names.
        message: Part of the operator's message, and of the API server's unless `server` says otherwise.
        server: Part of the API server's message, for what its schema refuses in words of its own.
    """

    title: str
    change: dict[str, Any]
    path: str
    message: str
    server: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        """The whole manifest."""
        return changed(MINIMAL, self.change)

    def __str__(self) -> str:
        """Return the test's id."""
        return self.title


@dataclass(frozen=True)
class Acceptance:
    """A change that must be accepted."""

    title: str
    change: dict[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        """The whole manifest."""
        return changed(MINIMAL, self.change)

    def __str__(self) -> str:
        """Return the test's id."""
        return self.title


def changed(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return a deep merge of the change into the base."""
    result = deepcopy(base)
    for key, value in change.items():
        if value is REMOVE:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = changed(result[key], value)
        else:
            result[key] = deepcopy(value)
    return result


def _at(path: str, value: Any, message: str, server: str = "", beside: dict[str, Any] | None = None) -> Rejection:
    """A value that must not be at this path of the spec, beside other fields of the spec.

    In the path, [0] stands for the only entry of a list.
    """
    change = value
    for part in reversed(path.split(".")):
        key = part.removesuffix("[0]")
        change = {key: change if key == part else [change]}
    title = f"{path}: {value!r:.60}" + (f" beside {beside}" if beside else "")
    return Rejection(title, {"spec": changed(beside, change) if beside else change}, f"spec.{path}", message, server)


def _name(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _session(**fields: Any) -> dict[str, Any]:
    return _spec(sessionManager=fields)


def _executor(**fields: Any) -> dict[str, Any]:
    return _spec(executorManager=fields)


def _component(component: str, **fields: Any) -> dict[str, Any]:
    return {"spec": {component: fields}}


def _rolling(**fields: Any) -> dict[str, Any]:
    return _executor(updateStrategy={"rollingUpdate": fields})


def _executor_pod(**fields: Any) -> dict[str, Any]:
    return _executor(podTemplate={"spec": fields})


def _session_pod(**fields: Any) -> dict[str, Any]:
    return _session(podTemplate={"spec": fields})


def _own(**fields: Any) -> dict[str, Any]:
    return _executor_pod(containers=[{"name": "executor-manager", **fields}])


def _wait(**fields: Any) -> dict[str, Any]:
    return _executor_pod(initContainers=[{"name": "wait-for-session-manager", **fields}])


def _cache(**fields: Any) -> dict[str, Any]:
    return _spec(objectCache={"image": "xflops/flame-object-cache:v0.6.0", **fields})


def _cache_pod(**fields: Any) -> dict[str, Any]:
    return _cache(podTemplate={"spec": fields})


def _env(*variables: dict[str, Any]) -> dict[str, Any]:
    return _executor(env=list(variables))


#: Fields that stand beside the one that must be refused.
_FLAME_05 = {"flameVersion": "0.5"}
_FLAME_07 = {"flameVersion": "0.7"}
_CACHE = _cache()["spec"]
_CLAIM_OF_SESSIONS = {"sessionManager": {"persistence": {"size": "1Gi"}}}
_CLAIM_OF_CACHE = _cache(persistence={"size": "1Gi"})["spec"]

_SESSION = "spec.sessionManager"
_EXECUTOR = "spec.executorManager"
_POD = f"{_EXECUTOR}.podTemplate.spec"
_UNKNOWN = "unknown field: correct its name, or upgrade the operator"
_SLOT = "must be a list such as cpu=1,mem=1g"
_SLOT_PARTS = "must have cpu and mem, and no part twice"
_QUANTITY = "must be a quantity of 0 or more"
_NODE_NAME = "Flame knows a node by its hostname"
_INTEGER = "must be of type integer"

REJECTIONS: tuple[Rejection, ...] = (
    # metadata.name
    Rejection("name too long", _name("a" * 36), "metadata.name", "must have at most 35 characters, has 36", "Too long"),
    Rejection("name starts with digit", _name("1a"), "metadata.name", "must start with a lower-case letter", "should match"),
    # Required and forbidden fields
    _at("sessionManager", REMOVE, "must be set", "Required value"),
    _at("executorManager.image", None, "must be set", "Required value"),
    _at("executorManager.image", "", "must not be empty", "at least 1 chars long"),
    _at("sessionManager.image", "a b", "must be an image reference, without spaces"),
    _at("executorManager.replica", 3, _UNKNOWN, 'unknown field "spec.executorManager.replica"'),
    _at("objectCache", "x", "must be an object", "must be of type object"),
    # Metadata of every object
    *(Rejection(f"common annotation {key}", _spec(commonAnnotations={key: "x"}), "spec.commonAnnotations",
        "must not have")
        for key in ("controller.kubernetes.io/pod-deletion-cost",
        "service.beta.kubernetes.io/load-balancer-source-ranges", "flame.xflops.io/draining")),
    # Scalars
    _at("executorManager.replicas", -1, "must be 0 or more, is -1", "equal to 0"),
    *(_at("executorManager.replicas", replicas, "must be left out where autoscaling is set",
        beside={"executorManager": {"autoscaling": {"maxReplicas": 3}}})
        for replicas in (0, 3)),
    _at("executorManager.autoscaling.minReplicas", 4, "must not be more than maxReplicas",
        beside={"executorManager": {"autoscaling": {"maxReplicas": 3}}}),
    Rejection("a hook that waits for longer than a drain may take",
        _executor(drain={"timeoutSeconds": 60, "onTermination": {"enabled": True}}),
        f"{_EXECUTOR}.drain.onTermination.maxSeconds", "must not be more than drain.timeoutSeconds"),
    Rejection("a hook where there are no drains",
        _executor(drain={"timeoutSeconds": 0, "onTermination": {"enabled": True, "maxSeconds": 5}}),
        f"{_EXECUTOR}.drain.onTermination.maxSeconds", "must not be more than drain.timeoutSeconds"),
    Rejection("a hook for tasks of WebAssembly", _executor(shim="wasm", drain={"onTermination": {"enabled": True}}),
        f"{_EXECUTOR}.drain.onTermination.enabled", "must be false for shim wasm"),
    Rejection("a hook for Flame 0.5",
        _spec(flameVersion="0.5", executorManager={"drain": {"onTermination": {"enabled": True}}}),
        f"{_EXECUTOR}.drain.onTermination.enabled", "must be false for Flame 0.5"),
    _at("sessionManager.updateStrategy.type", "WhenIdle",
        "must not be WhenIdle for Flame 0.5, which cannot be asked for its sessions", beside=_FLAME_05),
    _at("executorManager.autoscaling", {"maxReplicas": 3},
        "must not be set for Flame 0.5, which cannot be asked for its sessions", beside=_FLAME_05),
    _at("idle", {"timeoutSeconds": 60}, "must not be set for Flame 0.5, which cannot be asked for its sessions",
        beside=_FLAME_05),
    Rejection("a bundle without a certificate", _spec(tls={"secretName": "x", "caBundle": "x"}), "spec.tls.caBundle",
        "must hold certificates in PEM"),
    _at("executorManager.replicas", 2**31, "must be 2147483647 or less", "less than or equal"),
    _at("clientConfig", {}, "must not be set for Flame 0.5", beside=_FLAME_05),
    _at("networkPolicy.clients[0]", {}, "must have a podSelector, a namespaceSelector or an ipBlock"),
    Rejection("peer with addresses and Pods",
        _spec(networkPolicy={"clients": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
        "spec.networkPolicy.clients[0].ipBlock", "must not be set together with podSelector"),
    _at("networkPolicy.clients[0].ipBlock.cidr", "10.0.0.1", "must be a block of addresses, such as 10.0.0.0/8"),
    _at("networkPolicy.clients[0].podSelector.matchLabels.app", "a b", "must be a label's value"),
    _at("networkPolicy.clients[0].namespaceSelector.matchLabels", {"a b": ""}, "keys must be like app"),
    Rejection("key of a condition with a space",
        _spec(networkPolicy={"clients": [{"podSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}]}),
        "spec.networkPolicy.clients[0].podSelector.matchExpressions[0].key", "must be like app"),
    Rejection("In without values",
        _spec(networkPolicy={"clients": [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]}),
        "spec.networkPolicy.clients[0].podSelector.matchExpressions[0].values", "must be set for In and NotIn"),
    Rejection(
        "Exists with values",
        _spec(
            networkPolicy={
                "clients": [
                    {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}
                ]
            }
        ),
        "spec.networkPolicy.clients[0].podSelector.matchExpressions[0].values",
        "must not be set for Exists",
    ),
    _at("networkPolicy.clients", [{"podSelector": {}}] * 33, "must have at most 32", "at most 32 items"),
    _at("tls", {"secretName": "x"}, "which knows no TLS", beside=_FLAME_05),
    _at("objectCache.tls", {"secretName": "x"}, "which knows no TLS", beside=_FLAME_05),
    _at("objectCache.tls", {"secretName": "x"}, "share the certificate of spec.tls", beside=_FLAME_07),
    _at("tls", {"secretName": "x"}, "must have a trustDomain", beside=_FLAME_07),
    _at("tls", {"secretName": "x", "trustDomain": "flame.example"}, "must not have a trustDomain before Flame 0.7"),
    Rejection("trust domain with a scheme",
        _spec(flameVersion="0.7", tls={"secretName": "x", "trustDomain": "spiffe://flame.example"}), "spec.tls.trustDomain",
        "must be the name of a SPIFFE trust domain"),
    _at("tls.secretName", "a/b", "must be the name of a Secret"),
    Rejection("key with a slash", _spec(tls={"secretName": "x", "keyKey": "a/b"}), "spec.tls.keyKey",
        "must be a key of a Secret"),
    _at("sessionManager.storage", "postgres://db/flame", "file:// or filesystem://: Flame opens nothing else"),
    _at("objectCache.storage", "cache", "must be an absolute path"),
    _at("scheduleInterval", 0, "must be 1 or more", "equal to 1"),
    _at("executorManager.runtimeStorage.sizeLimit", "big", "must be a quantity"),
    _at("executorManager.replicas", "3", "must be a whole number", _INTEGER),
    _at(
        "executorManager.replicas", value=True, message="must be a whole number", server="must be of type int"
    ),  # integer on Kubernetes 1.34, int32 on 1.36
    _at("executorManager.shim", "docker", "must be one of host, wasm", "Unsupported value"),
    _at("flameVersion", "0.4", "must be one of 0.5, 0.6", "Unsupported value"),
    _at("flameVersion", 0.6, "must be one of 0.5, 0.6, 0.7 in quotes", "must be of type string"),
    _at("suspend", "true", "must be true or false", "must be of type boolean"),
    Rejection("nobody denied", _spec(lockOptions={"denyList": ["a", ""]}), "spec.lockOptions.denyList[1]",
        "must not be empty", "at least 1 chars long"),
    # The slot
    *(
        _at("sessionManager.slot", slot, message)
        for slot, message in (
            ("", _SLOT),
            ("500m", _SLOT),
            ("cpu=0.5,mem=1g", _SLOT),
            ("cpu=0,mem=1g", _SLOT),
            ("cpu=1,mem=0", _SLOT),
            ("cpu=1,mem=1x", _SLOT),
            ("cpu=1,mem=1g,disk=1", _SLOT),
            ("cpu=1,mem=1g,gpu=1,gpu=1", _SLOT),
            ("cpu=1,mem=1g\n", _SLOT),
            ("cpu=1,gpu=1", _SLOT_PARTS),
            ("cpu=1,mem=1g,mem=2g", _SLOT_PARTS),
        )
    ),
    _at("sessionManager.slot", "c" * 101, "at most 100 characters", "Too long"),
    *(_at("sessionManager.slot", slot, "must be like cpu=1,mem=512m for Flame 0.5", beside=_FLAME_05)
        for slot in ("cpu=1,mem=1Gi", "cpu=1,mem=1gb", "cpu=1,mem=1t", "cpu=1,mem=1g,gpu=1")),
    # Resources
    *(_at("executorManager.resources.limits.cpu", quantity, _QUANTITY)
        for quantity in ("", "lots", "1 Gi", "1gi", "1K", "1e", "-1", "--1", "0x10", -1)),
    *(_at(field, 0.5, "quote a fraction")
        for field in ("executorManager.resources.requests.cpu", "sessionManager.resources.limits.cpu",
        "objectCache.resources.limits.cpu", "executorManager.runtimeStorage.sizeLimit",
        "sessionManager.persistence.size")),
    *(_at(f"executorManager.updateStrategy.rollingUpdate.{field}", 0.25,
        'must be a whole number or a percentage such as "25%"', "a whole number or a percentage such as '25%'")
        for field in ("maxUnavailable", "maxSurge")),
    Rejection("quantity in an extended resource", _session(resources={"limits": {"nvidia.com/gpu": "one"}}),
        f"{_SESSION}.resources.limits[nvidia.com/gpu]", _QUANTITY),
    _at("executorManager.resources", {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "2Gi"}},
        "requests must not be above limits"),
    _at("executorManager.resources", {"limits": {"example.com/gpu": 1}, "requests": {"example.com/gpu": 2}},
        "requests must not be above limits"),
    Rejection("negative divisor",
        _env({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "-1"}}}),
        f"{_EXECUTOR}.env[0].valueFrom.resourceFieldRef.divisor", _QUANTITY),
    # Environment
    *(Rejection(f"own variable {name}", _env({"name": name, "value": "x"}), f"{_EXECUTOR}.env[0].name",
        "must not be one of FLAME_CONFIG, SESSION_MANAGER_ADDR, OBJECT_CACHE_ADDR: the operator sets them")
        for name in ("FLAME_CONFIG", "SESSION_MANAGER_ADDR", "OBJECT_CACHE_ADDR")),
    Rejection("own variable of the session manager",
        _session(env=[{"name": "A", "value": "x"}, {"name": "FLAME_CONFIG", "value": "x"}]), f"{_SESSION}.env[1].name",
        "the operator sets them"),
    _at("executorManager.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "must not list name A twice",
        "Duplicate value"),
    _at("executorManager.env[0].name", "A=B", "must be the name of an environment"),
    _at("executorManager.env[0]", {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        "must have either value or valueFrom, not both"),
    Rejection("no source", _env({"name": "A", "valueFrom": {}}), f"{_EXECUTOR}.env[0].valueFrom",
        "must have exactly one of fieldRef"),
    # The object cache
    *(_at("objectCache.networkInterface", interface, "must be a regular expression that compiles",
        "error parsing regexp")
        for interface in ("eth[", "eth(", "eth)", "eth[9-0]", "*eth", "(eth|+)", "eth\\", "a{99999999999}",
        r"[ -\uffff]")),
    _at("objectCache.networkInterface", "(?i)[Ā-\uffff]", "must consist of printable ASCII characters"),
    _at("objectCache.image", "xflops/flame-object-cache:v0.6.0", "must not be set for Flame 0.5, which has no object cache",
        beside=_FLAME_05),
    *(_at("objectCache.eviction.maxMemory", size, "must be a size such as 512M or 2Gi; units are powers of 1024",
        beside=_CACHE)
        for size in ("0", "1.5G", "-1G", "lots", "1 G", "")),
    Rejection("init container with the name of the object cache's container",
        _cache_pod(initContainers=[{"name": "object-cache", "image": "x"}]),
        "spec.objectCache.podTemplate.spec.initContainers[0].name",
        "must not be object-cache: that is the name of the operator's own container in containers"),
    # Persistence
    *(
        _at(
            "sessionManager.storage",
            storage,
            "must lie on the claim of persistence: fs:///var/lib/flame/session, or sqlite:///var/lib/flame/session/flame.db",
            beside=_CLAIM_OF_SESSIONS,
        )
        for storage in (
            "none",
            "sqlite://flame.db",
            "fs:///data",
            "fs:///var/lib/flame/session/../x",
            "sqlite:///var/lib/flame/session",
            "sqlite:///var/lib/flame/session/a.db?mode=memory",
            "fs:///var/lib/flame/sessions",
        )
    ),
    _at("sessionManager.storage", "fs:///var/lib/flame/session",
        "must be an SQLite database for Flame 0.5, such as sqlite:///var/lib/flame/session/flame.db",
        beside=_CLAIM_OF_SESSIONS | _FLAME_05),
    *(_at("objectCache.persistence", claim,
        "must have either size, for a claim that the operator makes, or existingClaim", beside=_CACHE)
        for claim in ({}, {"size": "1Gi", "existingClaim": "a"})),
    Rejection("class of an existing claim", _cache(persistence={"existingClaim": "a", "storageClassName": "fast"}),
        "spec.objectCache.persistence.existingClaim", "must not be set together with storageClassName or accessModes"),
    _at("objectCache.persistence.size", 0, "must be more than 0", beside=_CACHE),
    _at("objectCache.persistence.storageClassName", "Fast Disk", "must be the name of a StorageClass, or empty",
        beside=_CLAIM_OF_CACHE),
    _at("objectCache.persistence.existingClaim", "a/b", "must be the name of a PersistentVolumeClaim", beside=_CACHE),
    _at("objectCache.persistence.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"],
        "must not have ReadWriteOncePod together with other modes", beside=_CLAIM_OF_CACHE),
    _at("objectCache.persistence", {"size": "1Gi"},
        "must not be set without image: only an object cache that the operator runs can use a claim"),
    *(
        _at(
            "objectCache.storage",
            storage,
            "must be a directory for the claim, below /data, /mnt, /srv, /cache, /tmp or a directory of /var, such as "
            "/var/lib/flame/cache",
            beside=_CLAIM_OF_CACHE,
        )
        for storage in ("none", "/", "/var/lib", "/usr/local/flame", "/data/../etc")
    ),
    Rejection("existing claim for several caches", _cache(replicas=2, persistence={"existingClaim": "a"}),
        "spec.objectCache.replicas",
        "must be at most 1 with persistence.existingClaim, because each replica needs a claim of its own"),
    # Rolling updates
    *(_at("executorManager.updateStrategy.rollingUpdate.maxUnavailable", value,
        "must be a whole number of 0 or more, or a percentage from 0% to 100%")
        for value in (-1, "101%", "25", "25 %", "-5%", "00%", "1.5%")),
    *(_at("executorManager.updateStrategy.rollingUpdate.maxSurge", value,
        "must be a whole number of 0 or more, or a percentage such as 25%")
        for value in (-1, "x%", "99999%")),
    *(_at("executorManager.updateStrategy.rollingUpdate", fields, "maxUnavailable and maxSurge must not both be 0")
        for fields in ({"maxUnavailable": 0, "maxSurge": 0}, {"maxUnavailable": "0%", "maxSurge": 0},
        {"maxUnavailable": 0, "maxSurge": "0%"}, {"maxUnavailable": "0%", "maxSurge": "0%"}, {"maxUnavailable": 0})),
    # Pod templates: metadata
    *(_at("executorManager.podTemplate.metadata.labels", {label: "x"},
        "the operator sets them, Services select by them")
        for label in ("app", "app.kubernetes.io/name", "flame.xflops.io/cluster", "flame.xflops.io/anything")),
    _at("executorManager.podTemplate.metadata.labels.team", "a b", "must be a label's value"),
    _at("executorManager.podTemplate.metadata.labels.team", 1, "must be a string", "must be of type string"),
    _at("executorManager.podTemplate.metadata.labels", {"a b": "x"}, "keys must be like app"),
    _at("executorManager.podTemplate.metadata.annotations", {"flame.xflops.io/revision": "1"},
        "must not have flame.xflops.io/* other than flame.xflops.io/restarted-at"),
    _at("executorManager.podTemplate.metadata.annotations", {"a/b/c": "1"}, "keys must be like app"),
    _at("executorManager.podTemplate.metadata.name", "x", _UNKNOWN,
        'unknown field "spec.executorManager.podTemplate.metadata.name"'),
    # Pod templates: Pods
    _at("executorManager.podTemplate.spec.restartPolicy", "Always", "must not be set: the operator"),
    _at("executorManager.podTemplate.spec.hostname", "x", _NODE_NAME),
    _at("executorManager.podTemplate.spec.subdomain", "x", _NODE_NAME),
    _at("executorManager.podTemplate.spec.hostnameOverride", "x", _NODE_NAME),
    _at("executorManager.podTemplate.spec.hostNetwork", value=True, message="must not be true: Flame knows a node"),
    _at("executorManager.podTemplate.spec.setHostnameAsFQDN", value=True, message="must not be true"),
    _at("executorManager.podTemplate.spec.hostNetwork", "no", "true or false", "of type boolean"),
    _at("executorManager.podTemplate.spec.volumes[0].name", "config", "must not be config"),
    _at("executorManager.podTemplate.spec.volumes[0].name", "flame-work", "start with flame-"),
    # Pod templates: containers
    *(
        Rejection(
            f"{field} {value} of {name}",
            _component(component, image="x:1", podTemplate={"spec": {"containers": [{"name": name, field: value}]}}),
            f"spec.{component}.podTemplate.spec.containers[0].{field}",
            message.format(component),
        )
        for component, name in (
            ("sessionManager", "session-manager"),
            ("executorManager", "executor-manager"),
            ("objectCache", "object-cache"),
        )
        for field, value, message in (
            ("image", "x", "see spec.{}.image"),
            ("imagePullPolicy", "Always", "see spec.{}.imagePullPolicy"),
            ("env", [{"name": "A"}], "see spec.{}.env"),
            *(
                ("resources", {part: value}, "see spec.{}.resources")
                for part, value in (("limits", {}), ("requests", {"cpu": 1}), ("claims", [{"name": "gpu"}]))
            ),
            ("command", ["sh"], "the operator sets it, because it names the configuration file"),
            ("args", ["-v"], "the operator sets them, because they name the configuration file"),
            ("restartPolicy", "Always", "Flame loses a node whose container restarts in place"),
            ("restartPolicyRules", [{"action": "Restart"}], "Flame loses a node whose container restarts in place"),
        )
    ),
    *(
        Rejection(
            f"{component}: a container of {kind} restarts all others",
            _component(
                component,
                image="x:1",
                podTemplate={
                    "spec": {
                        kind: [
                            {
                                "name": "watchdog",
                                "image": "w:1",
                                "restartPolicy": "Never",
                                "restartPolicyRules": [
                                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}},
                                    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}},
                                ],
                            }
                        ]
                    }
                },
            ),
            f"spec.{component}.podTemplate.spec.{kind}[0].restartPolicyRules[1].action",
            "must be Restart: another action restarts the operator's container in place, and Flame loses its node",
        )
        for component in ("sessionManager", "executorManager", "objectCache")
        for kind in ("containers", "initContainers")
    ),
    *(
        Rejection(
            f"{field} of the wait container",
            _wait(**{field: value}),
            f"{_POD}.initContainers[0].{field}",
            "must not be set for container wait-for-session-manager: the operator sets it",
        )
        for field, value in (
            ("image", "x"),
            ("imagePullPolicy", "Always"),
            ("command", ["true"]),
            ("args", ["x"]),
            ("restartPolicy", "Always"),
            ("restartPolicyRules", [{"action": "Restart"}]),
        )
    ),
    *(Rejection(f"mount at {path}", _own(volumeMounts=[{"name": "a", "mountPath": path}]),
        f"{_POD}.containers[0].volumeMounts", "must not mount anything at or below /etc/flame")
        for path in ("/etc/flame", "/etc/./flame", "/etc/flame/flame-cluster.yaml", "etc/flame")),
    Rejection("container without name", _executor_pod(containers=[{}]), f"{_POD}.containers[0].name", "must be set",
        "Required"),
    _at("executorManager.podTemplate.spec.containers[0]", None, "must be an object", "null"),
    _at("executorManager.podTemplate.spec.containers[0]", {"name": "sidecar"},
        "must have an image: the operator's container here is named executor-manager"),
    _at("sessionManager.podTemplate.spec.containers[0]", {"name": "executor-manager"},
        "must have an image: the operator's container here is named session-manager"),
    _at("objectCache.podTemplate.spec.containers[0]", {"name": "cache"},
        "must have an image: the operator's container here is named object-cache", beside=_CACHE),
    _at("executorManager.podTemplate.spec.initContainers[0]", {"name": "wait"},
        "must have an image: the operator's container here is named wait-for-session-manager"),
    Rejection("own container as init container", _executor_pod(initContainers=[{"name": "executor-manager", "image": "x"}]),
        f"{_POD}.initContainers[0].name", "must not be executor-manager"),
    Rejection("session manager as init container", _session_pod(initContainers=[{"name": "session-manager", "image": "x"}]),
        f"{_SESSION}.podTemplate.spec.initContainers[0].name", "must not be session-manager"),
    Rejection("wait container as container", _executor_pod(containers=[{"name": "wait-for-session-manager", "image": "x"}]),
        f"{_POD}.containers[0].name", "must not be wait-for-session-manager"),
    _at("executorManager.podTemplate.spec.containers", [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}],
        "must not list name a twice", "Duplicate value"),
)  # fmt: skip

#: Specs that the operator alone refuses, because CEL cannot see the problem.
OPERATOR_REJECTIONS: tuple[Rejection, ...] = (
    *(
        Rejection(
            f"a hook beside {field}",
            _executor(drain={"onTermination": {"enabled": True}}, podTemplate={"spec": pod}),
            f"{_EXECUTOR}.podTemplate.spec.{field}",
            f"must not be {word} beside drain.onTermination",
        )
        for field, word, pod in (
            (
                "containers[name=executor-manager].lifecycle.preStop",
                "set",
                {"containers": [{"name": "executor-manager", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]},
            ),
            ("hostPID", "true", {"hostPID": True}),
            ("shareProcessNamespace", "false", {"shareProcessNamespace": False}),
        )
    ),
    _at("executorManager.resources", {"limits": {"example.com/gpu": "1k"}, "requests": {"example.com/gpu": "2k"}},
        "requests must not be above limits"),
    _at("networkPolicy.clients[0].ipBlock.cidr", "10.0.0.256/8", "is not a block of addresses: 10.0.0.256/8"),
    *(
        Rejection(
            f"{problem}: {exception}",
            _spec(networkPolicy={"clients": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [exception]}}]}),
            "spec.networkPolicy.clients[0].ipBlock.except[0]",
            f"{message}{exception}",
        )
        for problem, exception, message in (
            ("impossible exception", "10.1.0.0/99", "is not a block of addresses: "),
            ("exception beside the block", "11.0.0.0/16", "must be a part of 10.0.0.0/8, is "),
            ("exception of the whole block", "10.0.0.0/8", "must be a part of 10.0.0.0/8, is "),
            ("exception of another family", "2001:db8::/64", "must be a part of 10.0.0.0/8, is "),
        )
    ),
    Rejection("merge directive", _own(securityContext={"$patch": "delete"}), f"{_POD}.containers[0].securityContext.$patch",
        "merge directives are not supported"),
    _at("executorManager.podTemplate.spec.tolerations[0].$patch", "replace", "merge directives are not supported"),
    Rejection("mount at a path with ..", _own(volumeMounts=[{"name": "a", "mountPath": "/etc/x/../flame"}]),
        f"{_POD}.containers[0].volumeMounts", "must not mount anything at or below /etc/flame"),
)  # fmt: skip

ACCEPTANCES: tuple[Acceptance, ...] = (
    Acceptance("minimal", {}),
    Acceptance("a hook for as long as a drain may take",
        _executor(drain={"timeoutSeconds": 5, "onTermination": {"enabled": True, "maxSeconds": 5}})),
    Acceptance("a short drain without a hook", _executor(drain={"timeoutSeconds": 0})),
    Acceptance("autoscaling", _executor(autoscaling={"maxReplicas": 3})),
    Acceptance("autoscaling beside the default of replicas", _executor(replicas=1, autoscaling={"maxReplicas": 3})),
    Acceptance("autoscaling down to nothing", _executor(autoscaling={"minReplicas": 0, "maxReplicas": 3})),
    Acceptance("idle", _spec(idle={"timeoutSeconds": 60})),
    Acceptance("object cache", _cache(imagePullPolicy="Always", replicas=3, resources={"limits": {"memory": "4Gi"}},
        env=[{"name": "A", "value": "b"}], eviction={"policy": "none", "maxMemory": "512m", "maxObjects": 7},
        podTemplate={"spec": {"nodeSelector": {"disk": "fast"}}})),
    *(Acceptance(f"maxMemory {size!r}", _cache(eviction={"maxMemory": size}))
        for size in ("1G", "2Gi", "512MB", "1024k", "7", "3TiB")),
    *(Acceptance(f"persistent storage {storage!r}", _session(storage=storage, persistence={"size": "10Gi"}))
        for storage in ("fs:///var/lib/flame/session", "file:///var/lib/flame/session/a",
        "sqlite:///var/lib/flame/session/flame.db")),
    *(
        Acceptance(f"persistence {claim}", _cache(persistence=claim))
        for claim in (
            {"size": "10Gi", "storageClassName": "", "accessModes": ["ReadWriteOncePod"], "deletionPolicy": "Retain"},
            {"size": 1000000},
            {"existingClaim": "my-claim.a"},
        )
    ),
    Acceptance("longest name", _name("a" * 35)),
    Acceptance(
        "all of the HLD",
        {
            "spec": {
                "sessionManager": {
                    "resources": {},
                    "slot": "cpu=1,mem=1g",
                    "policy": "priority",
                    "storage": "sqlite://flame.db",
                },
                "executorManager": {"replicas": 3, "resources": {}, "shim": "host", "maxExecutors": 10},
                "objectCache": {"networkInterface": "eth0", "storage": "/var/lib/flame/cache"},
            }
        },
    ),
    Acceptance("most executors", _executor(replicas=2**31 - 1)),
    Acceptance("options", _spec(scheduleInterval=1, limits={"maxSessions": 1},
        sessionManager={"recovery": {"retryLimits": 1}},
        executorManager={"runtimeStorage": {"medium": "Memory", "sizeLimit": "1Gi"}})),
    Acceptance("TLS",
        _spec(tls={"secretName": "a.b-c", "certKey": "cert.pem", "keyKey": "key.pem", "caKey": "ca_1.pem"},
        objectCache={"tls": {"secretName": "x"}})),
    Acceptance("TLS for 0.7", _spec(flameVersion="0.7", tls={"secretName": "x", "trustDomain": "flame.example"})),
    Acceptance(
        "network policy with clients",
        _spec(
            networkPolicy={
                "clients": [
                    {"podSelector": {}},
                    {"podSelector": {"matchLabels": {"flame-client": "true"}}, "namespaceSelector": {}},
                    {
                        "namespaceSelector": {
                            "matchExpressions": [
                                {"key": "example.com/team", "operator": "In", "values": ["a", "b"]},
                                {"key": "closed", "operator": "DoesNotExist"},
                            ]
                        }
                    },
                    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                    {"ipBlock": {"cidr": "2001:db8::/64"}},
                ]
            }
        ),
    ),
    Acceptance("client's package", _spec(clientConfig={"package": {"excludes": ["*.log"]}})),
    Acceptance("lock options",
        _spec(lockOptions={"disabled": True, "denyList": ["flamectl-system/flamectl-operator", "x" * 317]})),
    Acceptance("overrides", _spec(configOverrides={"cluster": {"tls": {"ca_file": "/x"}, "limits": None}, "x": [1, None]})),
    *(Acceptance(f"slot {slot!r}", _session(slot=slot))
        for slot in ("mem=1g,cpu=1", "gpu=1,cpu=2,mem=512Mi", "cpu=1,mem=1G,gpu=0", "cpu=1,mem=1073741824",
        "cpu=64,mem=1GiB", "cpu=1, mem=2tb", "cpu=1,mem=512M")),
    *(Acceptance(f"slot {slot!r} for 0.5", {"spec": {"flameVersion": "0.5", "sessionManager": {"slot": slot}}})
        for slot in ("cpu=1,mem=1g", "mem=512M,cpu=2", "cpu=1, mem=1024")),
    *(Acceptance(f"quantity {quantity!r}", _executor(resources={"limits": {"cpu": quantity}}))
        for quantity in (0, 1, "1", "0.5", ".5", "1.", "500m", "1.5Gi", "1E", "1E-3", "+1")),
    Acceptance(
        "requests within limits",
        _executor(
            resources={"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "1000m", "ephemeral-storage": "9Gi"}}
        ),
    ),
    Acceptance("claims", _executor(resources={"claims": [{"name": "gpu"}, {"name": "nic", "request": "one"}]})),
    Acceptance("own log level", _env({"name": "RUST_LOG", "value": "debug"})),
    Acceptance("odd variable", _env({"name": "a.b-c d", "value": ""})),
    Acceptance(
        "all sources",
        _env(
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "B", "value": "", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
            {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "a.env", "key": "k"}}},
        ),
    ),
    *(Acceptance(f"interface {interface!r}", _spec(objectCache={"networkInterface": interface}))
        for interface in ("eth.*", "^(eth|ens)[0-9]+$", r"\pL+", "^*", "[[:alpha:]]+0", r"a\\u")),
    *(Acceptance(f"rolling update {fields}", _rolling(**fields))
        for fields in ({"maxUnavailable": 1}, {"maxUnavailable": "100%"}, {"maxUnavailable": 0, "maxSurge": "1%"},
        {"maxUnavailable": "0%", "maxSurge": 5}, {"maxSurge": "150%"})),
    Acceptance("recreate", _executor(updateStrategy={"type": "Recreate"})),
    Acceptance(
        "nulls are absent",
        {
            "spec": {
                "sessionManager": {"slot": None, "resources": None, "env": None, "podTemplate": None},
                "executorManager": {
                    "replicas": None,
                    "updateStrategy": {"rollingUpdate": {"maxSurge": None}},
                    "podTemplate": {"metadata": None, "spec": {"hostname": None, "containers": None}},
                    "imagePullPolicy": None,
                },
                "objectCache": None,
                "flameVersion": None,
                "suspend": None,
                "lockOptions": {"disabled": None, "denyList": None},
                "configOverrides": None,
            }
        },
    ),
    Acceptance(
        "labels and annotations",
        _executor(
            podTemplate={
                "metadata": {
                    "labels": {"team": "a_b.c-d", "example.com/team": ""},
                    "annotations": {"flame.xflops.io/restarted-at": "2026-08-01 12:00", "example.com/x": "any text"},
                }
            }
        ),
    ),
    Acceptance("restricted",
        _session_pod(securityContext={"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}, hostNetwork=False)),
    Acceptance(
        "additions to own containers",
        _executor_pod(
            containers=[
                {
                    "name": "executor-manager",
                    "securityContext": {"readOnlyRootFilesystem": False},
                    "envFrom": [{"secretRef": {"name": "s"}}],
                    "volumeMounts": [
                        {"name": "scratch", "mountPath": "/scratch"},
                        {"name": "x", "mountPath": "/etc/flames"},
                    ],
                },
                {
                    "name": "sidecar",
                    "image": "busybox:1.37",
                    "command": ["sleep"],
                    "args": ["1"],
                    "env": [{"name": "A"}],
                },
            ],
            initContainers=[
                {"name": "wait-for-session-manager", "resources": {"limits": {"cpu": "10m"}}},
                {"name": "log-shipper", "image": "busybox:1.37", "restartPolicy": "Always"},
                {
                    "name": "fetch",
                    "image": "busybox:1.37",
                    "restartPolicy": "Never",
                    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [7]}}],
                },
            ],
            volumes=[{"name": "scratch", "emptyDir": {}}, {"name": "x", "configMap": {"name": "x"}}],
            nodeSelector={"a": "b"},
            tolerations=[{"operator": "Exists"}],
            terminationGracePeriodSeconds=5,
        ),
    ),
    *(
        Acceptance(
            f"empty resources of each container of {component}, as kubectl prints them",
            _component(
                component,
                image="x:1",
                resources={"limits": {"memory": "1Gi"}},
                podTemplate={
                    "spec": {
                        "containers": [
                            {"name": own, "resources": {}},
                            {"name": "sidecar", "image": "s:1", "resources": {}},
                        ],
                        "initContainers": [
                            {"name": "fetch", "image": "f:1", "resources": {}},
                            *(
                                [{"name": "wait-for-session-manager", "resources": {}}]
                                if own == "executor-manager"
                                else []
                            ),
                        ],
                    }
                },
            ),
        )
        for component, own in (
            ("sessionManager", "session-manager"),
            ("executorManager", "executor-manager"),
            ("objectCache", "object-cache"),
        )
    ),
    Acceptance(
        "sidecar that reads the configuration",
        _session_pod(
            containers=[
                {
                    "name": "sidecar",
                    "image": "busybox:1.37",
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/flame", "readOnly": True}],
                }
            ]
        ),
    ),
)  # fmt: skip
