"""A store between a server that changes, a watch that lags behind and answers that come in any order.

The model of the server is a dictionary and a log of events. The rules of the machine let things happen in any order that
the real world allows: answers to our writes may be taken in long after the watch told of them, or long before; the
connection may break so that a list is needed, and a list may be slow.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.contradictions import version_of
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.pod_views import PodView
from tests.unit.kube.objects import bookmark, pod

NAMES = st.sampled_from(["a", "b", "c"])


@dataclass
class Server:
    """The objects and their log, as the API server has them."""

    version: int = 10
    uids: int = 0
    objects: dict[str, PodView] = field(default_factory=dict)
    log: list[WatchEvent[PodView]] = field(default_factory=list)

    def write(self, kind: EventType, name: str, uid: str, *, terminating: bool = False) -> PodView:
        self.version += 1
        obj = pod(name, self.version, uid=uid, terminating=terminating)
        self.objects[name] = obj
        if kind is EventType.DELETED:
            del self.objects[name]
        self.log.append(WatchEvent(kind, obj))
        return obj

    def create(self, name: str) -> PodView:
        self.uids += 1
        return self.write(EventType.ADDED, name, f"uid-{self.uids}")

    def modify(self, name: str, *, terminating: bool = False) -> PodView:
        current = self.objects[name]
        return self.write(EventType.MODIFIED, name, current.uid, terminating=terminating or current.terminating)

    def remove(self, name: str) -> PodView:
        current = self.objects[name]
        return self.write(EventType.DELETED, name, current.uid, terminating=current.terminating)


@dataclass(frozen=True)
class Answer:
    """A response to a write that has not reached the store yet."""

    obj: PodView
    deleted: PodView | None = None


@dataclass(frozen=True)
class OwnList:
    """A response to a requested list that has not reached the store yet.

    Args:
        version: The moment that they show.
        ended: uids of all objects that were gone by then.
    """

    items: list[PodView]
    version: int
    ended: frozenset[str]


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.store: Store[PodView] = Store()
        self.store.subscribe(self.on_change)
        self.store.subscribe(self.on_any_change, responses=True)
        self.position = 0  # in the server's log
        self.snapshot: tuple[list[PodView], int, int] | None = None
        self.listed = False
        self.answers: list[Answer] = []
        self.own_lists: list[OwnList] = []
        self.ended: set[str] = set()  # uids that were gone by a list of ours, and that the store did not know
        self.written: dict[str, int] = {}  # the version of the last write of ours that the store was told, by uid
        self.deleted_at_once: set[str] = set()
        self.deleted_gracefully: set[str] = set()
        self.told_gone: set[str] = set()
        self.mirror: dict[str, PodView] = {}  # by name, what follows from the changes that were told

    def on_change(self, change: Change[PodView]) -> None:
        if change.old is not None and change.new is not None:
            assert change.old.uid == change.new.uid
            assert version_of(change.old) < version_of(change.new)
        if change.new is not None:
            assert change.new.uid not in self.told_gone, "told of an object after its end"
        elif change.old is not None:
            assert change.old.uid not in self.told_gone, "told of an end twice"
            self.told_gone.add(change.old.uid)

    def on_any_change(self, change: Change[PodView]) -> None:
        if change.new is not None:
            self.mirror[change.new.name] = change.new
        elif change.old is not None:
            known = self.mirror.get(change.old.name)
            if known is not None and known.uid == change.old.uid:
                del self.mirror[change.old.name]

    # Others change things.

    @rule(name=NAMES)
    def somebody_changes(self, name: str) -> None:
        if name in self.server.objects:
            self.server.modify(name)
        else:
            self.server.create(name)

    @rule(name=NAMES)
    def somebody_removes(self, name: str) -> None:
        if name in self.server.objects:
            self.server.remove(name)

    @rule()
    def something_else_changes(self) -> None:
        """An object of another resource: only bookmarks and lists tell of the resourceVersion."""
        self.server.version += 1

    # We change things; the answers are on their way.

    @rule(name=NAMES)
    def we_create(self, name: str) -> None:
        if name not in self.server.objects:
            self.answers.append(Answer(self.server.create(name)))

    @rule(name=NAMES)
    def we_patch(self, name: str) -> None:
        if name in self.server.objects:
            self.answers.append(Answer(self.server.modify(name)))

    @rule(name=NAMES)
    def we_get(self, name: str) -> None:
        if name in self.server.objects:
            self.answers.append(Answer(self.server.objects[name]))

    @rule(name=NAMES, graceful=st.booleans())
    def we_delete_what_we_see(self, name: str, *, graceful: bool) -> None:
        seen = self.store.get("default", name)
        current = self.server.objects.get(name)
        if seen is None or current is None or current.uid != seen.uid:
            return  # the uid precondition fails
        if graceful:
            self.answers.append(Answer(self.server.modify(name, terminating=True), deleted=seen))
        else:
            self.server.remove(name)
            self.answers.append(Answer(seen, deleted=seen))

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def an_answer_arrives(self, data: st.DataObject) -> None:
        answer = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        uid = answer.obj.uid
        if answer.deleted is None:
            self.store.absorb(answer.obj)
            self.written[uid] = max(version_of(answer.obj), self.written.get(uid, 0))
        elif answer.obj.terminating and answer.obj is not answer.deleted:
            self.store.absorb_deletion(answer.deleted, answer.obj)
            self.deleted_gracefully.add(uid)
        else:
            self.store.absorb_deletion(answer.deleted, None)
            self.deleted_at_once.add(uid)

    @rule()
    def we_list(self) -> None:
        items = list(self.server.objects.values())
        uids = {f"uid-{number + 1}" for number in range(self.server.uids)}
        self.own_lists.append(OwnList(items, self.server.version, frozenset(uids - {obj.uid for obj in items})))

    @precondition(lambda self: self.own_lists)
    @rule()
    def our_list_arrives(self) -> None:
        answer = self.own_lists.pop(0)
        known = {obj.uid for obj in self.store.all()}
        self.store.absorb_list(answer.items, str(answer.version), "default", None)
        self.ended |= answer.ended - known

    # The reflector lists and watches.

    @precondition(lambda self: self.snapshot is None)
    @rule()
    def a_list_begins(self) -> None:
        self.snapshot = (list(self.server.objects.values()), self.server.version, len(self.server.log))

    @precondition(lambda self: self.snapshot is not None)
    @rule()
    def a_list_ends(self) -> None:
        assert self.snapshot is not None
        items, version, self.position = self.snapshot
        self.snapshot, self.listed = None, True
        self.store.replace(items, str(version))

    @precondition(lambda self: self.listed and self.snapshot is None and self.position < len(self.server.log))
    @rule()
    def an_event_arrives(self) -> None:
        self.store.apply(self.server.log[self.position])
        self.position += 1

    @precondition(lambda self: self.listed and self.snapshot is None and self.position == len(self.server.log))
    @rule()
    def a_bookmark_arrives(self) -> None:
        self.store.apply(bookmark(self.server.version))

    # Invariants, some of them only in the end.

    @invariant()
    def no_view_is_older_than_our_own_writes(self) -> None:
        alive = {obj.uid for obj in self.server.objects.values()}
        seen = {obj.uid: obj for obj in self.store.all()}
        for uid, version in self.written.items():
            if uid in seen:
                assert version_of(seen[uid]) >= version
            else:
                assert uid not in alive, "an object that we wrote and that exists is gone"

    @invariant()
    def what_we_deleted_does_not_come_back(self) -> None:
        for obj in self.store.all():
            assert obj.uid not in self.deleted_at_once
            assert obj.uid not in self.told_gone
            if obj.uid in self.deleted_gracefully:
                assert obj.terminating

    @invariant()
    def what_a_list_of_ours_showed_to_be_gone_is_not_taken_for_new(self) -> None:
        assert not self.ended & {obj.uid for obj in self.store.all()}

    @invariant()
    def indexes_agree_with_the_objects(self) -> None:
        assert len(self.store) == len(self.store.all())

    @invariant()
    def whoever_asks_for_answers_is_told_of_everything(self) -> None:
        assert self.mirror == {obj.name: obj for obj in self.store.all()}

    def teardown(self) -> None:
        if self.snapshot is not None:
            self.a_list_ends()
        elif not self.listed:
            self.a_list_begins()
            self.a_list_ends()
        for answer in self.answers:
            if answer.deleted is None:
                self.store.absorb(answer.obj)
            else:
                gone = answer.obj is answer.deleted
                self.store.absorb_deletion(answer.deleted, None if gone else answer.obj)
        while self.position < len(self.server.log):
            self.an_event_arrives()
        assert {obj.name: obj for obj in self.store.all()} == self.server.objects
        self.store.apply(bookmark(self.server.version))
        assert not self.store._past.tombstones, "a record that stays for ever is a leak"
        assert not self.store._past._listed, "a record that stays for ever is a leak"


StoreMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestStore = StoreMachine.TestCase
