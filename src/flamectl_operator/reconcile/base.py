"""The contract of a subreconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from flamectl_operator.runtime.workflow import Action

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass  # noqa: F401 - named in the base class below


class Subreconciler(Action["Pass"]):
    """One idempotent step of a pass: a stage's own, or a part of a stage.

    It compares the objects that should exist with the objects that exist, does what its name says, and leaves early when there is
    nothing to do. It never relies on an earlier run, nor on an event.

    Its `run` raises RefusedError when the API server rejects a request; the status then shows the server's text. It raises
    KubernetesError when a request failed for another reason; the next pass repeats the request.
    """

    #: Whether the step may change child objects, so that the status can tell from its result how the work goes.
    acts: ClassVar[bool] = True
