"""The settings in force: read at the start, and again every few seconds.

A good edit takes effect for what is not marked `AtStart`; for the rest the log says once that a restart is needed. A bad edit
is reported, and what was in force stays in force.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from flamectl_operator.config_sources import NothingThereError
from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.events import EventKind, ObjectReference
from flamectl_operator.settings import SettingsError, changed, in_force, merge, parse, restart_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flamectl_operator.config_sources import Source
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.settings import Effective, Layer, OperatorConfig

#: Seconds between two looks at the source. One small GET; sooner than the kubelet would have updated a mounted file.
RELOAD_INTERVAL = 10.0

#: Errors that end by themselves. They trouble all parts of the operator and others report them, so they are not reported here.
_PASSING = (ConnectionFailedError, ConnectionLostError, ServerError, TooManyRequestsError)


#: Records an event about an object: its kind, its reason and its message.
Teller = Callable[[ObjectReference, EventKind, str, str], None]


class LiveConfig:
    """The settings in force, and whoever wants to know when they change.

    Args:
        source: Where the document is; None when there is none, and nothing can change.
        overrides: Environment and command line, the stronger one last.
        clock: The time between two looks.
    """

    def __init__(self, source: Source | None, overrides: Sequence[Layer], clock: Clock) -> None:
        self._source = source
        self._overrides = overrides
        self._clock = clock
        self._started = merge(())
        self._config = self._started.config
        self._text = ""
        self._refused: tuple[str, str] | None = None
        self._subscribers: list[Callable[[OperatorConfig], None]] = []
        self._teller: Teller | None = None
        self._log = structlog.get_logger(component="settings")
        #: What is wrong with the source, in one line; empty when nothing is.
        self.last_error = ""
        #: Paths of settings that were changed and take effect only when the process is started again.
        self.restart_needed: tuple[str, ...] = ()

    @property
    def config(self) -> OperatorConfig:
        """The settings in force."""
        return self._config

    @property
    def started(self) -> Effective:
        """The settings that the process started with, and where they come from."""
        return self._started

    def subscribe(self, subscriber: Callable[[OperatorConfig], None]) -> None:
        """Have a function called with the settings in force, each time that they change."""
        self._subscribers.append(subscriber)

    async def load(self, *, prepare: bool = True) -> None:
        """Reads the settings for the first time.

        Args:
            prepare: Whether a ConfigMap that is not there is made.

        Raises:
            SettingsError: They cannot be used.
            KubernetesError: They could not be read.
        """
        if self._source is not None:
            try:
                if prepare:
                    await self._source.prepare()
                self._text = await self._source.read()
            except NothingThereError as error:
                self.last_error = str(error)
                self._log.warning("settings not found, the defaults hold", error=self.last_error)
        self._started = self._effective(self._text)
        self._config = self._started.config

    async def run(self, teller: Teller) -> None:
        """Looks at the source again and again, for ever.

        Args:
            teller: Records events of changes and mistakes at the ConfigMap, if it is one.
        """
        self._teller = teller
        while True:
            await self._clock.sleep(RELOAD_INTERVAL)
            await self.reload()

    async def reload(self) -> None:
        """Looks at the source once."""
        if self._source is None:
            return
        try:
            text = await self._source.read()
            if text == self._text and not self.last_error:
                return
            wanted = self._judged(text).config
        except SettingsError as error:
            self._complain(str(error))
        except _PASSING as error:
            self._log.debug("settings not read", error=str(error))
        except KubernetesError as error:
            self._complain(f"{self._source.name}: cannot be read: {error}")
        else:
            self._text = text
            if self.last_error:
                self.last_error = ""
                self._log.info("settings are good again")
            self._take_over(wanted)

    def _judged(self, text: str) -> Effective:
        """The settings that a text means; a text that was refused is not parsed again."""
        if self._refused is not None and self._refused[0] == text:
            raise SettingsError(self._refused[1])
        try:
            return self._effective(text)
        except SettingsError as error:
            self._refused = text, str(error)
            raise

    def _effective(self, text: str) -> Effective:
        document = [parse(text, self._source.name)] if self._source is not None else []
        return merge([*document, *self._overrides])

    def _take_over(self, wanted: OperatorConfig) -> None:
        config = in_force(self._started.config, wanted)
        needing = restart_needed(self._started.config, wanted)
        news = changed(self._config, config)
        self._config = config
        if news:
            self._log.info("settings changed", settings=news)
            self._tell("Normal", "ConfigurationChanged", f"Now in force: {', '.join(news)}")
            for subscriber in self._subscribers:
                subscriber(config)
        if needing != self.restart_needed:
            self.restart_needed = needing
            if needing:
                self._log.warning("settings changed that take a restart", settings=needing)
                self._tell("Normal", "RestartNeeded", f"In force after a restart of the operator: {', '.join(needing)}")
            else:
                self._log.info("no restart needed any more")

    def _complain(self, error: str) -> None:
        """Says once what is wrong."""
        if error == self.last_error:
            return
        self.last_error = error
        self._log.error("settings not taken over, those before stay in force", error=error)
        self._tell("Warning", "ConfigurationInvalid", f"{error}. The settings before stay in force")

    def _tell(self, kind: EventKind, reason: str, message: str) -> None:
        about = self._source.about if self._source is not None else None
        if about is not None and self._teller is not None:
            self._teller(about, kind, reason, message)
