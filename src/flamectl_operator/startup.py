"""Starting before everything is there that the operator needs: it waits, says what for and what to do, and goes on by itself.

In a cluster that is being set up, or comes back after a power failure, nothing starts in order. A process that ends because
of that would be restarted ever more slowly by the kubelet, and its reason would be in the log of a container that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.kube.errors import (
    ApiError,
    ConfigurationError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS, SERVICES
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.subreconcilers.stores import FLAME_CLUSTERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.runtime.clock import Clock

#: Does something with the API server.
Step = Callable[[], Awaitable[object]]

#: Seconds that an attempt may take; an API server that answers later than that does not work.
ATTEMPT_TIMEOUT = 15.0

#: Seconds between attempts: soon at first, for most of what is missing is about to come.
RETRY_BASE = 1.0
RETRY_LIMIT = 15.0


_WATCHED: tuple[Resource[Any], ...] = (FLAME_CLUSTERS, PODS, SERVICES, CONFIG_MAPS)


class StartUp:
    """Repeats the first steps of a process until they succeed.

    Args:
        clock: Sleeps between attempts.
        random: The source of jitter.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._backoff = ExponentialBackoff(base=RETRY_BASE, factor=2, limit=RETRY_LIMIT, jitter=0.5, random=random)
        self._log = structlog.get_logger(component="startup")
        #: What it waits for, in one line with what to do about it; empty while it does not wait.
        self.waiting_for = ""

    async def take(self, *steps: Step) -> None:
        """Take steps one after the other, each of them as often as it takes.

        Args:
            steps: Need the API server, and may be taken again after they failed.

        Raises:
            ConfigurationError: Waiting is of no use.
            Exception: What else a step raises and is not the API server's doing.
        """
        for step in steps:
            await self._take(step)

    async def _take(self, step: Step) -> None:
        cause, failures = "", 0
        while True:
            try:
                async with asyncio.timeout(ATTEMPT_TIMEOUT):
                    await step()
            except ConfigurationError:
                raise
            except (KubernetesError, TimeoutError) as error:
                failures += 1
                delay = self._backoff.delay(failures)
                self.waiting_for = what_to_do(error)
                # Errors of connections come in many words for the same cause.
                now = str(error) if isinstance(error, ApiError) else type(error).__name__
                log = self._log.debug if now == cause else self._log.warning
                log("waiting to start", waiting_for=self.waiting_for, delay=round(delay, 1))
                cause = now
                await self._clock.sleep(delay)
            else:
                if failures:
                    self._log.info("waiting is over", attempts=failures + 1)
                self.waiting_for = ""
                return


def what_to_do(error: Exception) -> str:
    """Says in one line what is missing, and what to do about it."""
    if isinstance(error, UnauthorizedError):
        return f"the API server does not accept the credentials: {error}"
    if isinstance(error, ForbiddenError):
        return f"the permissions in config/rbac are missing: {error}"
    if isinstance(error, UntrustedServerError):
        return f"the certificate authorities of the kubeconfig, or of the Pod, are not those of the API server: {error}"
    if isinstance(error, NotFoundError):
        return (
            "the FlameCluster resource is not known to the API server; install it with"
            " `flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -`"
        )
    words = f"no answer in {ATTEMPT_TIMEOUT:.0f} s" if isinstance(error, TimeoutError) else str(error)
    return f"cannot talk to the API server: {words}"


def questions(client: Client, namespaces: Sequence[str]) -> list[Step]:
    """Steps that ask the smallest of questions about each resource that is going to be watched.

    They find in one place, and before anything else runs, what would otherwise be caches that never fill. Of several namespaces
    one has to let the operator in; of the others `/readyz` tells.

    Args:
        client: The API server.
        namespaces: Which ones are watched; all if empty.
    """
    if len(namespaces) > 1:
        return [partial(_some_namespace, client, namespaces)]
    [namespace] = namespaces or (None,)
    return [partial(client.list_page, resource, namespace, limit=1) for resource in _WATCHED]


async def _some_namespace(client: Client, namespaces: Sequence[str]) -> None:
    refused: list[ForbiddenError] = []
    for namespace in namespaces:
        try:
            for resource in _WATCHED:
                await client.list_page(resource, namespace, limit=1)
        except ForbiddenError as error:
            refused.append(error)
        else:
            return
    raise refused[0]
