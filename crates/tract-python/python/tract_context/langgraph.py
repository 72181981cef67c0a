"""LangGraph: a checkpoint saver whose threads are branches."""

import asyncio
import builtins
import json
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

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

from tract_context._errors import ConflictError, TractError
from tract_context._langgraph_ledger import BRANCHES, LEDGERS, Ledger, Plan, State, common_length
from tract_context._langgraph_values import (
    blob_id,
    calls_of,
    collect_texts,
    digits_of,
    frame_of,
    frozen,
    key_of,
    known_items,
    message_line,
    pack,
    unpack,
    whole_value,
)
from tract_context._tract import Tract, open

__all__ = ["TractSaver"]

CACHE_BYTES = 64 << 20
"""Maximum size of the serialized messages that a saver caches."""

CACHED_ENTRIES = 512
"""Maximum number of decoded entries that a saver caches."""

TRIES = 100
"""Number of times that a write is planned again after another process moved the thread."""


class TractSaver(BaseCheckpointSaver[Any]):
    """Saves checkpoints in a store, with each thread's messages as commits of a branch.

    `TractSaver("sqlite:agent.db")` opens a store and closes it at the end of a `with` block or in
    `close`; an open `Tract` stays open. Threads and tasks may share a saver, and processes a store.

    The messages of thread `t1` are the branch `langgraph/t1`, those of a subgraph
    `langgraph/t1/ns-NAME`. A message is stored once, whatever number of checkpoints contain it. After
    a run from an older checkpoint the branch follows that run, and the messages that it left are the
    branch `langgraph/t1/fork-ID`.

    An erased message makes the checkpoints that contain it unreadable: `ErasedError`.
    """

    def __init__(self, store: str | Tract, *, serde: SerializerProtocol | None = None) -> None:
        """Open a saver on a store's URL, or on an open store.

        With a serializer that encrypts, nothing is stored in plain text, so there is no branch.
        """
        super().__init__(serde=serde)
        self._owned = not isinstance(store, Tract)
        if not isinstance(store, (str, Tract)):
            raise TypeError(f"a saver needs a URL or a Tract, not {type(store).__name__}")
        self._tract = store if isinstance(store, Tract) else open(store)
        self._ledgers: dict[str, Ledger] = {}
        self._lock = threading.Lock()
        self._payloads: OrderedDict[bytes, dict[str, Any]] = OrderedDict()
        self._values: OrderedDict[bytes, tuple[str, bytes]] = OrderedDict()
        self._value_bytes = [0]

    @property
    def tract(self) -> Tract:
        """The open store."""
        return self._tract

    def close(self) -> None:
        """Close the store, unless it was opened by the caller."""
        if self._owned:
            self._tract.close()

    def __enter__(self) -> Self:
        """Return the saver."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the saver."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the saver."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the saver."""
        await asyncio.to_thread(self.close)

    # --- reading entries

    def _ledger(self, thread_id: str) -> Ledger:
        key = key_of(thread_id)
        with self._lock:
            ledger = self._ledgers.get(key)
            if ledger is None:
                ledger = self._ledgers[key] = Ledger(key, thread_id=thread_id)
            return ledger

    def _sync(self, ledger: Ledger) -> None:
        """Read the entries that were added since the last call."""
        operation = self._tract._handle.ledger_entries(ledger.name, ledger.head)
        head, complete, entries = operation.wait()
        if complete:
            ledger.clear()
        for metadata, ids in entries:
            ledger.add(json.loads(metadata), ids)
        ledger.head = head
        ledger.loaded = True

    def _blobs(self, ids: builtins.list[bytes]) -> builtins.list[bytes]:
        blobs: builtins.list[bytes] = self._tract._handle.ledger_blobs(ids).wait()
        return blobs

    def _load(self, ledger: Ledger, numbers: Collection[int]) -> builtins.list[dict[str, Any]]:
        """Return the payloads of entries."""
        ids = [ledger.entries[number].id(0) for number in numbers]
        with self._lock:
            loaded = {id_: self._payloads[id_] for id_ in ids if id_ in self._payloads}
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in loaded]
        if missing:
            loaded.update(
                (id_, unpack(data)) for id_, data in zip(missing, self._blobs(missing), strict=True)
            )
            with self._lock:
                for id_ in missing:
                    self._payloads[id_] = loaded[id_]
                while len(self._payloads) > CACHED_ENTRIES:
                    self._payloads.popitem(last=False)
        return [loaded[id_] for id_ in ids]

    def _keep_values(self, values: Mapping[bytes, tuple[str, bytes]]) -> None:
        with self._lock:
            for id_, value in values.items():
                if id_ not in self._values:
                    self._values[id_] = value
                    self._value_bytes[0] += len(value[1])
            while self._value_bytes[0] > CACHE_BYTES:
                self._value_bytes[0] -= len(self._values.popitem(last=False)[1][1])

    def _read(self, frames: Collection[bytes], ids: Collection[bytes] = ()) -> dict[bytes, tuple[str, bytes]]:
        """Return the serialized values of frames, and of stored frames by their ids."""
        values: dict[bytes, tuple[str, bytes]] = {}
        stored: dict[bytes, None] = {}
        for frame in frames:
            value = whole_value(frame)
            if value is None:
                stored[frame] = None
            else:
                values[frame] = value
        for id_ in ids:
            value = self._values.get(id_)
            if value is None:
                stored[id_] = None
            else:
                values[id_] = value
        if stored:
            # Frames without texts elsewhere are not passed on, so none has the length of an id.
            read: builtins.list[tuple[str, bytes]] = self._tract._handle.ledger_values(list(stored)).wait()
            fresh = dict(zip(stored, read, strict=True))
            values.update(fresh)
            self._keep_values({id_: value for id_, value in fresh.items() if len(id_) == 32})
        return values

    def _loads_list(self, values: builtins.list[tuple[str, bytes]]) -> builtins.list[Any]:
        if type(self.serde) is JsonPlusSerializer and all(kind == "msgpack" for kind, _ in values):
            count = len(values)
            header = bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
            loaded = self.serde.loads_typed(("msgpack", header + b"".join(data for _, data in values)))
            return cast(builtins.list[Any], loaded)
        return [self.serde.loads_typed(value) for value in values]

    def _state(self, ledger: Ledger, number: int) -> State:
        """Return the channels of a checkpoint."""
        state = ledger.states.get(number)
        if state is None:
            (payload,) = self._load(ledger, [number])
            frame = payload["c"]
            checkpoint = self.serde.loads_typed(self._read([frame])[frame])
            values = {**payload["a"], **dict.fromkeys(payload["v"], number)}
            state = State(checkpoint.get("channel_versions", {}), values)
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
        payloads = dict(zip(numbers, self._load(ledger, numbers), strict=True))
        frames: dict[str, bytes] = {}
        lists: dict[str, builtins.list[bytes]] = {}
        for channel in wanted:
            frame = payloads[values[channel]]["v"][channel]
            if frame is True:
                lists[channel] = ledger.items(values[channel], channel)
            else:
                frames[channel] = frame
        read = self._read(frames.values(), [item for items in lists.values() for item in items])
        result: dict[str, Any] = {}
        for channel in wanted:
            if channel in frames:
                result[channel] = self.serde.loads_typed(read[frames[channel]])
            else:
                items = lists[channel]
                loaded = self._loads_list([read[item] for item in items])
                ledger.known[f"{namespace}\0{channel}"] = known_items(loaded, items)
                result[channel] = loaded
        return result

    def _writes(
        self, ledger: Ledger, namespace: str, checkpoint_id: str
    ) -> builtins.list[tuple[str, str, bytes]]:
        """Return the pending writes of a checkpoint in order: task, channel, frame."""
        numbers = ledger.writes.get((namespace, checkpoint_id), [])
        writes: dict[tuple[str, int], tuple[str, str, bytes]] = {}
        for payload in self._load(ledger, numbers):
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
        self,
        ledger: Ledger,
        thread_id: str,
        namespace: str,
        checkpoint_id: str,
        config: RunnableConfig | None,
    ) -> CheckpointTuple | None:
        number = ledger.checkpoints.get(namespace, {}).get(checkpoint_id)
        if number is None:
            return None
        (payload,) = self._load(ledger, [number])
        read = self._read([payload["c"], payload["m"]])
        checkpoint = self.serde.loads_typed(read[payload["c"]])
        values = {**payload["a"], **dict.fromkeys(payload["v"], number)}
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
            checkpoints = ledger.checkpoints.get(namespace)
            if not checkpoints:
                return None
            if checkpoint_id:
                return self._tuple(
                    ledger, config["configurable"]["thread_id"], namespace, checkpoint_id, config
                )
            return self._tuple(ledger, config["configurable"]["thread_id"], namespace, max(checkpoints), None)

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
        entries: builtins.list[tuple[str, str, str, Ledger]] = []
        for thread_id, ledger in self._threads(config):
            with ledger.lock:
                self._sync(ledger)
                namespace = config["configurable"].get("checkpoint_ns") if config else None
                checkpoint_id = get_checkpoint_id(config) if config else None
                for name, checkpoints in ledger.checkpoints.items():
                    if namespace is None or namespace == name:
                        entries += (
                            (id_, thread_id or ledger.thread_id, name, ledger)
                            for id_ in checkpoints
                            if (not checkpoint_id or id_ == checkpoint_id) and (not bound or id_ < bound)
                        )
        entries.sort(key=lambda entry: entry[0], reverse=True)
        remaining = len(entries) if limit is None else limit
        for id_, thread_id, name, ledger in entries:
            if remaining <= 0:
                return
            with ledger.lock:
                number = ledger.checkpoints.get(name, {}).get(id_)
                if number is None:
                    continue
                if filter:
                    metadata = self._metadata(ledger, number)
                    if any(metadata.get(key) != value for key, value in filter.items()):
                        continue
                found = self._tuple(ledger, thread_id, name, id_, None)
            if found is not None:
                remaining -= 1
                yield found

    def _metadata(self, ledger: Ledger, number: int) -> dict[str, Any]:
        (payload,) = self._load(ledger, [number])
        frame = payload["m"]
        return cast(dict[str, Any], self.serde.loads_typed(self._read([frame])[frame]))

    def _threads(self, config: RunnableConfig | None) -> Iterator[tuple[Any, Ledger]]:
        if config:
            thread_id = config["configurable"]["thread_id"]
            yield thread_id, self._ledger(str(thread_id))
            return
        names: builtins.list[tuple[str, str]] = self._tract._handle.ledgers(LEDGERS).wait()
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
            checkpoints = ledger.checkpoints.get(namespace, {})
            number = checkpoints.get(checkpoint_id or max(checkpoints, default=""))
            remaining = set(channels)
            while number is not None and remaining:
                (payload,) = self._load(ledger, [number])
                parent = payload["p"]
                number = checkpoints.get(parent) if parent else None
                if number is None:
                    break
                (payload,) = self._load(ledger, [number])
                on_path = [
                    write for write in self._writes(ledger, namespace, parent) if write[1] in remaining
                ]
                for write in reversed(self._loads_writes(on_path)):
                    writes[write[1]].append(write)
                values = {**payload["a"], **dict.fromkeys(payload["v"], number)}
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
        with ledger.lock:
            if not ledger.loaded:
                self._sync(ledger)

            def attempt(full: bool) -> None:
                plan = self._plan(ledger, namespace, checkpoint, new_versions, header, payload, blobs, full)
                self._commit(ledger, plan, thread_id)

            self._retry(ledger, attempt)
        return _config(config["configurable"]["thread_id"], namespace, checkpoint["id"])

    def _retry(self, ledger: Ledger, attempt: Callable[[bool], None]) -> None:
        """Carry out a write again while other processes move the thread."""
        full = False
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
        parent = ledger.checkpoints.get(namespace, {}).get(payload["p"] or "")
        state = self._state(ledger, parent) if parent is not None else State({}, {})
        versions = checkpoint["channel_versions"]
        values = checkpoint["channel_values"]
        inherited: dict[str, int] = {}
        stored: dict[str, Any] = {}
        new = dict(blobs)
        lists: dict[str, builtins.list[bytes]] = {}
        for channel, version in versions.items():
            is_unchanged = channel not in new_versions and state.versions.get(channel) == version
            if is_unchanged and channel in state.values:
                inherited[channel] = state.values[channel]
        plan = Plan(dict(header), {}, inherited, versions, [], [], lists, {}, None)
        for channel, value in values.items():
            if channel in inherited:
                continue
            if type(value) is list and value and all(isinstance(item, BaseMessage) for item in value):
                stored[channel] = True
                known = ledger.known.get(f"{namespace}\0{channel}", {})
                items, added, seen = self._items(value, known, new)
                plan.known[channel] = seen
                before = state.values.get(channel, -1)
                if ledger.is_list(before, channel) and ledger.items(before, channel) == items:
                    del stored[channel]
                    inherited[channel] = before
                    continue
                lists[channel] = items
                new.update(added)
            else:
                stored[channel] = self._dump(value, new)
        packed = pack({**payload, "v": stored, "a": inherited})
        plan.blobs = [packed, *(data for id_, data in new.items())]
        places = {id_: place for place, id_ in enumerate(new, start=1)}
        changes = []
        for channel, items in lists.items():
            before = state.values.get(channel, -1)
            old = ledger.items(before, channel) if ledger.is_list(before, channel) else None
            keep = common_length(old or [], items)
            added_places = []
            for item in items[keep:]:
                if item not in places:
                    places[item] = 1 + len(new) + len(plan.keeps)
                    plan.keeps.append(item)
                added_places.append(places[item])
            compact: builtins.list[Any] = [added_places]
            if (
                added_places == list(range(added_places[0], added_places[0] + len(added_places)))
                if added_places
                else False
            ):
                compact = [added_places[0], len(added_places)]
            changes.append([channel, before if old is not None else -1, keep, compact])
            if self._is_plain() and (
                channel == "messages" or ("messages" not in lists and channel == next(iter(lists)))
            ):
                plan.branch = self._branch(
                    ledger, namespace, channel, before, old, keep, items, values[channel], full
                )
                if channel != "messages":
                    plan.header["k"] = channel
        if changes:
            plan.header["l"] = changes
        plan.payload = {**payload, "v": stored, "a": inherited}
        return plan

    def _items(
        self,
        messages: builtins.list[BaseMessage],
        known: Mapping[int, tuple[BaseMessage, Any, bytes]],
        blobs: dict[bytes, bytes],
    ) -> tuple[builtins.list[bytes], dict[bytes, bytes], dict[int, tuple[BaseMessage, Any, bytes]]]:
        """Return the ids of the items of a list, and the blobs of those that are not known."""
        items: builtins.list[bytes] = []
        added: dict[bytes, bytes] = {}
        seen: dict[int, tuple[BaseMessage, Any, bytes]] = {}
        for message in messages:
            entry = known.get(id(message))
            if (
                entry is None
                or entry[0] is not message
                or entry[1] is None
                or entry[1] != message.__dict__
                or message.__pydantic_extra__
            ):
                frame = self._dump(message, added)
                id_ = blob_id(frame)
                # The order of the blobs is that of the items, so that they are a range.
                added.pop(id_, None)
                added[id_] = frame
                entry = (message, frozen(message), id_)
            seen[id(message)] = entry
            items.append(entry[2])
        texts = {id_: data for id_, data in added.items() if id_ not in set(items)}
        blobs.update(texts)
        return items, {id_: data for id_, data in added.items() if id_ not in texts}, seen

    def _branch(
        self,
        ledger: Ledger,
        namespace: str,
        channel: str,
        before: int,
        old: builtins.list[bytes] | None,
        keep: int,
        items: builtins.list[bytes],
        messages: builtins.list[BaseMessage],
        full: bool,
    ) -> dict[str, Any]:
        """Return the move of the branch that shows a list."""
        name = f"{BRANCHES}{ledger.key}" + (f"/ns-{key_of(namespace)}" if namespace else "")
        for item, message in zip(items[keep:], messages[keep:], strict=True):
            ledger.message_ids[item] = (message.id, bool(calls_of(message)), message.type)
        header = ledger.entries[before].header if old is not None else {}
        base = header.get("h") if header.get("k", "messages") == channel else None
        if base is None or old is None or full:
            lines = [message_line(message) for message in messages]
            return {"name": name, "base": None, "count": 0, "skip": [], "edit": [], "append": lines}
        skip: builtins.list[int] = []
        edit: builtins.list[tuple[int, str]] = []
        at = keep
        for place in range(keep, len(old)):
            if at < len(items) and old[place] == items[at]:
                at += 1
                continue
            facts = ledger.message_ids.get(old[place])
            if (
                at < len(items)
                and facts
                and facts[0]
                and facts == ledger.message_ids[items[at]]
                and not facts[1]
            ) and facts[2] in ("human", "ai", "system"):
                edit.append((place, message_line(messages[at])))
                at += 1
                continue
            skip.append(place)
        lines = [message_line(message) for message in messages[at:]]
        return {"name": name, "base": base, "count": len(old), "skip": skip, "edit": edit, "append": lines}

    def _commit(self, ledger: Ledger, plan: Plan, thread_id: str) -> None:
        """Write a planned checkpoint where the thread is expected to be."""
        if ledger.head is None and ledger.key != thread_id:
            plan.header["t"] = thread_id
        entry = {
            "metadata": json.dumps(plan.header, separators=(",", ":")),
            "blobs": len(plan.blobs),
            "keeps": [id_.hex() for id_ in plan.keeps],
        }
        call = {"ledger": ledger.name, "expect": ledger.head, "entries": [entry], "branch": plan.branch}
        head, shown = self._tract._handle.ledger_write(json.dumps(call), plan.blobs).wait()
        if shown is not None:
            plan.header["h"] = shown
        ids = b"".join([*(blob_id(blob) for blob in plan.blobs), *plan.keeps])
        number = ledger.add(plan.header, ids)
        ledger.head = head
        values = {**plan.state, **dict.fromkeys(plan.payload["v"], number)}
        self._keep_state(ledger, number, State(dict(plan.versions), values))
        for channel, items in plan.lists.items():
            ledger.keep_items(number, channel, items)
        namespace = plan.header.get("n", "")
        for channel, known in plan.known.items():
            ledger.known[f"{namespace}\0{channel}"] = known
        with self._lock:
            self._payloads[ledger.entries[number].id(0)] = plan.payload

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
        plan = Plan(header, {**payload, "v": {}}, {}, {}, [pack(payload), *blobs.values()], [], {}, {}, None)
        ledger = self._ledger(thread_id)
        with ledger.lock:
            if not ledger.loaded:
                self._sync(ledger)
            self._retry(ledger, lambda _: self._commit(ledger, plan, thread_id))

    # --- threads

    def _branches(self, key: str) -> builtins.list[tuple[str, str]]:
        prefix = f"heads/{BRANCHES}{key}"
        refs: builtins.list[tuple[str, str]] = self._tract._handle.ledgers(prefix).wait()
        own = (f"{prefix}/fork-", f"{prefix}/ns-")
        return [(name, head) for name, head in refs if name == prefix or name.startswith(own)]

    def _move(self, moves: builtins.list[tuple[str, str | None, str | None]]) -> None:
        call = [{"name": name, "from": before, "to": after} for name, before, after in moves]
        self._tract._handle.ledger_refs(json.dumps(call)).wait()

    def delete_thread(self, thread_id: str) -> None:
        """Delete the checkpoints, writes and branches of a thread.

        Data that other threads share is kept. The rest is collected by `tract gc`.
        """
        ledger = self._ledger(str(thread_id))
        with ledger.lock:

            def attempt(_: bool) -> None:
                self._sync(ledger)
                branches = self._branches(ledger.key)
                own = [(ledger.name, ledger.head)] if ledger.head else []
                self._move([(name, head, None) for name, head in [*own, *branches]])

            self._retry(ledger, attempt)
            ledger.clear()

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
                self._sync(target)
                if source.head is None:
                    return
                if target.head is not None:
                    raise TractError(f"thread {target_thread_id!r} exists", code="exists")
                prefix = f"heads/{BRANCHES}"
                moves: builtins.list[tuple[str, str | None, str | None]] = [(target.name, None, source.head)]
                for name, head in self._branches(source.key):
                    end = name.removeprefix(prefix + source.key)
                    moves.append((f"{prefix}{target.key}{end}", None, head))
                self._move(moves)

            self._retry(target, attempt)
            self._sync(target)
            if target.head is not None and target.thread_id != str(target_thread_id):
                header = {"t": str(target_thread_id)}
                plan = Plan(header, {"v": {}}, {}, {}, [pack({})], [], {}, {}, None)
                self._retry(target, lambda _: self._commit(target, plan, target.key))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of runs in all threads.

        Values and messages that other checkpoints contain are kept.
        """
        runs = set(run_ids)
        digits = {digits_of(run_id, 8) for run_id in runs}
        if not runs:
            return
        for _, ledger in self._threads(None):
            with ledger.lock:

                def attempt(_: bool, ledger: Ledger = ledger) -> None:
                    self._sync(ledger)
                    kept = {
                        number
                        for checkpoints in ledger.checkpoints.values()
                        for number in checkpoints.values()
                        if ledger.entries[number].header.get("r") not in digits
                        or self._metadata(ledger, number).get("run_id") not in runs
                    }
                    self._rewrite(ledger, kept)

                self._retry(ledger, attempt)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the older checkpoints of threads (`keep_latest`), or all of them (`delete`).

        The ancestors that a `DeltaChannel` of a kept checkpoint is computed from are kept too.
        """
        if strategy not in ("keep_latest", "delete"):
            raise TractError(
                f"unknown strategy {strategy!r}", code="bad_value", notes=["known are keep_latest and delete"]
            )
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            ledger = self._ledger(str(thread_id))
            with ledger.lock:

                def attempt(_: bool, ledger: Ledger = ledger) -> None:
                    self._sync(ledger)
                    kept: set[int] = set()
                    for checkpoints in ledger.checkpoints.values():
                        newest = checkpoints[max(checkpoints)]
                        kept |= {newest, *self._delta_ancestors(ledger, checkpoints, newest)}
                    self._rewrite(ledger, kept)

                self._retry(ledger, attempt)

    def _delta_ancestors(self, ledger: Ledger, checkpoints: Mapping[str, int], number: int) -> set[int]:
        counters = self._metadata(ledger, number).get("counters_since_delta_snapshot") or {}
        remaining = set(counters) - self._state(ledger, number).values.keys()
        ancestors: set[int] = set()
        place: int | None = number
        while place is not None and remaining:
            (payload,) = self._load(ledger, [place])
            place = checkpoints.get(payload["p"] or "")
            if place is None or place in ancestors:
                break
            ancestors.add(place)
            remaining -= self._state(ledger, place).values.keys()
        return ancestors

    def _rewrite(self, ledger: Ledger, kept: set[int]) -> None:
        """Replace the entries of a thread by those of these checkpoints, and the values they need."""
        checkpoints = [
            (number, namespace, id_)
            for namespace, ids in ledger.checkpoints.items()
            for id_, number in ids.items()
        ]
        if all(number in kept for number, *_ in checkpoints):
            return
        gone = {(namespace, id_) for number, namespace, id_ in checkpoints if number not in kept}
        if not kept:
            self._move([(ledger.name, ledger.head, None)])
            ledger.clear()
            return
        needed: set[int] = set()
        for number in kept:
            (payload,) = self._load(ledger, [number])
            for channel, place in {**payload["a"], **dict.fromkeys(payload["v"], number)}.items():
                while place >= 0 and place not in needed:
                    needed.add(place)
                    lists = [
                        change for change in ledger.entries[place].header.get("l", ()) if change[0] == channel
                    ]
                    if not lists:
                        break
                    place = lists[0][1]
        numbers: dict[int, int] = {}
        call_entries: builtins.list[dict[str, Any]] = []
        blobs: builtins.list[bytes] = []
        for number, entry in enumerate(ledger.entries):
            header = dict(entry.header)
            namespace = header.get("n", "")
            if "w" in header:
                if (namespace, header["w"]) in gone:
                    continue
            elif "c" in header and number not in kept:
                if number not in needed:
                    continue
                header = {key: header[key] for key in ("l", "h", "k", "n") if key in header}
            numbers[number] = len(numbers)
            (payload,) = self._load(ledger, [number])
            payload = {
                key: value
                for key, value in payload.items()
                if "w" in header or key in ("v", "a") or "c" in header
            }
            if "a" in payload:
                payload["a"] = {
                    channel: numbers[place] for channel, place in payload["a"].items() if place in numbers
                }
            if "l" in header:
                header["l"] = [
                    [channel, numbers.get(before, -1), keep if before in numbers else 0, places]
                    for channel, before, keep, places in header["l"]
                ]
            if not call_entries and ledger.key != ledger.thread_id:
                header["t"] = ledger.thread_id
            if "w" in header:
                payload.pop("v", None)
            blobs.append(pack(payload))
            keeps = [entry.id(place).hex() for place in range(1, len(entry.ids) // 32)]
            metadata = json.dumps(header, separators=(",", ":"))
            call_entries.append({"metadata": metadata, "blobs": 1, "keeps": keeps})
        call = {"ledger": ledger.name, "expect": ledger.head, "replace": True, "entries": call_entries}
        self._tract._handle.ledger_write(json.dumps(call), blobs).wait()
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
