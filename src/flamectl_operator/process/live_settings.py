"""The settings in force, read at the start and again every few seconds.

A valid change takes effect at once, except for settings marked `AtStart`; for these the log says once that a restart is needed.
An invalid change is reported, and the settings in force stay in force.
"""

from collections.abc import Callable, Sequence

import structlog

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.views import EventKind
from flamectl_operator.process.settings_sources import NothingThereError, Source
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.settings.catalogue import changed, in_force, restart_needed
from flamectl_operator.settings.document import parse
from flamectl_operator.settings.layers import Effective, Layer, SettingsError, merge
from flamectl_operator.settings.model import OperatorConfig

#: Seconds between two reads of the source. A read is one small GET, and faster than the kubelet updates a mounted file.
RELOAD_INTERVAL = 10.0

#: Errors that end by themselves. They affect all parts of the operator, which report them, so this module does not.
_PASSING = (ConnectionFailedError, ConnectionLostError, ServerError, TooManyRequestsError)


#: Records an event about an object, with type, reason and message.
RecordEvent = Callable[[ObjectReference, EventKind, str, str], None]


class LiveConfig:
    """The settings in force, with subscribers to their changes; without a source nothing can change."""

    def __init__(self, source: Source | None, overrides: Sequence[Layer], clock: Clock) -> None:
        self._source = source
        self._overrides = overrides
        self._clock = clock
        #: The settings that the process started with, and their origins.
        self.started = merge(())
        #: The settings in force.
        self.config = self.started.config
        self._text = ""
        self._subscribers: list[Callable[[OperatorConfig], None]] = []
        self._record_event: RecordEvent | None = None
        self._log = structlog.get_logger(component="settings")
        #: The problem of the source in one line; empty when there is none.
        self.last_error = ""
        #: Paths of changed settings that take effect only after a restart.
        self.restart_needed: tuple[str, ...] = ()

    def subscribe(self, subscriber: Callable[[OperatorConfig], None]) -> None:
        """Call a function with the settings in force each time that they change."""
        self._subscribers.append(subscriber)

    async def load(self, *, prepare: bool = True) -> None:
        """Read the settings for the first time, and `prepare` a missing ConfigMap; raise SettingsError or KubernetesError."""
        if self._source is not None:
            try:
                if prepare:
                    await self._source.prepare()
                self._text = await self._source.read()
            except NothingThereError as error:
                self.last_error = str(error)
                self._log.warning("settings not found; the defaults apply", error=self.last_error)
        self.started = self._effective(self._text)
        self.config = self.started.config

    async def run(self, record_event: RecordEvent) -> None:
        """Read the source periodically until cancelled, and record events on the ConfigMap, if the source is one."""
        self._record_event = record_event
        while True:
            await self._clock.sleep(RELOAD_INTERVAL)
            await self.reload()

    async def reload(self) -> None:
        """Read the source once."""
        if self._source is None:
            return
        try:
            text = await self._source.read()
            if text == self._text and not self.last_error:
                return
            wanted = self._effective(text).config
        except SettingsError as error:
            self._report_error(str(error))
        except _PASSING as error:
            self._log.debug("settings not read", error=str(error))
        except KubernetesError as error:
            self._report_error(f"{self._source.name}: cannot be read: {error}")
        else:
            self._text = text
            if self.last_error:
                self.last_error = ""
                self._log.info("settings are valid again")
            self._take_over(wanted)

    def _effective(self, text: str) -> Effective:
        document = [parse(text, self._source.name)] if self._source is not None else []
        return merge([*document, *self._overrides])

    def _take_over(self, wanted: OperatorConfig) -> None:
        config = in_force(self.started.config, wanted)
        after_restart = restart_needed(self.started.config, wanted)
        news = changed(self.config, config)
        self.config = config
        if news:
            self._log.info("settings changed", settings=news)
            message = f"The operator applied changed settings: {', '.join(news)}"
            self._record("Normal", "ConfigurationChanged", message)
            for subscriber in self._subscribers:
                subscriber(config)
        if after_restart != self.restart_needed:
            self.restart_needed = after_restart
            if after_restart:
                self._log.warning("changed settings need a restart", settings=after_restart)
                message = f"These settings take effect after a restart of the operator: {', '.join(after_restart)}"
                self._record("Normal", "RestartNeeded", message)
            else:
                self._log.info("no restart needed any more")

    def _report_error(self, error: str) -> None:
        if error == self.last_error:
            return
        self.last_error = error
        self._log.error("settings rejected; the previous settings stay in force", error=error)
        self._record("Warning", "ConfigurationInvalid", f"{error}. The previous settings stay in force")

    def _record(self, kind: EventKind, reason: str, message: str) -> None:
        about = self._source.about if self._source is not None else None
        if about is not None and self._record_event is not None:
            self._record_event(about, kind, reason, message)
