"""Sources of the settings' document: a file, or a ConfigMap that the operator creates if it is missing."""

import os
import stat
from pathlib import Path
from typing import Protocol

import structlog

from flamectl_operator.api.constants import MANAGED_BY
from flamectl_operator.kube.client import Client
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
from flamectl_operator.settings.document import defaults
from flamectl_operator.settings.layers import SettingsError

#: The ConfigMap in the operator's own namespace, and its key.
CONFIG_MAP = "flamectl-operator-config"
KEY = "config.yaml"


#: The most bytes of a file with settings.
MAX_FILE_SIZE = 1024 * 1024


class NothingThereError(SettingsError):
    """The ConfigMap does not exist or has no settings, so the defaults apply, with a warning."""


class Source(Protocol):
    """A source of the settings' document."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def about(self) -> ObjectReference | None:
        """The object of events; None for a file, and before the first read of the object."""

    async def prepare(self) -> None:
        """Create the document if it is missing, where that is the operator's task, or raise KubernetesError."""

    async def read(self) -> str:
        """Return the present document.

        Raises:
            NothingThereError: There is no document.
            SettingsError: The document cannot be read, and a person must fix that.
            KubernetesError: The API server did not return the document.
        """


class FileSource:
    """A file, which the user writes."""

    about = None

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self._path)

    async def prepare(self) -> None:
        """Do nothing, because a file that was named must exist."""

    async def read(self) -> str:
        """Return the content of the file."""
        try:
            # The file has a few kilobytes, so a thread is not worth it.
            return self._content().decode("utf-8")
        except OSError as error:
            raise SettingsError(f"{self.name}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(f"{self.name}: not YAML: {error}") from error

    def _content(self) -> bytes:
        # Without O_NONBLOCK, a FIFO that nobody writes to would stop the whole operator.
        with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SettingsError(f"{self.name}: must be a file with settings, not a pipe or a device")
            content = file.read(MAX_FILE_SIZE + 1)
        if len(content) > MAX_FILE_SIZE:
            raise SettingsError(f"{self.name}: must have at most {MAX_FILE_SIZE // 1024} KiB, as a ConfigMap does")
        return content


class ConfigMapSource:
    """A ConfigMap. All replicas read it, so the client has no rate limit and no guard."""

    def __init__(self, client: Client, namespace: str, name: str = CONFIG_MAP) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._uid = ""
        self._log = structlog.get_logger(component="settings")

    @property
    def name(self) -> str:
        """The namespace and the name of the ConfigMap."""
        return f"ConfigMap {self._namespace}/{self._name}"

    @property
    def about(self) -> ObjectReference | None:
        """The ConfigMap; None before the first read."""
        return ObjectReference("v1", "ConfigMap", self._namespace, self._name, self._uid) if self._uid else None

    async def prepare(self) -> None:
        """Create the ConfigMap with all defaults if there is none. If another replica does the same, the first create wins."""
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
                # The create is forbidden or exceeds a quota, so the defaults apply.
                self._log.warning("settings cannot be created", source=self.name, error=str(error))

    async def read(self) -> str:
        """Return the document that the ConfigMap holds."""
        try:
            found = await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError as error:
            self._check(error)
            raise NothingThereError(f"{self.name}: does not exist") from None
        self._uid = found.uid
        text = (found.data or {}).get(KEY)
        if text is None:
            raise NothingThereError(f"{self.name}: has no key {KEY}; does the ConfigMap belong to something else?")
        return text

    def _check(self, error: ApiError) -> None:
        """Raise ServerError for a 404 of a proxy, which does not tell whether the object exists."""
        if isinstance(error, NotFoundError) and not error.of_object:
            raise ServerError(
                error.code, message=f"{self.name}: a proxy answers in place of the API server: {error}"
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
