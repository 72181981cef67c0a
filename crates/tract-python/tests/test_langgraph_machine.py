"""Random calls on `TractSaver` have the results that they have on LangGraph's saver in memory."""

import copy
from collections import defaultdict
from contextlib import ExitStack
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
import tract_context as tract
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from tract_context import _langgraph_ledger, langgraph
from tract_context._langgraph_values import TEXT_BYTES, key_of
from tract_context.langgraph import TractSaver

THREADS = ("a", "b/c", "d e")
NAMESPACES = ("", "", "sub")
RUNS = ("run 1", "run 2", "run 3")
# The path of a task does not change, so that an import can keep the order of the writes.
TASKS = (("t1", ""), ("t2", "~pull"), ("t3", "~push"))


class Model(InMemorySaver):
    """LangGraph's saver in memory, and the operations that it lacks."""

    def has(self, thread: str) -> bool:
        """Return whether a thread has checkpoints or writes."""
        stored = any(self.storage[thread].values()) if thread in self.storage else False
        return stored or any(key[0] == thread for key in self.writes)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for namespace, checkpoints in self.storage[source_thread_id].items():
            self.storage[target_thread_id][namespace] = dict(checkpoints)
        for key, writes in list(self.writes.items()):
            if key[0] == source_thread_id:
                self.writes[(target_thread_id, *key[1:])] = dict(writes)
        for version, blob in list(self.blobs.items()):
            if version[0] == source_thread_id:
                self.blobs[(target_thread_id, *version[1:])] = blob

    def remove(self, thread: str, gone: set[tuple[str, str]]) -> None:
        """Delete checkpoints and their writes. A thread without checkpoints loses all writes."""
        for namespace, id_ in gone:
            del self.storage[thread][namespace][id_]
            self.writes.pop((thread, namespace, id_), None)
        for namespace, checkpoints in self.storage[thread].items():
            for id_, (checkpoint, metadata, parent) in checkpoints.items():
                if parent is not None and (namespace, parent) in gone:
                    checkpoints[id_] = (checkpoint, metadata, None)
        if gone and not any(self.storage[thread].values()):
            self.delete_thread(thread)

    def ids(self, thread: str) -> set[tuple[str, str]]:
        """Return the namespaces and ids of a thread's checkpoints."""
        return {(namespace, id_) for namespace, stored in self.storage[thread].items() for id_ in stored}

    def keep_newest(self, thread: str) -> None:
        newest = {(namespace, max(stored)) for namespace, stored in self.storage[thread].items() if stored}
        self.remove(thread, self.ids(thread) - newest)

    def remove_runs(self, runs: set[str]) -> None:
        for thread in list(self.storage):
            found = self.list({"configurable": {"thread_id": thread}})
            self.remove(thread, {place(at)[1:] for at in found if at.metadata.get("run_id") in runs})


def place(at: CheckpointTuple) -> Any:
    """Return the thread, the namespace and the id of a checkpoint."""
    where = at.config["configurable"]
    return where["thread_id"], where["checkpoint_ns"], where["checkpoint_id"]


def by_place(found: Any) -> list[CheckpointTuple]:
    return sorted(found, key=place)


def where(thread: str, namespace: str | None = None, id_: str | None = None) -> RunnableConfig:
    configurable = {"thread_id": thread}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if id_ is not None:
        configurable["checkpoint_id"] = id_
    return {"configurable": configurable}


TEXTS = st.sampled_from(["yes", "no", "ä\n\0", "long " * TEXT_BYTES, "longer " * TEXT_BYTES])
LISTS = st.sampled_from(["messages", "messages", "messages", "notes"])
PLACES = st.integers(0, 5)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), LISTS, TEXTS),
        st.tuples(st.just("append"), LISTS, TEXTS),
        st.tuples(st.just("edit"), LISTS, PLACES, TEXTS),
        st.tuples(st.just("change in place"), LISTS, PLACES),
        st.tuples(st.just("remove"), LISTS, PLACES),
        st.tuples(st.just("repeat"), LISTS, PLACES),
        st.tuples(st.just("reverse"), LISTS),
        st.tuples(st.just("clear"), LISTS),
        st.tuples(st.just("set"), st.sampled_from("xy"), st.none() | st.integers(0, 3) | TEXTS),
        st.tuples(st.just("unset"), st.sampled_from(["x", "y", "messages", "notes"])),
    ),
    max_size=4,
)
BACK = st.none() | st.integers(0, 0) | st.integers(0, 6)
"""How many checkpoints before the newest one: 0 is the newest one, `None` is none."""
FILTERS = st.fixed_dictionaries(
    {}, optional={"step": st.integers(0, 3), "run_id": st.sampled_from(RUNS), "source": st.just("loop")}
)
SAVERS = st.integers(0, 1)


