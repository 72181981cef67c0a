"""LangGraph: a checkpoint saver whose threads are branches."""

import asyncio
import builtins
import json
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import TASKS

from tract_context._adapter import Adapter
from tract_context._errors import ConflictError, TractError
from tract_context._langgraph_ledger import (
    BRANCHES,
    ITEMS,
    LEDGERS,
    PAGE,
    Change,
    Entry,
    Ledger,
    Plan,
    State,
    change_of,
    change_row,
    common_length,
    damaged,
    digest_of,
)
from tract_context._langgraph_values import (
    Known,
    blob_id,
    calls_of,
    collect_texts,
    digits_of,
    frame_of,
    key_of,
    message_line,
    pack,
    unpack,
    whole_value,
)
from tract_context._tract import Tract

__all__ = ["TractSaver"]

CACHE_BYTES = 64 << 20
"""Maximum size of the serialized messages that a saver caches."""

CACHED_ENTRIES = 512
"""Maximum number of decoded entries that a saver caches."""

CACHED_THREADS = 256
"""Maximum number of threads that a saver knows the entries of."""

READ_AT_ONCE = 1024
"""Maximum number of payloads that are read with one call."""

TRIES = 100
"""Number of times that a write is planned again after another process moved the thread."""


class TractSaver(BaseCheckpointSaver[Any], Adapter):
    """Saves checkpoints in a store, with each thread's messages as commits of a branch.

    `TractSaver("sqlite:agent.db")` opens a store and closes it at the end of a `with` block or in
    `close`; an open `Tract` stays open. Threads and tasks may share a saver, and processes a store.

    The messages of thread `t1` are the branch `langgraph/t1`, those of a subgraph
    `langgraph/t1/ns-NAME`. A message is stored once, whatever number of checkpoints contain it. After
    a run from an older checkpoint the branch follows that run, and the messages that it left are the
    branch `langgraph/t1/fork-ID`.

    An erased message makes the checkpoints that contain it unreadable: `ErasedError`.
    """

    def __init__(
        self, store: str | os.PathLike[str] | Tract, *, serde: SerializerProtocol | None = None
    ) -> None:
        """Open a saver on a store's URL, or on an open store. A path is one of SQLite.

        With a serializer that encrypts, nothing is stored in plain text, so there is no branch.
        """
        BaseCheckpointSaver.__init__(self, serde=serde)
        Adapter.__init__(self, store)
        self._ledgers: OrderedDict[str, Ledger] = OrderedDict()
        self._lock = threading.Lock()
        self._payloads: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    # --- reading entries

    def _ledger(self, thread_id: str) -> Ledger:
        key = key_of(thread_id)
        with self._lock:
            ledger = self._ledgers.pop(key, None) or Ledger(key, self._blobs, thread_id=thread_id)
            self._ledgers[key] = ledger
            if len(self._ledgers) > CACHED_THREADS:
                self._ledgers.popitem(last=False)
            return ledger

    def _sync(self, ledger: Ledger) -> None:
        """Read the entries that were added since the last call, or the newest ones up to an index."""
        operation = self.tract._handle.ledger_entries(ledger.name, ledger.head, False)
        head, complete, entries = operation.wait()
        if complete:
            ledger.clear()
        payloads = self._load([ids[:32] for _, ids in entries])
        for (text, ids), payload in zip(entries, payloads, strict=True):
            metadata = json.loads(text)
            place, _ = metadata.pop("x", (0, 0))
            root = ids[place * 32 :][:32] if place else None
            lists = [change_of(row) for row in payload.get("l", ())]
            ledger.add(Entry({**payload["e"], **metadata}, ids[:32], lists), root)
        ledger.head = head
        ledger.loaded = True

    def _blobs(self, ids: builtins.list[bytes]) -> builtins.list[bytes]:
        blobs: builtins.list[bytes] = self.tract._handle.ledger_blobs(ids).wait()
        return blobs

    def _load(self, ids: builtins.list[bytes]) -> builtins.list[dict[str, Any]]:
        """Return payloads."""
        with self._lock:
            loaded = {id_: self._payloads[id_] for id_ in ids if id_ in self._payloads}
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in loaded]
        if missing:
            loaded.update(
                (id_, unpack(data)) for id_, data in zip(missing, self._blobs(missing), strict=True)
            )
            self._keep_payloads((id_, loaded[id_]) for id_ in missing)
        return [loaded[id_] for id_ in ids]

    def _keep_payloads(self, payloads: Iterable[tuple[bytes, dict[str, Any]]]) -> None:
        with self._lock:
            self._payloads.update(payloads)
            while len(self._payloads) > CACHED_ENTRIES:
                self._payloads.popitem(last=False)

    def _payload(self, ledger: Ledger, number: int) -> dict[str, Any]:
        (payload,) = self._load([ledger.entry(number).payload])
        return payload

    def _frames(self, ledger: Ledger, items: builtins.list[int]) -> Iterator[bytes]:
        """Iterate over the frames of items."""
        for at in range(0, len(items), READ_AT_ONCE):
            some = items[at : at + READ_AT_ONCE]
            ids = {number: ledger.entry(number).payload for number in {item // ITEMS for item in some}}
            with self._lock:
                payloads = {id_: self._payloads[id_] for id_ in ids.values() if id_ in self._payloads}
            missing = [id_ for id_ in ids.values() if id_ not in payloads]
            if missing:
                payloads.update(zip(missing, map(unpack, self._blobs(missing)), strict=True))
            for item in some:
                yield payloads[ids[item // ITEMS]]["i"][item % ITEMS]

    def _items_read(self, ledger: Ledger, items: builtins.list[int]) -> builtins.list[tuple[str, bytes]]:
        """Return the serialized values of items."""
        known = ledger.values
        missing = [item for item in dict.fromkeys(items) if item not in known]
        if missing:
            frames = dict(zip(missing, self._frames(ledger, missing), strict=True))
            read = self._read(frames.values())
            fresh = {item: read[frame] for item, frame in frames.items()}
            for item, frame in frames.items():
                ledger.know(item, frame)
            known = {**known, **fresh}
            ledger.values = known
            ledger.value_bytes += sum(len(data) for _, data in fresh.values())
            with self._lock:
                size = sum(other.value_bytes for other in self._ledgers.values())
                for other in self._ledgers.values():
                    if size > CACHE_BYTES:
                        size -= other.value_bytes
                        other.values, other.value_bytes = {}, 0
        return [known[item] for item in items]

    def _read(self, frames: Collection[bytes]) -> dict[bytes, tuple[str, bytes]]:
        """Return the serialized values of frames."""
        values: dict[bytes, tuple[str, bytes]] = {}
        stored: dict[bytes, None] = {}
        for frame in frames:
            value = whole_value(frame)
            if value is None:
                stored[frame] = None
            else:
                values[frame] = value
        if stored:
            read: builtins.list[tuple[str, bytes]] = self.tract._handle.ledger_values(list(stored)).wait()
            values.update(zip(stored, read, strict=True))
        return values

    def _loads_list(self, values: builtins.list[tuple[str, bytes]]) -> builtins.list[Any]:
        if type(self.serde) is JsonPlusSerializer and all(kind == "msgpack" for kind, _ in values):
            count = len(values)
            header = bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
            loaded = self.serde.loads_typed(("msgpack", header + b"".join(data for _, data in values)))
            return cast(builtins.list[Any], loaded)
        return [self.serde.loads_typed(value) for value in values]

    def _loads_frame(self, frame: bytes) -> Any:
        return self.serde.loads_typed(self._read([frame])[frame])

    def _state(self, ledger: Ledger, number: int) -> State:
        """Return the channels of a checkpoint."""
        state = ledger.states.get(number)
        if state is None:
            payload = self._payload(ledger, number)
            versions = self._loads_frame(payload["c"]).get("channel_versions", {})
            state = State(versions, _places(payload, number))
            self._keep_state(ledger, number, state)
        return state

    def _keep_state(self, ledger: Ledger, number: int, state: State) -> None:
        ledger.states[number] = state
        if len(ledger.states) > CACHED_ENTRIES:
            del ledger.states[next(iter(ledger.states))]

    def _channel_values(
        self, ledger: Ledger, namespace: str, values: Mapping[str, int], channels: Collection[str]
    ) -> dict[str, Any]:
        """Return the values of channels, which are in these entries."""
        wanted = [channel for channel in channels if channel in values]
        numbers = list(dict.fromkeys(values[channel] for channel in wanted))
        loaded = self._load([ledger.entry(number).payload for number in numbers])
        payloads = dict(zip(numbers, loaded, strict=True))
        frames: dict[str, bytes] = {}
        lists: dict[str, builtins.list[int]] = {}
        for channel in wanted:
            frame = payloads[values[channel]]["v"][channel]
            if frame is not True:
                frames[channel] = frame
                continue
            items = ledger.items(values[channel], channel)
            if items is None:
                raise damaged(f"the list {channel!r} of an entry")
            lists[channel] = items
        read = self._read(frames.values())
        result: dict[str, Any] = {}
        for channel in wanted:
            if channel in frames:
                result[channel] = self.serde.loads_typed(read[frames[channel]])
            else:
                items = lists[channel]
                result[channel] = self._loads_list(self._items_read(ledger, items))
                known = Known()
                known.extend(result[channel], items)
                ledger.keep_known(f"{namespace}\0{channel}", known)
        return result

    def _writes(
        self, ledger: Ledger, namespace: str, checkpoint_id: str
    ) -> builtins.list[tuple[str, str, bytes]]:
        """Return the pending writes of a checkpoint in order: task, channel, frame."""
        numbers = ledger.writes(namespace, checkpoint_id)
        writes: dict[tuple[str, int], tuple[str, str, bytes]] = {}
        for payload in self._load([ledger.entry(number).payload for number in numbers]):
            before = set(writes)
            for channel, index, frame in payload["w"]:
                place = (payload["t"], index)
                if index < 0 or place not in before:
                    writes[place] = (payload["p"], channel, frame)
        ordered = sorted(writes, key=lambda place: writes_sort_key(writes[place][0], *place))
        return [(place[0], writes[place][1], writes[place][2]) for place in ordered]

    def _loads_writes(self, writes: builtins.list[tuple[str, str, bytes]]) -> builtins.list[PendingWrite]:
        read = self._read([frame for _, _, frame in writes])
        return [(task, channel, self.serde.loads_typed(read[frame])) for task, channel, frame in writes]

    def _tuple(
        self, ledger: Ledger, thread_id: str, namespace: str, number: int, config: RunnableConfig | None
    ) -> CheckpointTuple:
        payload = self._payload(ledger, number)
        checkpoint_id = ledger.entry(number).header["c"]
        read = self._read([payload["c"], payload["m"]])
        checkpoint = self.serde.loads_typed(read[payload["c"]])
        values = _places(payload, number)
        checkpoint["channel_values"] = self._channel_values(ledger, namespace, values, values)
        parent = payload["p"]
        return CheckpointTuple(
            config=config or _config(thread_id, namespace, checkpoint_id),
            checkpoint=checkpoint,
            metadata=self.serde.loads_typed(read[payload["m"]]),
            parent_config=_config(thread_id, namespace, parent) if parent else None,
            pending_writes=self._loads_writes(self._writes(ledger, namespace, checkpoint_id)),
        )

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of a config, or the newest one of its thread; `None` if there is none.

        Raises `ErasedError` if it contains an erased message; `CorruptError`.
        """
        thread_id, namespace, checkpoint_id = _parts(config)
        ledger = self._ledger(thread_id)
        with ledger.lock:
            self._sync(ledger)
            if checkpoint_id:
                number = ledger.find(namespace, checkpoint_id)
            else:
                newest = ledger.newest(namespace)
                number = newest and newest[1]
            if number is None:
                return None
            given = config if checkpoint_id else None
            return self._tuple(ledger, config["configurable"]["thread_id"], namespace, number, given)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over the checkpoints of a thread, or of all threads, newest first.

        `filter` compares members of the metadata. Checkpoints that are added meanwhile are left out.
        """
        bound = get_checkpoint_id(before) if before else None
        namespace = config["configurable"].get("checkpoint_ns") if config else None
        checkpoint_id = get_checkpoint_id(config) if config else None
        threads = [
            _Listing(self, ledger, thread_id, namespace, checkpoint_id, bound)
            for thread_id, ledger in self._threads(config)
        ]
        threads = [listing for listing in threads if listing.next is not None]
        remaining = limit
        while threads and (remaining is None or remaining > 0):
            listing = threads[0] if len(threads) == 1 else max(threads, key=_Listing.newest_id)
            found = listing.take(filter)
            if listing.next is None:
                threads.remove(listing)
            if found is not None:
                if remaining is not None:
                    remaining -= 1
                yield found

    def _metadata(self, ledger: Ledger, number: int) -> dict[str, Any]:
        return cast(dict[str, Any], self._loads_frame(self._payload(ledger, number)["m"]))

    def _threads(self, config: RunnableConfig | None) -> Iterator[tuple[Any, Ledger]]:
        if config:
            thread_id = config["configurable"]["thread_id"]
            yield thread_id, self._ledger(str(thread_id))
            return
        names: builtins.list[tuple[str, str]] = self.tract._handle.ledgers(LEDGERS).wait()
        for name, _ in names:
            yield None, self._ledger(name.removeprefix(LEDGERS))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes of channels since their last stored value, along the parents."""
        thread_id, namespace, checkpoint_id = _parts(config)
        ledger = self._ledger(thread_id)
        writes: dict[str, builtins.list[PendingWrite]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        with ledger.lock:
            self._sync(ledger)
            if checkpoint_id:
                number = ledger.find(namespace, checkpoint_id)
            else:
                newest = ledger.newest(namespace)
                number = newest and newest[1]
            remaining = set(channels)
            while number is not None and remaining:
                parent = self._payload(ledger, number)["p"]
                number = ledger.find(namespace, parent)
                if number is None:
                    break
                on_path = [
                    write for write in self._writes(ledger, namespace, parent) if write[1] in remaining
                ]
                for write in reversed(self._loads_writes(on_path)):
                    writes[write[1]].append(write)
                values = _places(self._payload(ledger, number), number)
                seeds.update(self._channel_values(ledger, namespace, values, remaining))
                remaining -= seeds.keys()
        result: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            result[channel] = {"writes": writes[channel][::-1]}
            if channel in seeds:
                result[channel]["seed"] = seeds[channel]
        return result

    # --- writing

    def _is_plain(self) -> bool:
        return isinstance(self.serde, JsonPlusSerializer)

    def _dump(self, value: Any, blobs: dict[bytes, bytes]) -> bytes:
        """Serialize a value to a frame; its long texts are added to the blobs."""
        texts: dict[bytes, bytes] = {}
        if self._is_plain():
            collect_texts(value, texts)
        kind, data = self.serde.dumps_typed(value)
        used = {text: blob for text, blob in texts.items() if text in data} if texts else texts
        frame = frame_of(kind, data, used)
        blobs.update((blob_id(blob), blob) for blob in used.values())
        return frame

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. It is durable when this returns; returns its config.

        A checkpoint with the id of a stored one replaces it. Others may write to the thread during the
        call: nothing of either is lost.
        """
        thread_id, namespace, parent = _parts(config)
        blobs: dict[bytes, bytes] = {}
        bare = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        recorded = get_checkpoint_metadata(config, metadata)
        payload: dict[str, Any] = {
            "c": self._dump(bare, blobs),
            "m": self._dump(recorded, blobs),
            "p": parent,
        }
        header: dict[str, Any] = {"c": checkpoint["id"]}
        if namespace:
            header["n"] = namespace
        if isinstance(run_id := recorded.get("run_id"), str):
            header["r"] = digits_of(run_id, 8)
        ledger = self._ledger(thread_id)

        def attempt(full: bool) -> None:
            plan = self._plan(ledger, namespace, checkpoint, new_versions, header, payload, blobs, full)
            self._commit(ledger, plan, thread_id)

        self._write(ledger, attempt)
        return _config(config["configurable"]["thread_id"], namespace, checkpoint["id"])

    def _write(self, ledger: Ledger, attempt: Callable[[bool], None], *, newest: bool = False) -> None:
        """Carry out a write, and again while other processes move the thread.

        With `newest`, their entries are read first.
        """
        full = False
        with ledger.lock:
            if newest or not ledger.loaded:
                self._sync(ledger)
            for number in range(TRIES):
                try:
                    return attempt(full)
                except ConflictError:
                    if number == TRIES - 1:
                        raise
                    self._sync(ledger)
                except TractError as error:
                    # The branch cannot follow, because its history is gone or was changed: it starts again.
                    if full or error.code not in (
                        "invalid",
                        "missing",
                        "not_visible",
                        "other_calls",
                        "other_kind",
                    ):
                        raise
                    full = True

    def _plan(
        self,
        ledger: Ledger,
        namespace: str,
        checkpoint: Checkpoint,
        new_versions: ChannelVersions,
        header: dict[str, Any],
        payload: dict[str, Any],
        blobs: Mapping[bytes, bytes],
        full: bool,
    ) -> Plan:
        parent = ledger.find(namespace, payload["p"])
        state = self._state(ledger, parent) if parent is not None else State({}, {})
        versions = checkpoint["channel_versions"]
        inherited = {
            channel: state.values[channel]
            for channel, version in versions.items()
            if channel not in new_versions
            and channel in state.values
            and state.versions.get(channel) == version
        }
        stored: dict[str, Any] = {}
        new = dict(blobs)
        fresh = _Items(self, ledger, new)
        plan = Plan(header, {}, [], State(dict(versions), inherited))
        olds: dict[str, builtins.list[int] | None] = {}
        for channel, value in checkpoint["channel_values"].items():
            if channel in inherited:
                continue
            if not (type(value) is list and value and all(map(_is_message, set(map(type, value))))):
                stored[channel] = self._dump(value, new)
                continue
            before = state.values.get(channel, -1)
            old = ledger.items(before, channel) if before >= 0 else None
            known = ledger.known.get(f"{namespace}\0{channel}")
            count = known.unchanged(value) if known else 0
            items = known.items[:count] if known else []
            items += [fresh.item_of(message, known, old) for message in value[count:]]
            plan.known[channel] = (known, count, value, items)
            if old == items:
                inherited[channel] = before
                continue
            stored[channel] = True
            plan.lists[channel], olds[channel] = items, old
        for channel, items in plan.lists.items():
            before, old = state.values.get(channel, -1), olds[channel]
            keep = common_length(old or [], items)
            plan.changes.append(ledger.continued(channel, before if old is not None else -1, keep, items))
            if self._is_plain() and (
                channel == "messages" or ("messages" not in plan.lists and channel == next(iter(plan.lists)))
            ):
                messages = checkpoint["channel_values"][channel]
                plan.branch = self._branch(
                    ledger, namespace, channel, before, old, keep, items, messages, full
                )
                if channel != "messages":
                    plan.header = {**header, "k": channel}
        plan.payload = {**payload, "v": stored, "a": inherited}
        if fresh.frames:
            plan.payload["i"] = fresh.frames
        plan.blobs = list(new.values())
        return plan

    def _branch(
        self,
        ledger: Ledger,
        namespace: str,
        channel: str,
        before: int,
        old: builtins.list[int] | None,
        keep: int,
        items: builtins.list[int],
        messages: builtins.list[BaseMessage],
        full: bool,
    ) -> dict[str, Any]:
        """Return the move of the branch that shows a list."""
        name = f"{BRANCHES}{ledger.key}" + (f"/ns-{key_of(namespace)}" if namespace else "")
        header = ledger.entry(before).header if old is not None else {}
        base = header.get("h") if header.get("k", "messages") == channel else None
        if base is None or old is None or full:
            lines = [message_line(message) for message in messages]
            return {"name": name, "base": None, "count": 0, "skip": [], "edit": [], "append": lines}
        skip: builtins.list[int] = []
        edit: builtins.list[tuple[int, str]] = []
        at = keep
        left = set(items[keep:])
        gone = [item for item in old[keep:] if item not in left]
        facts = self._facts(ledger, gone) if at < len(items) else {}
        for place in range(keep, len(old)):
            if at < len(items) and old[place] == items[at]:
                at += 1
                continue
            before_edit = facts.get(old[place])
            # An edit changes neither the kind of a message nor its calls.
            if at < len(items) and before_edit is not None and before_edit == _facts_of(messages[at]):
                edit.append((place, message_line(messages[at])))
                at += 1
                continue
            skip.append(place)
        lines = [message_line(message) for message in messages[at:]]
        return {"name": name, "base": base, "count": len(old), "skip": skip, "edit": edit, "append": lines}

    def _facts(self, ledger: Ledger, items: builtins.list[int]) -> dict[int, tuple[str, str]]:
        """Return what an edit of stored messages must keep; those that cannot be edited are left out."""
        messages = self._loads_list(self._items_read(ledger, items))
        facts = ((item, _facts_of(message)) for item, message in zip(items, messages, strict=True))
        return {item: known for item, known in facts if known is not None}

    def _commit(self, ledger: Ledger, plan: Plan, thread_id: str) -> None:
        """Write a planned entry where the thread is expected to be."""
        metadata: dict[str, Any] = {}
        if plan.renamed or (ledger.head is None and ledger.key != thread_id):
            metadata["t"] = thread_id
        levels, index = ledger.index()
        payload = _with_lists(plan.payload, plan.header, plan.changes)
        blobs = [pack(payload), *plan.blobs, *index]
        if index:
            metadata["x"] = [len(blobs) - 1, len(index)]
        call = {
            "ledger": ledger.name,
            "expect": ledger.head,
            "entries": [
                {"metadata": json.dumps(metadata, separators=(",", ":")), "blobs": len(blobs), "keeps": []}
            ],
            "branch": plan.branch,
        }
        head, shown = self.tract._handle.ledger_write(json.dumps(call), blobs).wait()
        header = {**plan.header, **metadata}
        header.pop("x", None)
        if shown is not None:
            header["h"] = shown
        id_ = blob_id(blobs[0])
        number = ledger.add(Entry(header, id_, plan.changes), levels)
        ledger.head = head
        self._keep_payloads([(id_, payload)])
        for place, frame in enumerate(payload.get("i", ())):
            ledger.know(number * ITEMS + place, frame)
        if plan.state is None:
            return
        values = {**plan.state.values, **dict.fromkeys(payload["v"], number)}
        self._keep_state(ledger, number, State(plan.state.versions, values))
        for channel, items in plan.lists.items():
            ledger.keep_items(number, channel, items)
        namespace = header.get("n", "")
        for channel, (known, count, messages, items) in plan.known.items():
            if known is None or count < len(known.messages):
                known, count = Known(), 0
            known.extend(messages[count:], items[count:])
            ledger.keep_known(f"{namespace}\0{channel}", known)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task for a checkpoint, durably; the checkpoint need not exist yet.

        A write that is stored already is kept, except for errors, interrupts and the like, which are
        replaced.
        """
        thread_id, namespace, checkpoint_id = _parts(config)
        if not checkpoint_id:
            raise TractError("writes need the id of a checkpoint", code="bad_value")
        blobs: dict[bytes, bytes] = {}
        frames = [
            [channel, WRITES_IDX_MAP.get(channel, index), self._dump(value, blobs)]
            for index, (channel, value) in enumerate(writes)
        ]
        payload = {"t": task_id, "p": task_path, "w": frames}
        header: dict[str, Any] = {"w": checkpoint_id}
        if namespace:
            header["n"] = namespace
        plan = Plan(header, payload, list(blobs.values()))
        ledger = self._ledger(thread_id)
        self._write(ledger, lambda _: self._commit(ledger, plan, thread_id))

    # --- threads

    def _branches(self, key: str) -> builtins.list[tuple[str, str]]:
        prefix = f"heads/{BRANCHES}{key}"
        refs: builtins.list[tuple[str, str]] = self.tract._handle.ledgers(prefix).wait()
        own = (f"{prefix}/fork-", f"{prefix}/ns-")
        return [(name, head) for name, head in refs if name == prefix or name.startswith(own)]

    def _move(self, moves: builtins.list[tuple[str, str | None, str | None]]) -> None:
        call = [{"name": name, "from": before, "to": after} for name, before, after in moves]
        self.tract._handle.ledger_refs(json.dumps(call)).wait()

    def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints, writes and branches of a thread.

        Data that other threads share is kept. The rest is collected by `tract gc`.
        """
        ledger = self._ledger(str(thread_id))

        def attempt(_: bool) -> None:
            branches = self._branches(ledger.key)
            own = [(ledger.name, ledger.head)] if ledger.head else []
            self._move([(name, head, None) for name, head in [*own, *branches]])
            ledger.clear()

        self._write(ledger, attempt, newest=True)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints, writes and branches of a thread to a new one. No data is copied.

        Raises `TractError`: `exists` if the target has checkpoints.
        """
        source, target = self._ledger(str(source_thread_id)), self._ledger(str(target_thread_id))
        if source is target:
            return
        first, second = sorted((source, target), key=lambda ledger: ledger.key)
        with first.lock, second.lock:

            def attempt(_: bool) -> None:
                self._sync(source)
                if source.head is None:
                    return
                if target.head is not None:
                    raise TractError(f"thread {target_thread_id!r} exists", code="exists")
                moves: dict[str, tuple[str | None, str | None]] = {target.name: (None, source.head)}
                # An earlier thread of this name has left branches if all its checkpoints were deleted.
                old = dict(self._branches(target.key))
                for name, head in self._branches(source.key):
                    end = name.removeprefix(f"heads/{BRANCHES}{source.key}")
                    name = f"heads/{BRANCHES}{target.key}{end}"
                    left = old.get(name)
                    if left is not None and left != head:
                        fork = f"{name}/fork-{left[:8]}"
                        moves.setdefault(fork, (old.get(fork), left))
                    moves[name] = (left, head)
                self._move([(name, *heads) for name, heads in moves.items()])

            self._write(target, attempt, newest=True)
            self._sync(target)
            if target.head is not None and target.thread_id != str(target_thread_id):
                plan = Plan({}, {}, [], renamed=True)
                self._write(target, lambda _: self._commit(target, plan, str(target_thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of runs in all threads.

        Values and messages that other checkpoints contain are kept.
        """
        runs = set(run_ids)
        digits = {digits_of(run_id, 8) for run_id in runs}
        if not runs:
            return

        def is_kept(ledger: Ledger, number: int) -> bool:
            if ledger.entry(number).header.get("r") not in digits:
                return True
            return self._metadata(ledger, number).get("run_id") not in runs

        for _, ledger in self._threads(None):

            def attempt(_: bool, ledger: Ledger = ledger) -> None:
                numbers = (number for *_, number in ledger.checkpoints())
                self._rewrite(ledger, {number for number in numbers if is_kept(ledger, number)})

            self._write(ledger, attempt, newest=True)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the older checkpoints of threads (`keep_latest`), or all of them (`delete`).

        `keep_latest` keeps the newest checkpoint of each namespace, with its writes. A call of a subgraph
        is deleted with the checkpoint that it began from, unless the subgraph has `checkpointer=True`. The
        ancestors that a `DeltaChannel` of a kept checkpoint is computed from are kept too.
        """
        if isinstance(thread_ids, str):
            raise TypeError("prune needs a sequence of thread ids, not a str")
        if strategy not in ("keep_latest", "delete"):
            raise TractError(
                f"unknown strategy {strategy!r}", code="bad_value", notes=["known are keep_latest and delete"]
            )
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            ledger = self._ledger(str(thread_id))

            def attempt(_: bool, ledger: Ledger = ledger) -> None:
                newest: dict[str, int] = {}
                for namespace, _id, number in ledger.checkpoints():
                    newest.setdefault(namespace, number)
                kept: set[int] = set()
                for namespace, number in newest.items():
                    # The namespace of a call has the id of its task after a colon.
                    root = None
                    if ":" in namespace:
                        parents = self._metadata(ledger, number).get("parents") or {}
                        root = ledger.find("", parents.get(""))
                    if root is None or root == newest[""]:
                        kept |= {number, *self._needed_ancestors(ledger, namespace, number)}
                self._rewrite(ledger, kept)

            self._write(ledger, attempt, newest=True)

    def _needed_ancestors(self, ledger: Ledger, namespace: str, number: int) -> set[int]:
        """Return the ancestors that a checkpoint is read with."""
        counters = self._metadata(ledger, number).get("counters_since_delta_snapshot") or {}
        remaining = set(counters) - self._state(ledger, number).values.keys()
        ancestors: set[int] = set()
        passed: set[int] = set()
        payload = self._payload(ledger, number)
        parent = ledger.find(namespace, payload["p"])
        if parent is not None and self._loads_frame(payload["c"]).get("v", 4) < 4:
            # Older versions of LangGraph have the tasks to send among the writes of the parent.
            writes = self._writes(ledger, namespace, payload["p"])
            ancestors |= {parent for _, channel, _ in writes if channel == TASKS}
        place: int | None = number
        while place is not None and remaining:
            place = ledger.find(namespace, self._payload(ledger, place)["p"])
            if place is None or place in passed:
                break
            passed.add(place)
            ancestors.add(place)
            remaining -= self._state(ledger, place).values.keys()
        return ancestors

    def _rewrite(self, ledger: Ledger, kept: set[int]) -> None:
        """Replace the entries of a thread by those of these checkpoints, and the values they need."""
        gone = {(name, id_) for name, id_, number in ledger.checkpoints() if number not in kept}
        if not gone:
            return
        if not kept:
            self._move([(ledger.name, ledger.head, None)])
            ledger.clear()
            return
        _, _, entries = self.tract._handle.ledger_entries(ledger.name, None, True).wait()
        needed: set[int] = set()
        listed: set[tuple[int, str]] = set()
        for number in kept:
            for channel, place in _places(self._payload(ledger, number), number).items():
                while place >= 0 and (place, channel) not in listed:
                    listed.add((place, channel))
                    needed.add(place)
                    change = ledger.entry(place).change(channel)
                    if change is None:
                        break
                    needed.update(item // ITEMS for item in change[4])
                    place = change[1]

        def is_left(number: int) -> bool:
            header = ledger.entry(number).header
            if "w" in header:
                return (header.get("n", ""), header["w"]) not in gone
            return number in kept or number in needed

        def moved(item: int) -> int:
            return numbers[item // ITEMS] * ITEMS + item % ITEMS

        left = [number for number in range(ledger.count) if is_left(number)]
        fresh = Ledger(ledger.key, self._blobs, thread_id=ledger.thread_id)
        numbers: dict[int, int] = {}
        calls: builtins.list[dict[str, Any]] = []
        blobs: builtins.list[bytes] = []
        payloads = (
            payload
            for at in range(0, len(left), PAGE)
            for payload in self._load([ledger.entry(number).payload for number in left[at : at + PAGE]])
        )
        for number, payload in zip(left, payloads, strict=True):
            numbers[number] = fresh.count
            entry = ledger.entry(number)
            namespace = entry.header.get("n", "")
            names: tuple[str, ...] = ("c", "w", "r", "k", "n")
            payload = dict(payload)
            if number in kept:
                places = payload["a"].items()
                payload["a"] = {channel: numbers[place] for channel, place in places}
                if (namespace, payload["p"]) in gone:
                    payload["p"] = None
            elif "w" not in entry.header:
                names = ("k", "n")
                payload = {name: payload[name] for name in ("v", "i") if name in payload}
            lists = [
                (channel, numbers.get(before, -1), keep, depth, [moved(item) for item in added])
                for channel, before, keep, depth, added in entry.lists
                if (number, channel) in listed
            ]
            metadata = json.loads(entries[number][0])
            place, count = metadata.pop("x", (0, 0))
            metadata.pop("t", None)
            if not calls and ledger.key != ledger.thread_id:
                metadata["t"] = ledger.thread_id
            ids = entries[number][1]
            keeps = [
                ids[at * 32 : at * 32 + 32].hex()
                for at in range(1, len(ids) // 32)
                if not 0 <= place - at < count
            ]
            header = {name: value for name, value in entry.header.items() if name in names}
            levels, roots = fresh.index()
            own = [pack(_with_lists(payload, header, lists)), *roots]
            if roots:
                metadata["x"] = [len(roots), len(roots)]
            blobs += own
            calls.append(
                {"metadata": json.dumps(metadata, separators=(",", ":")), "blobs": len(own), "keeps": keeps}
            )
            metadata.pop("x", None)
            fresh.add(Entry({**header, **metadata}, blob_id(own[0]), lists), levels)
        call = {"ledger": ledger.name, "expect": ledger.head, "replace": True, "entries": calls}
        self.tract._handle.ledger_write(json.dumps(call), blobs).wait()
        ledger.clear()
        self._sync(ledger)

    def import_checkpoints(self, source: BaseCheckpointSaver[Any]) -> int:
        """Copy the checkpoints and writes of all threads of another saver. Returns their number.

        Checkpoints with the id of a stored one replace it.
        """
        configs = sorted(
            (found.config["configurable"] for found in source.list(None)),
            key=lambda at: cast(str, at["checkpoint_id"]),
        )
        versions: dict[tuple[str, str, str], ChannelVersions] = {}
        for at in configs:
            found = source.get_tuple({"configurable": at})
            if found is None:
                continue
            namespace = at.get("checkpoint_ns", "")
            configurable = {"thread_id": at["thread_id"], "checkpoint_ns": namespace}
            before: ChannelVersions = {}
            if found.parent_config:
                parent = found.parent_config["configurable"]["checkpoint_id"]
                configurable["checkpoint_id"] = parent
                before = versions.get((at["thread_id"], namespace, parent), {})
            current = found.checkpoint["channel_versions"]
            versions[(at["thread_id"], namespace, at["checkpoint_id"])] = current
            new = {name: version for name, version in current.items() if before.get(name) != version}
            stored = self.put({"configurable": configurable}, found.checkpoint, found.metadata, new)
            tasks: dict[str, builtins.list[tuple[str, Any]]] = {}
            for task, channel, value in found.pending_writes or ():
                tasks.setdefault(task, []).append((channel, value))
            for number, (task, writes) in enumerate(tasks.items()):
                # The paths of tasks are not part of the interface; the numbers keep the order.
                self.put_writes(stored, writes, task, f"{number:08}")
        return len(configs)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after another one."""
        if isinstance(current, str):
            number = int(current.split(".")[0]) + 1
            return f"{number:032}.{0:016}"
        return 1 if current is None else current + 1

    # --- asyncio

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Async `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Async `list`."""
        tuples = self.list(config, filter=filter, before=before, limit=limit)
        while (found := await asyncio.to_thread(next, tuples, None)) is not None:
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Async `put`."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Async `put_writes`."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Async `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Async `delete_for_runs`."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Async `copy_thread`."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Async `prune`."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Async `get_delta_channel_history`."""
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)


class _Listing:
    """The checkpoints of a thread that `list` returns, newest first."""

    def __init__(
        self,
        saver: TractSaver,
        ledger: Ledger,
        thread_id: Any,
        namespace: str | None,
        checkpoint_id: str | None,
        before: str | None,
    ) -> None:
        self.saver, self.ledger, self.thread_id = saver, ledger, thread_id
        self.namespace, self.checkpoint_id, self.before = namespace, checkpoint_id or None, before
        self.done: set[tuple[str, str]] = set()
        with ledger.lock:
            saver._sync(ledger)
            self.start()

    def start(self) -> None:
        ledger = self.ledger
        self.clears = ledger.clears
        if self.checkpoint_id and self.namespace is not None:
            number = ledger.find(self.namespace, self.checkpoint_id)
            is_older = self.before is None or self.checkpoint_id < self.before
            only = [(self.namespace, self.checkpoint_id, number)] if number is not None and is_older else []
            self.left: Iterator[tuple[str, str, int]] = iter(only)
        else:
            self.left = ledger.checkpoints(self.namespace, before=self.before)
        self.advance()

    def advance(self) -> None:
        self.next: tuple[str, str, int] | None = None
        for found in self.left:
            if found[:2] not in self.done and self.checkpoint_id in (None, found[1]):
                self.next = found
                return

    def newest_id(self) -> str:
        return self.next[1] if self.next else ""

    def take(self, filter: dict[str, Any] | None) -> CheckpointTuple | None:
        """Return the next checkpoint, if the filter selects it."""
        ledger = self.ledger
        with ledger.lock:
            if ledger.clears != self.clears:
                # The entries have other numbers now.
                self.start()
            if self.next is None:
                return None
            namespace, id_, number = self.next
            self.done.add((namespace, id_))
            found = None
            if not filter or _is_selected(self.saver._metadata(ledger, number), filter):
                thread_id = self.thread_id or ledger.thread_id
                found = self.saver._tuple(ledger, thread_id, namespace, number, None)
            self.advance()
            return found


def _is_selected(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in filter.items())


def _places(payload: Mapping[str, Any], number: int) -> dict[str, int]:
    """Return the entries with the values of a checkpoint's channels."""
    return {**payload["a"], **dict.fromkeys(payload["v"], number)}


def _is_message(kind: type) -> bool:
    return issubclass(kind, BaseMessage)


def _facts_of(message: BaseMessage) -> tuple[str, str] | None:
    """Return what an edit of a message must keep; `None` for messages that are not edited."""
    if not message.id or message.type not in ("human", "ai", "system") or calls_of(message):
        return None
    return message.id, message.type


class _Items:
    """The new items of an entry that is planned."""

    def __init__(self, saver: TractSaver, ledger: Ledger, texts: dict[bytes, bytes]) -> None:
        self.saver, self.ledger, self.texts = saver, ledger, texts
        self.frames: list[bytes] = []
        self.own: dict[bytes, int] = {}
        self.compared: list[int] | None = None

    def item_of(self, message: BaseMessage, known: Known | None, old: list[int] | None) -> int:
        """Return the item of a message: a stored one with the same contents, or a new one."""
        item = known.item_of(message) if known else None
        if item is not None:
            return item
        ledger = self.ledger
        frame = self.saver._dump(message, self.texts)
        if old and self.compared is not old:
            self.compared = old
            is_read = ledger.digested.issuperset(old)
            missing = [] if is_read else [item for item in old if item not in ledger.digested]
            for item, stored in zip(missing, self.saver._frames(ledger, missing), strict=True):
                ledger.know(item, stored)
        digest = digest_of(frame)
        item = ledger.digests.get(digest, self.own.get(digest))
        if item is None:
            item = self.own[digest] = ledger.count * ITEMS + len(self.frames)
            self.frames.append(frame)
        return item


def _with_lists(
    payload: Mapping[str, Any], header: Mapping[str, Any], changes: Sequence[Change]
) -> dict[str, Any]:
    """Return the payload of an entry with its header and its lists."""
    rows = {"l": list(map(change_row, changes))} if changes else {}
    return {**payload, "e": header, **rows}


def _parts(config: RunnableConfig) -> tuple[str, str, str | None]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", ""), get_checkpoint_id(config)


def _config(thread_id: Any, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }
