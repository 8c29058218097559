"""The client of one session manager: gRPC over asyncio, with a deadline on every call. It is imported at first use.

Flame 0.7 renamed two calls. When a session manager does not know the name that was used last, the client uses the other one and
remembers it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError
from grpclib.client import StreamStreamMethod, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from flamectl_operator.flame import answer_reader
from flamectl_operator.flame.answer import NodeState, SessionManagerAnswer
from flamectl_operator.flame.answer_memory import Share
from flamectl_operator.flame.answer_reader import Encoded
from flamectl_operator.flame.frames import LimitedChannel, LimitedContext, TooMuchError
from flamectl_operator.flame.messages import BACKEND, FRONTEND, TooLargeError, message_class
from flamectl_operator.flame.session_manager import TOO_LARGE, FlameError

#: Seconds that a call may take, the connection included.
DEADLINE = 5.0

#: Errors of grpclib and protobuf about an answer that is not gRPC's, such as one without a status or a compressed one.
_NOT_GRPC = (DecodeError, LookupError, NotImplementedError, ValueError)
#: Errors of grpclib about a connection that ends. It has an assertion for an answer that ends in the middle.
_ENDED = (AssertionError, ProtocolError, StreamTerminatedError)

_EMPTY, _RESULT = message_class("EmptyRequest"), message_class("Result")
_RELEASE, _REGISTER = message_class("ReleaseNodeRequest"), message_class("RegisterNodeRequest")
_WATCH, _WATCHED = message_class("WatchNodeRequest"), message_class("WatchNodeResponse")


#: The contexts in use, by their authorities. A context takes 17 KiB and up to nine times the text of its authorities, and most
#: FlameClusters of an organisation have the same authorities.
_CONTEXTS: WeakValueDictionary[str, LimitedContext] = WeakValueDictionary()


def verified_by(authority: str) -> ssl.SSLContext | None:
    """Return how a server's certificate is verified by authorities in PEM; None where there are none, without TLS."""
    if not authority:
        return None
    if (known := _CONTEXTS.get(authority)) is not None:
        return known
    context = LimitedContext(ssl.PROTOCOL_TLS_CLIENT)
    # A server that chose Diffie-Hellman over large numbers would keep the event loop for up to a second. TLS 1.3 does without
    # where the client offers the one curve that each server must know (RFC 8446, 9.1).
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve("prime256v1")
    context.load_verify_locations(cadata=authority)
    context.set_alpn_protocols(["h2"])
    _CONTEXTS[authority] = context
    return context


