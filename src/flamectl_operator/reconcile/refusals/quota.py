"""Creates that a quota refused, which say whether the end of other Pods would make room."""

from __future__ import annotations

from collections.abc import Mapping


class QuotaRefusals:
    """The Pods of one FlameCluster whose create a quota refused in this pass or the last one.

    The deletion lock is taken by the refusals of the last pass. Earlier ones say nothing about now, because another process may
    have created the Pod meanwhile.
    """

    def __init__(self) -> None:
        #: The names, each with the time since which it has been refused, by `boottime`, if the end of other Pods may help. It is
        #: replaced, not changed, because snapshots have it.
        self.names: Mapping[str, float | None] = {}
        self._of_this_pass: Mapping[str, float | None] = {}
        self._since: dict[str, float] = {}

    def begin_pass(self) -> None:
        """Forget the refusals of the pass before the last one."""
        self.names, self._of_this_pass = self._of_this_pass, {}
        self._since = {name: since for name, since in self._since.items() if name in self.names}

    def forget(self, name: str) -> None:
        """Forget the refusal of a Pod, because it says nothing about another attempt."""
        self.names, self._of_this_pass = _without(self.names, name), _without(self._of_this_pass, name)

    def add(self, name: str, now: float, *, helps: bool) -> None:
        """Remember a refusal.

        Args:
            now: The time by `boottime`.
            helps: Whether the end of other Pods may help.
        """
        refused = {name: self._since.setdefault(name, now) if helps else None}
        self.names, self._of_this_pass = {**self.names, **refused}, {**self._of_this_pass, **refused}


def _without(refused: Mapping[str, float | None], name: str) -> Mapping[str, float | None]:
    return {each: since for each, since in refused.items() if each != name} if name in refused else refused
