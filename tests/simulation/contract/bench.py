"""The bench for a rule of the contract: a namespace of the model or of a real API server, behind the same client."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.errors import NotFoundError
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS, Resource
from flamectl_operator.kube.views import ConfigMapView, KubernetesObject
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.kube.client import Client, WatchEvent
    from flamectl_operator.kube.pod_views import PodView
    from flamectl_operator.observed.flame_cluster import FlameClusterView

T = TypeVar("T", bound=KubernetesObject)
LABEL = "flame.xflops.io/cluster"
HOLD = "example.com/hold"
#: Seconds that controllers and watches may take.
PATIENCE = 120.0


class Others(Protocol):
    """The actions of users, autoscalers and kubelets, which the operator never takes. They raise the errors of `kube.errors`."""

    async def delete(
        self, resource: Resource[Any], name: str, propagation: Literal["Background", "Foreground", "Orphan"]
    ) -> None:
        """Delete an object, and say what becomes of its dependents."""

    async def patch(self, resource: Resource[Any], name: str, subresource: str, body: dict[str, Any]) -> None:
        """Change fields of a subresource by a JSON merge patch."""


@dataclass
class Bench:
    """See the module.

    Args:
        client: The client under test.
        others: Other clients in the same namespace.
        limit_pods: Gives the namespace a quota of so many Pods, which holds once it has been counted what there is.
    """

    client: Client
    others: Others
    namespace: str
    limit_pods: Callable[[int], None]

    def config_map(self, name: str, **metadata: Any) -> dict[str, Any]:
        """A ConfigMap's manifest."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "data": {"key": "value"},
        }

    def pod(self, name: str, *, schedulable: bool = True, **metadata: Any) -> dict[str, Any]:
        """A Pod's manifest; one that finds no node stays unscheduled."""
        spec: dict[str, Any] = {
            "containers": [{"name": "main", "image": "image:1"}],
            "terminationGracePeriodSeconds": 5,
        }
        if not schedulable:
            spec["schedulingGates"] = [{"name": "example.com/never"}]
        metadata = {"name": name, "namespace": self.namespace, **metadata}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def flame_cluster(self, name: str = "flame") -> dict[str, Any]:
        """A FlameCluster's manifest."""
        return {
            "apiVersion": "flame.xflops.io/v1alpha1",
            "kind": "FlameCluster",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "sessionManager": {"image": "manager:1"},
                "executorManager": {"image": "executor:1", "replicas": 2},
            },
        }

    async def new_config_map(self, name: str, **metadata: Any) -> ConfigMapView:
        return await self.client.create(CONFIG_MAPS, self.namespace, self.config_map(name, **metadata))

    async def new_pod(self, name: str, *, schedulable: bool = True, **metadata: Any) -> PodView:
        return await self.client.create(PODS, self.namespace, self.pod(name, schedulable=schedulable, **metadata))

    async def new_flame_cluster(self, name: str = "flame") -> FlameClusterView:
        return await self.client.create(FLAME_CLUSTERS, self.namespace, self.flame_cluster(name))

    def status(self, cluster: FlameClusterView, **changes: Any) -> dict[str, Any]:
        """The body of a status write for a FlameCluster."""
        metadata = {
            "name": cluster.name,
            "namespace": cluster.namespace,
            "uid": cluster.uid,
            "resourceVersion": cluster.metadata.resource_version,
        }
        body = self.flame_cluster(cluster.name) | {"metadata": metadata | changes.pop("metadata", {})}
        return body | {"status": {"state": "Pending"}} | changes

    async def find(self, resource: Resource[T], name: str) -> T | None:
        try:
            return await self.client.get(resource, self.namespace, name)
        except NotFoundError:
            return None

    async def eventually(self, what: str, check: Callable[[], Any]) -> Any:
        """Ask until something true comes back."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while loop.time() < end:
            if found := await check():
                return found
            await asyncio.sleep(0.2)
        raise AssertionError(f"in vain: {what}")

    async def gone(self, resource: Resource[Any], name: str) -> None:
        """Wait until an object is gone."""

        async def check() -> bool:
            return await self.find(resource, name) is None

        await self.eventually(f"{name} to be gone", check)

    async def release(self, resource: Resource[Any], name: str) -> None:
        """Take the finalizers off."""
        await self.client.merge_patch(resource, self.namespace, name, {"metadata": {"finalizers": None}})

    async def watched(
        self,
        resource: Resource[T],
        revision: str,
        count: int,
        *,
        selector: str = "",
        timeout: int = 120,  # noqa: ASYNC109 - the server's
        bookmarks: bool = False,
    ) -> list[WatchEvent[T]]:
        """The first lines of a watch."""
        found: list[WatchEvent[T]] = []
        lines = self.client.watch(
            resource,
            self.namespace,
            label_selector=selector,
            resource_version=revision,
            timeout_seconds=timeout,
            read_timeout=PATIENCE,
        )
        async with aclosing(lines):
            async for line in lines:
                if bookmarks or line.type is not EventType.BOOKMARK:
                    found.append(line)
                if len(found) == count:
                    break
        return found

    async def revision(self, resource: Resource[Any]) -> str:
        """The resourceVersion of a list."""
        return (await self.client.list_page(resource, self.namespace)).resource_version


def owned_by(cluster: FlameClusterView) -> list[dict[str, Any]]:
    """The owner references of a child."""
    return [
        {
            "apiVersion": "flame.xflops.io/v1alpha1",
            "kind": "FlameCluster",
            "name": cluster.name,
            "uid": cluster.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
