"""The life of a session manager, to which executors belong: Flame's session manager knows only executors that it saw start.

A life is one container. Its identity is the container's id, or the time of its start where there is none. The count of restarts
is no identity, because a kubelet that lost a container, as after a cleanup of the container runtime, counts from zero again.

Executors are created before the first container exists. They get `<uid>.0`, which stands for the first container of the Pod. As
soon as that container runs, an annotation of the Pod records its identity, so that `<uid>.0` stays unambiguous. Every later life
is `<uid>.<identity>`. Earlier versions wrote `<uid>.<restarts>`, which holds while both agree.

Anybody who may write Pods may edit these annotations. One that has not the form in which the operator writes it tells nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import (
    FIRST_CONTAINER_ANNOTATION,
    SESSION_MANAGER,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.observed import pods

if TYPE_CHECKING:
    from flamectl_operator.kube.pod_views import PodView
    from flamectl_operator.observed.component import Component

#: The identity of a container: its id with the runtime, or the time of its start.
_CONTAINER = re.compile(r"[\w.+-]+://\S+|\d{4}-\d\d-\d\dT\S+")
#: A storage and the uid of its claim.
_STORE = re.compile(r"[0-9a-z]+\.[\w-]+")


def life_of(manager: Component | None) -> str:
    """Return the life of a session manager; empty without one that is live.

    A session manager whose sessions persist goes on where the one before it ended, so its life is that of its storage.
    """
    if manager is None or not manager.live:
        return ""
    annotations = manager.pod.annotations
    if SESSION_STORE_ANNOTATION in annotations and (store := session_store(manager.pod)):
        return store
    identity, restarts = _identity(manager.pod), _restarts(manager.pod)
    recorded = annotations.get(FIRST_CONTAINER_ANNOTATION, "")
    first = restarts == 0 and (identity in {"", recorded} or not is_identity(recorded))
    return f"{manager.pod.uid}.{restarts if first or not identity else identity}"


def counted_lives(manager: Component | None) -> tuple[str, ...]:
    """Return the annotations of earlier versions that stand for the present life of a session manager."""
    if manager is None or not manager.live:
        return ()
    restarts = _restarts(manager.pod)
    return (f"{manager.pod.uid}.{restarts}",) if restarts and not session_store(manager.pod) else ()


def first_container(pod: PodView) -> str:
    """Return the identity of the first container of a session manager's Pod; empty when it is not known or need not be."""
    stored = SESSION_STORE_ANNOTATION in pod.annotations and session_store(pod)
    return _identity(pod) if not stored and _restarts(pod) == 0 else ""


def is_identity(text: str) -> bool:
    """Return whether an annotation has the form of a container's identity."""
    return _CONTAINER.fullmatch(text) is not None


def session_store(pod: PodView) -> str:
    """Return which storage a session manager keeps its sessions in; empty when they do not persist."""
    store = pod.annotations.get(SESSION_STORE_ANNOTATION, "")
    return store if store and _STORE.fullmatch(store) else ""


def _identity(pod: PodView) -> str:
    return pods.container_identity(pod, SESSION_MANAGER)


def _restarts(pod: PodView) -> int:
    status = pods.container(pod, SESSION_MANAGER)
    return status.restart_count if status is not None else 0