class GrpcSessionManager:
    """A session manager behind gRPC.

    Args:
        port: Port of the frontend, which clients use; the backend, which executors use, has the next port.
        tls: How to check the server, or None for a connection without TLS.
        certified_name: The name in the server's certificate; empty for the host.
        deadline: Seconds that a call may take. A large answer has them once more when its turn comes.
        namespace: The namespace of its FlameCluster. Namespaces take turns with large answers.
        began: When the session manager began, in seconds since 1970.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        certified_name: str = "",
        deadline: float = DEADLINE,
        namespace: str = "",
        began: float = 0.0,
    ) -> None:
        self._began = began
        self._host = host
        self._port = port
        self._tls = tls
        self._certified_name = certified_name
        self._ended = False
        self._deadline = deadline
        self._namespace = namespace
        self._channels: dict[int, LimitedChannel] = {}
        self._plural = False

    async def ask(self) -> SessionManagerAnswer:
        """Ask for the nodes, the executors and the sessions."""
        async with self._failures() as share:
            nodes = await self._call(share, FRONTEND, "ListNodes", _EMPTY(), Encoded)
            executors = await self._list(share, "ListExecutor")
            sessions = await self._list(share, "ListSession")
            return await answer_reader.read(nodes, executors, sessions, self._began)

    async def release_node(self, name: str) -> None:
        """Take a node out of Flame's table."""
        async with self._failures() as share:
            try:
                await self._backend(share, "ReleaseNode", _RELEASE(node_name=name))
            except GRPCError as error:
                # Another client released it.
                if error.status is not Status.NOT_FOUND:
                    raise

    async def report_lost(self, name: str) -> None:
        """Tell the session manager that a node is gone, so that its tasks run elsewhere."""
        request = _REGISTER()
        request.node.metadata.name = request.node.spec.hostname = name
        request.node.status.state = NodeState.READY
        request.node.status.capacity.SetInParent()
        request.node.status.allocatable.SetInParent()
        heartbeat = _WATCH()
        heartbeat.heartbeat.node_name = name
        async with self._failures() as share:
            await self._backend(share, "RegisterNode", request)
            method: Any = StreamStreamMethod(self._channel(BACKEND), f"/{BACKEND}/WatchNode", _WATCH, _WATCHED)
            async with method.open(timeout=self._deadline) as stream:
                await stream.send_message(heartbeat, end=True)
                answer_reader.limit_messages(stream, share)
                # The session manager answers the heartbeat and sees that no more comes. It does not end the stream itself.
                async for response in stream:
                    if response.HasField("ack"):
                        await stream.cancel()
                        return
        raise FlameError("Refused", "WatchNode: the heartbeat has no answer")

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def end(self) -> None:
        """Close the connection for good."""
        self._ended = True
        self.close()

    @asynccontextmanager
    async def _failures(self) -> AsyncIterator[Share]:
        """Limit the time and the memory of a block of calls, and turn each error in it into a FlameError."""
        large = False
        try:
            with answer_reader.MEMORY.share(self._namespace) as share:
                try:
                    async with asyncio.timeout(self._deadline) as limit:
                        share.taken = lambda: limit.reschedule(asyncio.get_running_loop().time() + self._deadline)
                        yield share
                finally:
                    large = share.size > 0
        except GRPCError as error:
            raise _answered(error) from error
        except TimeoutError as error:
            if large:  # all other large answers waited for it
                raise FlameError(TOO_LARGE, f"a large answer does not arrive within {self._deadline:g} s") from error
            raise FlameError("TimedOut", f"no answer within {self._deadline:g} s") from error
        except _ENDED as error:
            if any(channel.exceeded for channel in self._channels.values()):
                raise FlameError(TOO_LARGE, "it sends more than an answer needs") from error
            raise FlameError("Unreachable", "the connection was lost") from error
        except ssl.SSLError as error:
            raise _without_tls(error) from error
        except OSError as error:
            raise FlameError("Unreachable", error.strerror or str(error) or type(error).__name__) from error
        except TooLargeError as error:
            raise FlameError(TOO_LARGE, f"the answer is not Flame's: {error}") from error
        except _NOT_GRPC as error:
            raise FlameError("NotUnderstood", f"the answer is not Flame's: {error}") from error

    async def _list(self, share: Share, name: str) -> Any:
        """Call a method by the name that this session manager knows."""
        try:
            return await self._call(share, FRONTEND, name + "s" * self._plural, _EMPTY(), Encoded)
        except GRPCError as error:
            if error.status is not Status.UNIMPLEMENTED:
                raise
        answered = await self._call(share, FRONTEND, name + "s" * (not self._plural), _EMPTY(), Encoded)
        self._plural = not self._plural
        return answered

    async def _backend(self, share: Share, name: str, request: Any) -> None:
        result = await self._call(share, BACKEND, name, request, _RESULT)
        if result.return_code != 0:
            raise FlameError("Refused", f"{name}: {result.message or f'return code {result.return_code}'}")

    async def _call(self, share: Share, service: str, name: str, request: Any, answer: Any) -> Any:
        method: Any = UnaryUnaryMethod(self._channel(service), f"/{service}/{name}", type(request), answer)
        async with method.open(timeout=2 * self._deadline) as stream:  # the wait for a turn included
            await stream.send_message(request, end=True)
            answer_reader.limit_messages(stream, share)
            answered = await stream.recv_message()
        if answered is None:
            raise ProtocolError("no answer")
        return answered

    def _channel(self, service: str) -> LimitedChannel:
        if self._ended:
            raise FlameError("Unreachable", "the session manager is no longer the one that was asked")
        port = self._port + (service == BACKEND)
        if port not in self._channels:
            self._channels[port] = LimitedChannel(self._host, port, self._tls, self._certified_name)
        self._channels[port].begin_call()
        return self._channels[port]


def _without_tls(error: ssl.SSLError) -> FlameError:
    if isinstance(error, TooMuchError):
        return FlameError(TOO_LARGE, str(error.args[0]))
    return FlameError("NotTrusted", getattr(error, "verify_message", "") or str(error))


def _answered(error: GRPCError) -> FlameError:
    text = error.message or error.status.name
    if error.status is Status.UNIMPLEMENTED:
        return FlameError("Unsupported", text)
    if error.status in {Status.PERMISSION_DENIED, Status.UNAUTHENTICATED}:
        return FlameError("Forbidden", text)
    if error.status is Status.UNAVAILABLE:
        return FlameError("Unreachable", text)
    if error.status is Status.DEADLINE_EXCEEDED:
        return FlameError("TimedOut", text)
    return FlameError("Refused", text)
