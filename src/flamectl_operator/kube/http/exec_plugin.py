"""Credential plugins, which a kubeconfig names under `exec`, and which end when the load is cancelled.

The `kubernetes` package does not end a plugin's process when the load that started it is cancelled. A plugin that hangs is
started again and again, so its processes would pile up. This module runs plugins in place of the package, in the same way:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from kubernetes.aio.config import ConfigException, kube_config
from kubernetes.aio.config.exec_provider import ExecProvider

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Iterator

#: The module where the package looks up its plugin runner; the package offers no other way to replace it.
_LOADER: Any = kube_config

#: Seconds for a killed process to end.
_END_TIMEOUT = 1.0


@contextlib.contextmanager
def plugins_that_end() -> Iterator[None]:
    """Make the package run plugins with `ExecPlugin`."""
    before = _LOADER.ExecProvider
    _LOADER.ExecProvider = ExecPlugin
    try:
        yield
    finally:
        _LOADER.ExecProvider = before


class ExecPlugin(ExecProvider):
    """A plugin whose process is killed when `run` is cancelled."""

    async def run(self, previous_response: object = None) -> dict[str, Any]:
        """Ask the plugin for credentials.

        Args:
            previous_response: The API server's previous response, if any.

        Returns:
            The `status` of the plugin's response.

        Raises:
            ConfigException: The plugin failed, or its response is not valid.
            OSError: The plugin cannot be started.
        """
        interactive, at_terminal = sys.stdout.isatty(), sys.stdin is not None and sys.stdin.isatty()
        spec = {"interactive": interactive} | ({"response": previous_response} if previous_response else {})
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        process = await asyncio.create_subprocess_exec(
            *self.args,
            env={**self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A separate process group, so that its children can be killed as well; but then it cannot use the terminal.
            process_group=None if at_terminal else 0,
        )
        try:
            output, errors = await process.communicate()
        except asyncio.CancelledError:
            await _kill(process, group=not at_terminal)
            raise
        if process.returncode:
            said = errors.decode(errors="replace").strip()
            raise ConfigException(f"exec: process returned {process.returncode}{f'. {said}' if said else ''}")
        return self._status(output)

    def _status(self, output: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(output)
        except ValueError as error:
            raise ConfigException(f"exec: failed to decode process output: {error}") from error
        for key in ("apiVersion", "kind", "status"):
            if key not in answer:
                raise ConfigException(f"exec: malformed response. missing key '{key}'")
        if answer["apiVersion"] != self.api_version:
            raise ConfigException(f"exec: plugin api version {answer['apiVersion']} does not match {self.api_version}")
        status: dict[str, Any] = answer["status"]
        return status


async def _kill(process: Process, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_TIMEOUT):
            await process.wait()
