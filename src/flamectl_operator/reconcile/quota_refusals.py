"""Creates that a quota refused, which say whether the end of other Pods would make room."""

from __future__ import annotations

from collections.abc import Mapping


class QuotaRefusals:
    """The Pods of one FlameCluster whose create a quota refused in this pass or the last one.

    The deletion lock is taken by the refusals of the last pass. Earlier ones say nothing about now, because another process may
    have created the Pod meanwhile.
    """

    def __init__(self) -> None:
        #: The names, each with whether the end of other Pods may help. It is replaced, not changed, because snapshots have it.
        self.names: Mapping[str, bool] = {}
        self._of_this_pass: Mapping[str, bool] = {}

    def begin_pass(self) -> None:
        """Forget the refusals of the pass before the last one."""
        self.names, self._of_this_pass = self._of_this_pass, {}

    def forget(self, name: str) -> None:
        """Forget the refusal of a Pod, because it says nothing about another attempt."""
        self.names, self._of_this_pass = _without(self.names, name), _without(self._of_this_pass, name)

    def add(self, name: str, *, helps: bool) -> None:
        """Remember a refusal.

        Args:
            helps: Whether the end of other Pods may help.
        """
        self.names, self._of_this_pass = {**self.names, name: helps}, {**self._of_this_pass, name: helps}


def _without(refused: Mapping[str, bool], name: str) -> Mapping[str, bool]:
    return {each: helps for each, helps in refused.items() if each != name} if name in refused else refused
