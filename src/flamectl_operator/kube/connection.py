"""From a place where credentials may be found to a transport."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flamectl_operator.kube.credentials import load_credentials
from flamectl_operator.kube.session import RenewedConnection
from flamectl_operator.kube.transport import AiohttpTransport
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.observer import UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from flamectl_operator.kube.credentials import Credentials
    from flamectl_operator.kube.transport import Transport
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer


async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    clock: Clock | None = None,
    environ: Mapping[str, str] | None = None,
    observer: Observer = UNOBSERVED,
) -> Transport:
    """Find credentials and make a transport of them; no request is sent.

    Args:
        kubeconfig: A kubeconfig. Without one: the service account of the Pod we run in, else the default kubeconfig
            ($KUBECONFIG, ~/.kube/config).
        context: The context of the kubeconfig, its current one if not given. Alone it means the default kubeconfig.
        clock: The system's clock if not given.
        environ: The process' environment if not given.
        observer: Hears of requests.

    Raises:
        ConfigurationError: When there are no credentials, or they cannot be used.
    """
    environ = os.environ if environ is None else environ
    clock = clock or SystemClock()

    async def load() -> Credentials:
        return await load_credentials(kubeconfig, context, environ)

    return AiohttpTransport(RenewedConnection(load, await load(), clock), clock, observer)
