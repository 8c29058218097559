"""The contract of a subreconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.runtime.workflow import Action

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass  # noqa: F401 - named in the base class below

#: The `writes` of a step that writes the status and changes no child object.
STATUS = "FlameCluster status"


class Subreconciler(Action["Pass"]):
    """One idempotent step of a pass.

    It compares the objects that should exist with the objects that exist, does what its name says, and leaves early when there is
    nothing to do. It never relies on an earlier run, nor on an event.

    Its `run` raises RefusedError when the API server rejects a request; the status then shows the server's text. It raises
    KubernetesError when a request failed for another reason; the next pass repeats the request.
    """
