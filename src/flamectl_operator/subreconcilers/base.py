"""What a subreconciler is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.subreconcilers.context import Context


class Subreconciler(Protocol):
    """One idempotent step of a pass.

    It compares what should exist with what is there, does what its name says, and leaves early when there is nothing to do. It
    never relies on having run before, nor on any event having been seen.
    """

    @property
    def name(self) -> str:
        """As it is called in logs and documentation."""

    async def reconcile(self, context: Context) -> Outcome:
        """Does the step.

        Args:
            context: All it needs.

        Returns:
            DONE, or what is waited for, or that the pass ends here.

        Raises:
            RefusedError: The API server will not have what is asked for; the status shows its words.
            KubernetesError: Anything else that went wrong; it is retried.
        """
