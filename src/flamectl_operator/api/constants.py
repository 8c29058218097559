"""The words of the contract: names that users, dashboards and Flame's Pods rely on. To change one breaks clusters."""

from __future__ import annotations

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

#: Every key below this prefix is the operator's, with the one exception of `RESTARTED_AT_ANNOTATION`.
OWN_PREFIX: Final = f"{GROUP}/"
CLUSTER_LABEL: Final = f"{OWN_PREFIX}cluster"
REVISION_ANNOTATION: Final = f"{OWN_PREFIX}revision"
#: Free text in a podTemplate's annotations: to change it is to ask for a restart, as `kubectl rollout restart` does.
RESTARTED_AT_ANNOTATION: Final = f"{OWN_PREFIX}restarted-at"

#: Part of the Services' selectors, as in the HLD.
APP_LABEL: Final = "app"
NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"

SESSION_MANAGER_CONTAINER: Final = "session-manager"
EXECUTOR_MANAGER_CONTAINER: Final = "executor-manager"
WAIT_CONTAINER: Final = "wait-for-session-manager"

CONFIG_VOLUME: Final = "config"
#: Names of the operator's other volumes start so: a prefix, for a later version adds one without meeting a user's.
OWN_VOLUME_PREFIX: Final = "flame-"
CONFIG_DIRECTORY: Final = "/etc/flame"
CONFIG_FILE: Final = "flame-cluster.yaml"

FLAME_CONFIG_VARIABLE: Final = "FLAME_CONFIG"
SESSION_MANAGER_VARIABLE: Final = "SESSION_MANAGER_ADDR"
OBJECT_CACHE_VARIABLE: Final = "OBJECT_CACHE_ADDR"
#: Set by the operator too, but only as a default: a user may write their own.
LOG_VARIABLE: Final = "RUST_LOG"
#: Variables that say where the parts of the cluster are; whoever changes one cuts a component off.
OWN_VARIABLES: Final = (FLAME_CONFIG_VARIABLE, SESSION_MANAGER_VARIABLE, OBJECT_CACHE_VARIABLE)

MANAGED_BY: Final = "flamectl-operator"
#: On Pods: hash of the Pod as rendered. Differs with the operator's version and settings too; replaces nothing by itself.
RENDERED_ANNOTATION: Final = f"{OWN_PREFIX}rendered"
#: On executors: which life of the session manager (`<Pod uid>.<restarts>`) they belong to.
SESSION_MANAGER_ANNOTATION: Final = f"{OWN_PREFIX}session-manager"
#: On executors that were bound to another life of it than they were made under, since they seemed still to wait for it.
REBOUND_ANNOTATION: Final = f"{OWN_PREFIX}rebound"
#: On the ConfigMap: what `configGeneration` was when this content was written, and the hash of the content.
CONFIG_GENERATION_ANNOTATION: Final = f"{OWN_PREFIX}config-generation"
CONFIG_HASH_ANNOTATION: Final = f"{OWN_PREFIX}config-hash"

#: Components, as names of children and labels call them; the main containers of the two that have Pods are named alike.
SESSION_MANAGER: Final = SESSION_MANAGER_CONTAINER
EXECUTOR_MANAGER: Final = EXECUTOR_MANAGER_CONTAINER
OBJECT_CACHE: Final = "object-cache"
CONFIG_PATH: Final = f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"

#: Where clients (frontend) and executors (backend) reach the session manager: Flame binds the port after the first as well.
FRONTEND_PORT: Final = 8080
BACKEND_PORT: Final = 8081
OBJECT_CACHE_PORT: Final = 9090