class Checkpoints(RuleBasedStateMachine):
    """Two savers of one store against the model."""

    small: ClassVar[dict[Any, dict[str, int]]] = {}
    """Constants to replace, by module."""
    long = 70
    """Number of checkpoints that fill more than a page."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        for module, values in self.small.items():
            for name, value in values.items():
                self.patches.enter_context(patch.object(module, name, value))
        self.handle = tract.open("memory:")
        self.savers = [TractSaver(self.handle), TractSaver(self.handle)]
        self.model = Model()
        self.number = 0
        self.ids: dict[tuple[str, str], list[str]] = defaultdict(list)
        """The checkpoints of a thread, with those that were deleted: a run may continue them."""
        self.values: dict[tuple[str, str, str | None], tuple[dict[str, Any], ChannelVersions]] = {}

    def teardown(self) -> None:
        try:
            expected = by_place(self.model.list(None))
            for saver in (*self.savers, TractSaver(self.handle)):
                assert by_place(saver.list(None)) == expected
            assert self.handle.verify()["clean"]
            with TractSaver("memory:") as other:
                assert other.import_checkpoints(self.savers[0]) == len(expected)
                assert by_place(other.list(None)) == expected
        finally:
            self.handle.close()
            self.patches.close()

    def forget(self) -> None:
        """Forget threads without checkpoints: the model deletes all of their values."""
        for thread, namespace in list(self.ids):
            if not any(self.model.storage[thread].values()):
                del self.ids[(thread, namespace)]

    def id_at(self, thread: str, namespace: str, back: int | None) -> str | None:
        ids = self.ids[(thread, namespace)]
        return None if back is None or back >= len(ids) else ids[-1 - back]

    def store(
        self,
        thread: str,
        namespace: str,
        id_: str,
        parent: str | None,
        changes: Any,
        saver: int,
        *,
        is_checked: bool = True,
    ) -> None:
        """Put a checkpoint that continues another one, and check the branch."""
        self.number += 1
        values, versions = map(dict, self.values.get((thread, namespace, parent), ({}, {})))
        version = f"{self.number:032}.{self.number:016}"
        new_versions: ChannelVersions = {}
        for change, channel, *arguments in changes:
            self.change(values, change, channel, arguments)
            new_versions[channel] = version
        versions |= new_versions
        checkpoint: Any = {
            "v": 4,
            "id": id_,
            "ts": "2026-01-31T09:30:00+00:00",
            "channel_versions": versions,
            "versions_seen": {"node": dict(versions)},
            "updated_channels": sorted(new_versions) or None,
        }
        metadata: Any = {"source": "loop", "step": self.number % 3, "run_id": RUNS[self.number // 4 % 3]}
        at = where(thread, namespace, parent)
        before = self.model.get_tuple(at) if is_checked and parent is not None else None
        stored = []
        for saver_or_model in (self.savers[saver], self.model):
            given: Any = {**checkpoint, "channel_values": dict(values)}
            stored.append(saver_or_model.put(at, given, metadata, new_versions))
        assert stored[0] == stored[1]
        self.values[(thread, namespace, id_)] = (values, versions)
        if id_ not in self.ids[(thread, namespace)]:
            self.ids[(thread, namespace)].append(id_)
        if not is_checked:
            return
        # The branch shows the list that changed: `messages`, if both did.
        old = before.checkpoint["channel_values"] if before else {}
        new = self.model.get_tuple(stored[1])
        assert new is not None
        lists = new.checkpoint["channel_values"]
        changed = [name for name in values if name in ("messages", "notes") and lists[name] != old.get(name)]
        shown = [name for name in ("messages", *changed) if name in changed and lists[name]]
        if shown:
            branch = self.handle.on(
                f"langgraph/{key_of(thread)}" + (f"/ns-{key_of(namespace)}" if namespace else "")
            )
            texts = [message["content"] for message in branch.compile().messages]
            assert texts == [message.content for message in lists[shown[0]]]

    def change(self, values: dict[str, Any], change: str, channel: str, arguments: list[Any]) -> None:
        if change == "set":
            values[channel] = arguments[0]
            return
        if change == "unset":
            values.pop(channel, None)
            return
        messages: list[BaseMessage] = list(values.get(channel, ()))
        values[channel] = messages
        if change == "append":
            kind = HumanMessage if len(messages) % 2 == 0 else AIMessage
            messages.append(kind(arguments[0], id=f"m{self.number}.{len(messages)}"))
        elif change == "reverse":
            messages.reverse()
        elif change == "clear":
            messages.clear()
        elif arguments[0] < len(messages):
            at = arguments[0]
            if change == "edit":
                messages[at] = messages[at].model_copy(update={"content": arguments[1]})
            elif change == "change in place":
                messages[at].additional_kwargs["n"] = self.number
            elif change == "remove":
                del messages[at]
            elif change == "repeat":
                messages.append(messages[at])

    @rule(
        thread=st.sampled_from(THREADS),
        namespace=st.sampled_from(NAMESPACES),
        back=BACK,
        changes=CHANGES,
        saver=SAVERS,
    )
    def put(self, thread: str, namespace: str, back: int | None, changes: Any, saver: int) -> None:
        """Continue the newest checkpoint, or fork from an old one, or start again."""
        parent = self.id_at(thread, namespace, back)
        self.store(thread, namespace, f"{self.number + 1:06}", parent, changes, saver)

    @rule(
        thread=st.sampled_from(THREADS[:2]),
        namespace=st.sampled_from(NAMESPACES),
        is_long=st.booleans(),
        saver=SAVERS,
    )
    def put_many(self, thread: str, namespace: str, is_long: bool, saver: int) -> None:
        count = self.long if is_long else 3
        for n in range(count):
            parent = self.id_at(thread, namespace, 0)
            changes = [("append", "messages", str(self.number))] if n % 3 == 0 else [("set", "x", n)]
            id_ = f"{self.number + 1:06}"
            self.store(thread, namespace, id_, parent, changes, saver, is_checked=n == count - 1)

    @rule(
        thread=st.sampled_from(THREADS),
        namespace=st.sampled_from(NAMESPACES),
        back=st.integers(0, 3),
        changes=CHANGES,
        saver=SAVERS,
    )
    def replace(self, thread: str, namespace: str, back: int, changes: Any, saver: int) -> None:
        """Put a checkpoint with an id that is stored."""
        id_ = self.id_at(thread, namespace, back)
        if id_ is not None:
            parent = self.id_at(thread, namespace, back + 1)
            self.store(thread, namespace, id_, parent, changes, saver)

    @rule(
        thread=st.sampled_from(THREADS),
        namespace=st.sampled_from(NAMESPACES),
        back=BACK,
        writes=st.lists(
            st.tuples(
                st.sampled_from(["messages", "x", "__error__", "__interrupt__", "__resume__"]),
                st.integers(0, 9) | TEXTS | TEXTS.map(lambda text: [HumanMessage(text, id="w")]),
            ),
            min_size=1,
            max_size=3,
        ),
        task=st.sampled_from(TASKS),
        saver=SAVERS,
    )
    def put_writes(
        self, thread: str, namespace: str, back: int | None, writes: Any, task: tuple[str, str], saver: int
    ) -> None:
        """Store writes for a checkpoint, or for the next one, which does not exist yet."""
        id_ = self.id_at(thread, namespace, back) or f"{self.number + 1:06}"
        for saver_or_model in (self.savers[saver], self.model):
            saver_or_model.put_writes(where(thread, namespace, id_), copy.deepcopy(writes), *task)

    @rule(thread=st.sampled_from(THREADS), namespace=st.sampled_from(NAMESPACES), back=BACK, saver=SAVERS)
    def get_tuple(self, thread: str, namespace: str, back: int | None, saver: int) -> None:
        at = where(thread, namespace, self.id_at(thread, namespace, back))
        assert self.savers[saver].get_tuple(at) == self.model.get_tuple(at)
        unknown = where(thread, namespace, "999999")
        assert self.savers[saver].get_tuple(unknown) is None

    @rule(thread=st.sampled_from(THREADS), namespace=st.sampled_from(NAMESPACES), back=BACK, saver=SAVERS)
    def delta_channels(self, thread: str, namespace: str, back: int | None, saver: int) -> None:
        at = where(thread, namespace, self.id_at(thread, namespace, back))
        histories = [
            saver_or_model.get_delta_channel_history(config=at, channels=["messages", "x", "none"])
            for saver_or_model in (self.savers[saver], self.model)
        ]
        assert histories[0] == histories[1]

    @rule(
        thread=st.none() | st.sampled_from(THREADS),
        namespace=st.none() | st.sampled_from(NAMESPACES),
        back=st.none() | BACK,
        before=st.none() | st.integers(0, 100),
        limit=st.none() | st.integers(0, 4),
        filter=FILTERS,
        saver=SAVERS,
    )
    def list_some(
        self,
        thread: str | None,
        namespace: str | None,
        back: int | None,
        before: int | None,
        limit: int | None,
        filter: dict[str, Any],
        saver: int,
    ) -> None:
        at = None
        if thread is not None:
            at = where(thread, namespace, self.id_at(thread, namespace or "", back))
        bound = None if before is None else where("any", "", f"{max(0, self.number - before):06}")
        found = [*self.savers[saver].list(at, filter=filter, before=bound, limit=limit)]
        if at is not None and namespace is not None:
            assert found == [*self.model.list(at, filter=filter, before=bound, limit=limit)]
            return
        # With several threads or namespaces, ours lists the newest checkpoints, and the model lists those of
        # the first thread.
        expected = [*self.model.list(at, filter=filter, before=bound)]
        ids = sorted((place(each)[2] for each in expected), reverse=True)
        assert [place(each)[2] for each in found] == ids[:limit]
        places = {place(each): each for each in expected}
        assert len({place(each) for each in found}) == len(found)
        assert all(each == places[place(each)] for each in found)

    @rule(thread=st.sampled_from(THREADS), saver=SAVERS)
    def delete_thread(self, thread: str, saver: int) -> None:
        self.savers[saver].delete_thread(thread)
        self.model.delete_thread(thread)
        self.forget()
        prefix = f"langgraph/{key_of(thread)}"
        names = [branch["name"] for branch in self.handle.branches()]
        assert not [name for name in names if name == prefix or name.startswith(f"{prefix}/")]

    @rule(source=st.sampled_from(THREADS), new=st.sampled_from(THREADS), saver=SAVERS)
    def copy_thread(self, source: str, new: str, saver: int) -> None:
        call = self.savers[saver].copy_thread
        if source == new or not self.model.has(source):
            call(source, new)
        elif self.model.has(new):
            with pytest.raises(tract.TractError) as error:
                call(source, new)
            assert error.value.code == "exists"
        else:
            call(source, new)
            self.model.copy_thread(source, new)
            for (thread, namespace), ids in list(self.ids.items()):
                if thread == source:
                    self.ids[(new, namespace)] = [*ids]
            for (thread, namespace, id_), values in list(self.values.items()):
                if thread == source:
                    self.values[(new, namespace, id_)] = values

    @rule(threads=st.lists(st.sampled_from(THREADS), max_size=2), saver=SAVERS, delete=st.booleans())
    def prune(self, threads: Any, saver: int, delete: bool) -> None:
        self.savers[saver].prune(threads, strategy="delete" if delete else "keep_latest")
        for thread in threads:
            (self.model.delete_thread if delete else self.model.keep_newest)(thread)
        self.forget()

    @rule(runs=st.sets(st.sampled_from([*RUNS, "unknown"]), max_size=2), saver=SAVERS)
    def delete_for_runs(self, runs: set[str], saver: int) -> None:
        self.savers[saver].delete_for_runs(sorted(runs))
        self.model.remove_runs(runs)
        self.forget()

    @rule(saver=SAVERS)
    def restart(self, saver: int) -> None:
        """Continue with a saver that has read nothing."""
        self.savers[saver] = TractSaver(self.handle)


class SmallPages(Checkpoints):
    """An index of many levels, and caches that are too small for it."""

    long = 20

    small: ClassVar[dict[Any, dict[str, int]]] = {
        _langgraph_ledger: {
            "PAGE": 4, "FANOUT": 4, "CACHED_PAGES": 2, "CACHED_NODES": 1, "CACHED_LISTS": 2, "NAMESPACES": 1,
        },
        langgraph: {
            "PAGE": 4, "CACHE_BYTES": 500, "CACHED_ENTRIES": 5, "CACHED_THREADS": 1, "READ_AT_ONCE": 3,
        },
    }  # fmt: skip


TestCheckpoints = Checkpoints.TestCase
TestCheckpoints.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)
TestSmallPages = SmallPages.TestCase
TestSmallPages.settings = settings(max_examples=10, stateful_step_count=15, deadline=None)
