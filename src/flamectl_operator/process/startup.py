"""Start-up: waits for missing prerequisites, reports them with a remedy, and continues by itself.

In a cluster that is being set up, or that restarts after a power failure, components start in any order. If the process ended
because of that, the kubelet would restart it more and more slowly, and the reason would be in the log of a container that is
gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

import structlog

from flamectl_operator.api.constants import APPLY_CRD
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import (
    ApiError,
    ConfigurationError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
    UnauthorizedError,
    UntrustedServerError,
)
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, FLAME_CLUSTERS
from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.clock import Clock

#: A step of the start that uses the API server.
Step = Callable[[], Awaitable[object]]

#: Seconds for one attempt.
ATTEMPT_TIMEOUT = 15.0

#: Seconds between attempts: short at first, because most prerequisites appear soon.
RETRY_BASE = 1.0
RETRY_LIMIT = 15.0

_WATCHED = (FLAME_CLUSTERS, *CHILD_RESOURCES)


class StartUp:
    """Repeats the first steps of a process until they succeed."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._backoff = ExponentialBackoff(base=RETRY_BASE, limit=RETRY_LIMIT, jitter=0.5, random=random)
        self._log = structlog.get_logger(component="startup")
        #: The missing prerequisite and its remedy, in one line; empty while it does not wait.
        self.waiting_for = ""

    async def run(self, *steps: Step) -> None:
        """Run steps one after the other, and repeat each until it succeeds; raise ConfigurationError, and what is unforeseen."""
        for step in steps:
            await self._repeat(step)

    async def _repeat(self, step: Step) -> None:
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
                # Connection errors have many texts for the same cause.
                now = str(error) if isinstance(error, ApiError) else type(error).__name__
                log = self._log.debug if now == cause else self._log.warning
                log("waiting to start", waiting_for=self.waiting_for, delay=round(delay, 1))
                cause = now
                await self._clock.sleep(delay)
            else:
                if failures:
                    self._log.info("the prerequisite is met", attempts=failures + 1)
                self.waiting_for = ""
                return


def what_to_do(error: Exception) -> str:
    """Return the missing prerequisite and its remedy in one line."""
    if isinstance(error, UnauthorizedError):
        return f"the API server does not accept the credentials: {error}"
    if isinstance(error, ForbiddenError):
        return f"the permissions in config/rbac are missing: {error}"
    if isinstance(error, UntrustedServerError):
        return f"the kubeconfig or the Pod does not trust the certificate of the API server: {error}"
    if isinstance(error, NotFoundError):
        return f"the FlameCluster resource is not known to the API server; install it: {APPLY_CRD}"
    words = f"no answer in {ATTEMPT_TIMEOUT:.0f} s" if isinstance(error, TimeoutError) else str(error)
    return f"cannot talk to the API server: {words}"


def access_checks(client: Client, namespaces: Sequence[str]) -> list[Step]:
    """Return steps that send one small list request for each watched resource, in all namespaces if none is named.

    They detect missing permissions and CRDs in one place before the watches start, because otherwise the caches would never fill.
    At least one of several namespaces must allow access; `/readyz` reports the others.
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
