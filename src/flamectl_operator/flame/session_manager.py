"""The calls of the operator to a session manager, and the error that they raise."""

from typing import Protocol

from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.runtime.text import one_line

#: The reason of a FlameError about a session manager that sends more than any answer of Flame takes.
TOO_LARGE = "AnswerTooLarge"
#: The most characters of an error's text, which may be the session manager's own.
MAX_ERROR_LENGTH = 1024


class FlameError(Exception):
    """A call to a session manager failed, or its outcome is unknown."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(one_line(message, MAX_ERROR_LENGTH))
        self.reason = reason


class SessionManager(Protocol):
    """The calls of the operator to a session manager. Each method raises FlameError."""

    async def ask(self) -> SessionManagerAnswer:
        """Ask for the nodes, the executors and the sessions."""

    async def release_node(self, name: str) -> None:
        """Take a node out of the table. A living node keeps its executors until their sessions end, and gets no new ones."""

    async def report_lost(self, name: str) -> None:
        """Tell that a node is gone: in 30 s the session manager removes its executors and runs their tasks elsewhere.

        The name is registered once more, without any capacity, and its connection is ended. The session manager then treats it
        like each node whose connection is lost. `release_node` afterwards takes it out of the table.
        """

    def close(self) -> None:
        """Close the connection; the next call opens another one."""

    def end(self) -> None:
        """Close the connection for good; each further call fails, because another server may have the address by now."""
