"""Names that users, dashboards and Flame's Pods rely on. A changed name breaks existing clusters."""

from typing import Final

GROUP: Final = "flame.xflops.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "FlameCluster"
LIST_KIND: Final = "FlameClusterList"
PLURAL: Final = "flameclusters"
SINGULAR: Final = "flamecluster"
SHORT_NAME: Final = "flc"
CATEGORIES: Final = ("all", "flame")

# The longest name derived from metadata.name is the hostname of an executor, `<name>-executor-manager-<id>`: 35
# characters, 18 for the infix and ten digits make the 63 that a DNS label may have. Services must start with a letter.
NAME_MAX_LENGTH: Final = 35
NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"

#: The prefix of the operator's keys; only `RESTARTED_AT_ANNOTATION` and `CONFIRM_CLAIM_LOSS_ANNOTATION` are for users.
OWN_PREFIX: Final = f"{GROUP}/"
CLUSTER_LABEL: Final = f"{OWN_PREFIX}cluster"
REVISION_ANNOTATION: Final = f"{OWN_PREFIX}revision"
#: Free text in a podTemplate's annotations; a change restarts the Pods, as `kubectl rollout restart` does.
RESTARTED_AT_ANNOTATION: Final = f"{OWN_PREFIX}restarted-at"
#: On a FlameCluster: uids of claims that are being deleted and whose data may go, with commas between them.
CONFIRM_CLAIM_LOSS_ANNOTATION: Final = f"{OWN_PREFIX}confirm-claim-loss"

#: How an administrator applies the CRD of the operator's version, in the namespace of the operator.
APPLY_CRD: Final = (
    "kubectl exec deploy/flamectl-operator -- flamectl-operator crd"
    " | kubectl apply --server-side --force-conflicts -f -"
)

#: Part of the Services' selectors, as in the HLD.
APP_LABEL: Final = "app"
NAME_LABEL: Final = "app.kubernetes.io/name"
#: Label that Kubernetes gives each namespace, with its name.
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"

#: Components, as in the names and labels of children; the main container has the same name.
SESSION_MANAGER: Final = "session-manager"
EXECUTOR_MANAGER: Final = "executor-manager"
OBJECT_CACHE: Final = "object-cache"
#: The field of a FlameCluster that describes each component.
COMPONENT_FIELDS: Final = {
    SESSION_MANAGER: "spec.sessionManager",
    EXECUTOR_MANAGER: "spec.executorManager",
    OBJECT_CACHE: "spec.objectCache",
}
WAIT_CONTAINER: Final = "wait-for-session-manager"

CONFIG_VOLUME: Final = "config"
#: The prefix of the operator's other volumes, so that a later version can add one without a conflict.
OWN_VOLUME_PREFIX: Final = "flame-"
CONFIG_DIRECTORY: Final = "/etc/flame"
CONFIG_FILE: Final = "flame-cluster.yaml"
#: The file that Flame's clients read, in the directory `.flame` of their home.
CLIENT_CONFIG_FILE: Final = "flame.yaml"

FLAME_CONFIG_VARIABLE: Final = "FLAME_CONFIG"
SESSION_MANAGER_VARIABLE: Final = "SESSION_MANAGER_ADDR"
OBJECT_CACHE_VARIABLE: Final = "OBJECT_CACHE_ADDR"
#: The operator sets a default, which users may override.
LOG_VARIABLE: Final = "RUST_LOG"
#: Variables with the addresses of the cluster's components; a changed one would disconnect a component.
OWN_VARIABLES: Final = (FLAME_CONFIG_VARIABLE, SESSION_MANAGER_VARIABLE, OBJECT_CACHE_VARIABLE)

MANAGED_BY: Final = "flamectl-operator"
#: The field manager of the operator, which the API server takes from the User-Agent.
FIELD_MANAGER: Final = MANAGED_BY
#: On Pods: the hash of the rendered Pod, which also depends on the operator's version and settings. It replaces nothing.
RENDERED_ANNOTATION: Final = f"{OWN_PREFIX}rendered"
#: On executors: the incarnation of the session manager that they belong to; see `observed.incarnation`.
SESSION_MANAGER_ANNOTATION: Final = f"{OWN_PREFIX}session-manager"
#: On a session manager of an earlier version of the operator: the identity of the first container of its Pod.
FIRST_CONTAINER_ANNOTATION: Final = f"{OWN_PREFIX}first-container"
#: On a session manager: the hash of the part of the spec that executors and object caches read as well.
SHARED_ANNOTATION: Final = f"{OWN_PREFIX}shared-revision"
#: On a session manager with a claim: which storage it keeps its sessions in, so that its successor is known to go on with them.
SESSION_STORE_ANNOTATION: Final = f"{OWN_PREFIX}session-store"
#: On session managers and object caches with a claim: the uid of the claim that the Pod mounts.
CLAIM_ANNOTATION: Final = f"{OWN_PREFIX}claim"
#: On executors that were bound to a later incarnation of the session manager, because they seemed still to wait for it.
REBOUND_ANNOTATION: Final = f"{OWN_PREFIX}rebound"
#: On executors that are being drained: why (`DrainReason`), and since when.
DRAINING_ANNOTATION: Final = f"{OWN_PREFIX}draining"
DRAINING_SINCE_ANNOTATION: Final = f"{OWN_PREFIX}draining-since"
#: On executors with a hook for their end: the grace period in seconds that they would have without it.
GRACE_ANNOTATION: Final = f"{OWN_PREFIX}grace-seconds"
#: On the ConfigMap: the `configGeneration` of its content, and the hash of the content.
CONFIG_GENERATION_ANNOTATION: Final = f"{OWN_PREFIX}config-generation"
CONFIG_HASH_ANNOTATION: Final = f"{OWN_PREFIX}config-hash"
#: On children: the keys of labels and annotations that come from `commonLabels` and `commonAnnotations`.
COMMON_KEYS_ANNOTATION: Final = f"{OWN_PREFIX}common-keys"
#: Annotations of others by which the operator decides: which executor is deleted first, and which addresses may reach a Service.
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
SOURCE_RANGES_ANNOTATION: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"

#: On executors: when the operator last changed the annotations below, and which of them it set, because the executor has work.
PROTECTION_ANNOTATION: Final = f"{OWN_PREFIX}protection"
#: Annotations that keep the cluster autoscaler and Karpenter from removing the node of a Pod.
SAFE_TO_EVICT_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"

CONFIG_PATH: Final = f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"

#: The session manager's ports for clients (frontend) and executors (backend). Flame derives the second port from the first.
FRONTEND_PORT: Final = 8080
BACKEND_PORT: Final = 8081
OBJECT_CACHE_PORT: Final = 9090
