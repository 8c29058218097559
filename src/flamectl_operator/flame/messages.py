"""The protobuf messages of Flame's API that the operator uses, and the division of a long list into batches.

Each message is written as in a `.proto` file, with Flame's field numbers; fields that the operator does not use are left out, and
protobuf skips them. The descriptors live in a pool of their own, so that another library's definitions of the same package do no
harm.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool

#: Package of Flame 0.6 and later.
PACKAGE = "flame.v1"
FRONTEND = f"{PACKAGE}.Frontend"
BACKEND = f"{PACKAGE}.Backend"

#: Fields of each message: `label type name = number`, as in proto3.
MESSAGES: dict[str, str] = {
    "EmptyRequest": "",
    "Metadata": "string id = 1; string name = 2; string workspace = 3",
    "ResourceRequirement": "uint64 cpu = 1; uint64 memory = 2; int32 gpu = 3",
    "Result": "int32 return_code = 1; optional string message = 2",
    "NodeSpec": "string hostname = 1",
    "NodeStatus": "NodeState state = 1; ResourceRequirement capacity = 2; ResourceRequirement allocatable = 3",
    "Node": "Metadata metadata = 1; NodeSpec spec = 2; NodeStatus status = 3",
    "NodeList": "repeated Node nodes = 1",
    "ExecutorSpec": "string node = 1; ResourceRequirement resreq = 2",
    "ExecutorStatus": "ExecutorState state = 1; optional string session_id = 2",
    "Executor": "Metadata metadata = 1; ExecutorSpec spec = 2; ExecutorStatus status = 3",
    "ExecutorList": "repeated Executor executors = 1",
    "SessionSpec": "string application = 2; uint32 min_instances = 5; optional uint32 max_instances = 6; uint32 batch_size = 7; "
    "uint32 priority = 8; ResourceRequirement resreq = 9",
    # Times are in milliseconds since 1970.
    "SessionStatus": "SessionState state = 1; int64 creation_time = 2; optional int64 completion_time = 3; int32 pending = 4; "
    "int32 running = 5; int32 succeed = 6; int32 failed = 7; int32 cancelled = 9",
    # A session's events (field 8 of its status) are read one by one, because a list within an entry has no limit on its cost.
    "Event": "int32 code = 1; string message = 2; int64 creation_time = 3",
    "Session": "Metadata metadata = 1; SessionSpec spec = 2; SessionStatus status = 3",
    "SessionList": "repeated Session sessions = 1",
    "RegisterNodeRequest": "Node node = 1; repeated Executor executors = 2",
    "ReleaseNodeRequest": "string node_name = 1",
    "NodeHeartbeat": "string node_name = 1; NodeStatus status = 2",
    "WatchNodeRequest": "NodeHeartbeat heartbeat = 1",
    "Acknowledgement": "int64 timestamp = 1",
    "WatchNodeResponse": "Executor executor = 1; Acknowledgement ack = 2",
}
#: Values of each enumeration, from 0 on.
ENUMS: dict[str, tuple[str, ...]] = {
    "NodeState": ("Unknown", "Ready", "NotReady"),
    "ExecutorState": ("Unknown", "Void", "Idle", "Binding", "Bound", "Unbinding", "Releasing", "Released"),
    "SessionState": ("Open", "Closed", "Suspending", "Suspended"),
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}


def _file(messages: Mapping[str, str]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="flame.proto", package=PACKAGE, syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            # Values share the scope of their enumeration, so they need its name to be unique.
            enum.value.add(name=f"{name}{value}", number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for line in filter(None, fields.split("; ")):
            _add_field(message, line)
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, line: str) -> None:
    declaration, _, number = line.partition(" = ")
    *label, kind, name = declaration.split()
    repeated = label == ["repeated"]
    field = message.field.add(
        name=name, number=int(number), label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    )
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_ENUM if kind in ENUMS else _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
    if label == ["optional"]:
        # protobuf tells a missing value from an empty one by a oneof of one field.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def classes(messages: Mapping[str, str]) -> Callable[[str], Any]:
    """Return what gives the class of each message by its name; see `MESSAGES`."""
    pool = DescriptorPool()
    pool.Add(_file(messages))
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


#: Gives the class of a message by its name, such as `NodeList`.
message_class = classes(MESSAGES)


#: Entries of a batch, which take the interpreter's lock for a few milliseconds.
MAX_BATCH_ENTRIES = 1000
#: Bytes after which a batch ends, however few entries it has.
MAX_BATCH_SIZE = 256 * 2**10

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
#: The most bytes of a varint.
_LONGEST_VARINT = 10
_MORE = 0x80


class TooLargeError(ValueError):
    """An answer is larger than any answer of Flame."""


def batches(data: bytes, most: int) -> Iterator[bytes]:
    """Yield an encoded list in parts, and each part is an encoded list. All entries are counted before protobuf decodes any.

    On the wire a list is its entries one after the other, each with a tag and a length (protobuf's encoding, "message
    structure"). So a part of a list that begins and ends between two entries is a list as well.

    Args:
        most: The most entries. A field that is no entry of the list counts as one.

    Raises:
        TooLargeError: The list has more entries. Nothing has been yielded.
        ValueError: It is not an encoded message.
    """
    ends = _ends(data, most)
    begin = 0
    for end in ends:
        yield data[begin:end]
        begin = end


def _ends(data: bytes, most: int) -> list[int]:
    found, position, entries, begin, size = [], 0, 0, 0, len(data)
    in_batch = 0
    while position < size:
        entries += 1
        in_batch += 1
        if entries > most:
            raise TooLargeError(f"a list of {size:,} bytes has more than {most:,} entries")
        position = _skip(data, position)
        if in_batch == MAX_BATCH_ENTRIES or position - begin >= MAX_BATCH_SIZE:
            found.append(position)
            begin, in_batch = position, 0
    if position > size:
        raise ValueError("an entry is longer than the list")
    return [*found, size] if begin < size else found


def _skip(data: bytes, position: int) -> int:
    """Return the position after the field at a position, which may be behind the end."""
    tag, position = _varint(data, position)
    kind = tag & 7
    if kind == _LENGTH:
        length, position = _varint(data, position)
        return position + length
    if kind == _VARINT:
        return _varint(data, position)[1]
    if kind == _FIXED64:
        return position + 8
    if kind == _FIXED32:
        return position + 4
    raise ValueError(f"unknown wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = 0
    for index, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & ~_MORE) << 7 * index
        if byte < _MORE:
            return value, position + index + 1
    raise ValueError("a number has no end")
