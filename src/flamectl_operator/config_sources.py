"""Where the settings' document is kept: a file, or a ConfigMap that the operator makes if it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from flamectl_operator.api.constants import MANAGED_BY
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.resources import CONFIG_MAPS
from flamectl_operator.settings import SettingsError, defaults

if TYPE_CHECKING:
    from pathlib import Path

    from flamectl_operator.kube.client import Client

#: The ConfigMap in the operator's own namespace, and the key in it.
CONFIG_MAP = "flamectl-operator-config"
KEY = "config.yaml"


class NothingThereError(SettingsError):
    """The ConfigMap is not there, or is somebody else's: the defaults are right, but somebody should know."""


class Source(Protocol):
    """Where a document of settings can be read again and again."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def about(self) -> ObjectReference | None:
        """The object to which events belong; None for a file, and before the object was read for the first time."""

    async def prepare(self) -> None:
        """Sees to it that there is something to read, if that is ours to do.

        Raises:
            KubernetesError: The API server could not be asked.
        """

    async def read(self) -> str:
        """The document as it is now.

        Raises:
            NothingThereError: There is none.
            SettingsError: It cannot be read, and that does not end by itself.
            KubernetesError: The API server did not give it.
        """


class FileSource:
    """A file, which somebody else has to write.

    Args:
        path: Where it is.
    """

    about = None

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """See `Source.name`."""
        return str(self._path)

    async def prepare(self) -> None:
        """Nothing to do: a file that was named must be there."""

    async def read(self) -> str:
        """See `Source.read`."""
        try:
            # A few kilobytes, on a disk or in memory: not worth a thread.
            return self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"{self.name}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"{self.name}: not YAML: {error}") from error


class ConfigMapSource:
    """A ConfigMap.

    Args:
        client: The API server. The client must not keep requests waiting, and must not be guarded: all replicas read settings.
        namespace: Where it is.
        name: What it is called.
    """

    def __init__(self, client: Client, namespace: str, name: str = CONFIG_MAP) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._uid = ""
        self._log = structlog.get_logger(component="settings")

    @property
    def name(self) -> str:
        """See `Source.name`."""
        return f"ConfigMap {self._namespace}/{self._name}"

    @property
    def about(self) -> ObjectReference | None:
        """See `Source.about`."""
        return ObjectReference("v1", "ConfigMap", self._namespace, self._name, self._uid) if self._uid else None

    async def prepare(self) -> None:
        """Makes it with all defaults if it is not there. Another replica may be doing the same; the first one wins."""
        try:
            await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError as missing:
            self._check(missing)
            try:
                await self._client.create(CONFIG_MAPS, self._namespace, self._manifest())
                self._log.info("settings created with the defaults", source=self.name)
            except AlreadyExistsError:
                self._log.debug("settings created by another replica", source=self.name)
            except ApiError as error:
                if error.outcome_unknown or isinstance(error, (TooManyRequestsError, UnauthorizedError)):
                    raise
                self._check(error)
                # Not allowed, or no room: then the defaults hold without it.
                self._log.warning("settings cannot be created", source=self.name, error=str(error))

    async def read(self) -> str:
        """See `Source.read`."""
        try:
            found = await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError as error:
            self._check(error)
            raise NothingThereError(f"{self.name}: is not there") from None
        self._uid = found.uid
        text = (found.data or {}).get(KEY)
        if text is None:
            raise NothingThereError(f"{self.name}: has no key {KEY}; is it somebody else's?")
        return text

    def _check(self, error: ApiError) -> None:
        """See to it that a 404 comes from the API server and is about an object.

        A 404 from something before the API server does not tell whether the object is there.

        Raises:
            ServerError: It is a 404 of another kind.
        """
        if isinstance(error, NotFoundError) and not error.of_object:
            raise ServerError(
                error.code, message=f"{self.name}: something else answers in its place: {error}"
            ) from error

    def _manifest(self) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/name": MANAGED_BY},
            },
            "data": {KEY: defaults()},
        }
