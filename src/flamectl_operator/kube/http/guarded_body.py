"""A request body that is written only if its guard allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter

    from flamectl_operator.kube.http.request import Guard


class GuardedBody(aiohttp.BytesPayload):
    """A body that calls its guard right before it is written.

    aiohttp writes the head of a request with the start of its body, so nothing is sent when the guard raises.
    """

    def __init__(self, body: bytes | None, guard: Guard) -> None:
        if not body:
            raise ValueError("a request without a body cannot be guarded")
        super().__init__(body)
        self._guard = guard

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Call the guard, then write; the base class calls this for each attempt to send the request."""
        self._guard()
        await super().write_with_length(writer, content_length)
