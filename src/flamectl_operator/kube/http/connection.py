"""Connects a transport with the credentials of a kubeconfig or a service account."""

import os
from pathlib import Path

from flamectl_operator.kube.http.credentials import Credentials, load_credentials
from flamectl_operator.kube.http.session import RenewedConnection
from flamectl_operator.kube.http.transport import AiohttpTransport, Transport
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.server_clock import ServerClock
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry


async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    telemetry: Telemetry = UNMEASURED,
    server_clock: ServerClock | None = None,
) -> Transport:
    """Load credentials and return a transport that uses them; send no request.

    Args:
        kubeconfig: A kubeconfig. Without one: the service account of this Pod, else the default kubeconfig
            ($KUBECONFIG, ~/.kube/config).
        context: The context of the kubeconfig; by default its current one. Without `kubeconfig`, of the default kubeconfig.

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
    """
    clock = SystemClock()

    async def load() -> Credentials:
        return await load_credentials(kubeconfig, context, os.environ)

    return AiohttpTransport(RenewedConnection(load, await load(), clock), clock, telemetry, server_clock)
