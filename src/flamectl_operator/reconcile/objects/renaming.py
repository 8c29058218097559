"""Webhooks that give new objects another name.

An object with another name is not the one that was asked for, so the next pass would create one more, and so on without end. So
once an object was renamed, a dry run must show that the webhook keeps the name before another object of that kind is created.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import AlreadyExistsError, KubernetesError, RenamedError
from flamectl_operator.kube.resources import Resource
from flamectl_operator.reconcile.objects.outcomes import CHANGES_UNDONE
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError


class Renaming:
    """The kinds of objects of one FlameCluster that a webhook renamed."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._refusals: dict[str, RefusedError] = {}  # by kind

    async def check(self, resource: Resource[Any], manifest: Mapping[str, Any]) -> None:
        """Raise RefusedError if a webhook renamed the last object of this kind, and would rename this one, by a dry run.

        If the webhook does not support dry runs, nothing shows whether it was corrected, and no object of this kind is created
        until the operator restarts. A dry run that fails raises KubernetesError.
        """
        if (known := self._refusals.get(resource.kind)) is None:
            return
        try:
            with suppress(AlreadyExistsError):
                await self._client.dry_run_create(resource, self._namespace, manifest)
        except RenamedError as error:
            raise refusal(resource, manifest, error) from error
        except REFUSALS as error:
            if error.knows_no_dry_run:
                raise RefusedError(known.reason, str(known)) from error
            return  # the create will be refused as well, and its error has the words
        self._refusals.pop(resource.kind, None)  # one of several creates may have done so

    def note(self, resource: Resource[Any], manifest: Mapping[str, Any], error: KubernetesError) -> None:
        """Raise RefusedError, and remember the kind of the object, if the error shows that a webhook renamed it."""
        if isinstance(error, RenamedError):
            self._refusals[resource.kind] = refusal(resource, manifest, error)
            raise self._refusals[resource.kind] from error


def refusal(resource: Resource[Any], manifest: Mapping[str, Any], error: RenamedError) -> RefusedError:
    """Return the refusal for an object that gets another name."""
    name, other = manifest["metadata"]["name"], error.other
    message = (
        f'{resource.kind} "{name}" gets the name "{other}" when it is created; correct the webhook that changes names, and delete'
        f' {resource.kind} "{other}"'
    )
    return RefusedError(CHANGES_UNDONE, message)
