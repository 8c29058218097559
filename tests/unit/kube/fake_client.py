"""A client that answers from a script."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from flamectl_operator.kube.client import Page, WatchEvent
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.pod_views import PodView


class ScriptedClient:
    """Lists and watches as its scripts say; without a script, lists are empty and watches wait for ever.

    A watch's script has events, errors to raise, and seconds to let pass; after its last step the watch ends cleanly.
    """

    def __init__(self) -> None:
        self.lists: list[Page[PodView] | KubernetesError] = []
        self.watches: list[list[WatchEvent[PodView] | KubernetesError | float]] = []
        self.list_calls: list[dict[str, Any]] = []
        self.watch_calls: list[dict[str, Any]] = []
        self.watch_times: list[float] = []
        self.open_watches = 0

    async def list_page(self, _resource: object, _namespace: str | None, **options: Any) -> Page[PodView]:
        self.list_calls.append(options)
        if not self.lists:
            return Page((), "100")
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(
        self, _resource: object, _namespace: str | None, **options: Any
    ) -> AsyncGenerator[WatchEvent[PodView], None]:
        self.watch_calls.append(options)
        self.watch_times.append(asyncio.get_running_loop().time())
        self.open_watches += 1
        try:
            if not self.watches:
                await asyncio.sleep(1e9)
            for step in self.watches.pop(0):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, (int, float)):
                    await asyncio.sleep(step)
                else:
                    yield step
        finally:
            self.open_watches -= 1

    @property
    def watched_from(self) -> list[str]:
        """The resourceVersions that watches began at."""
        return [call["resource_version"] for call in self.watch_calls]
