"""The entries of a thread, and an index of them."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import ChannelVersions

from tract_context._errors import TractError

LEDGERS = "langgraph-checkpoints/"
"""Prefix of the refs with the checkpoints of threads. No branch has it: a revision would be ambiguous."""

BRANCHES = "langgraph/"
"""Prefix of the branches with the messages of threads."""


@dataclass
class Entry:
    """An entry of a ledger: its small header and the ids of its blobs, 32 bytes each."""

    header: dict[str, Any]
    ids: bytes

    def id(self, place: int) -> bytes:
        """Return the id of a blob; the first one is the payload."""
        return self.ids[place * 32 : place * 32 + 32]


@dataclass
class State:
    """The channels of a checkpoint: their versions, and the entries with their values."""

    versions: ChannelVersions
    values: dict[str, int]


@dataclass
class Ledger:
    """The known entries of a thread, with an index of them."""

    key: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    head: str | None = None
    loaded: bool = False
    thread_id: str = ""
    entries: list[Entry] = field(default_factory=list)
    checkpoints: dict[str, dict[str, int]] = field(default_factory=dict)
    writes: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)
    lists: OrderedDict[tuple[int, str], list[bytes]] = field(default_factory=OrderedDict)
    known: dict[str, dict[int, tuple[BaseMessage, Any, bytes]]] = field(default_factory=dict)
    message_ids: dict[bytes, tuple[str | None, bool, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The ref."""
        return LEDGERS + self.key

    def clear(self) -> None:
        """Forget all entries."""
        self.head = None
        self.thread_id = self.key
        self.entries.clear()
        self.checkpoints.clear()
        self.writes.clear()
        self.states.clear()
        self.lists.clear()
        self.known.clear()

    def add(self, header: dict[str, Any], ids: bytes) -> int:
        """Add an entry to the index. Returns its number."""
        number = len(self.entries)
        self.entries.append(Entry(header, ids))
        namespace = header.get("n", "")
        if "t" in header:
            self.thread_id = header["t"]
        if "c" in header:
            self.checkpoints.setdefault(namespace, {})[header["c"]] = number
        elif "w" in header:
            self.writes.setdefault((namespace, header["w"]), []).append(number)
        return number

    def is_list(self, number: int, channel: str) -> bool:
        """Return whether an entry contains a channel's value as a list of items."""
        changes = self.entries[number].header.get("l", ()) if number >= 0 else ()
        return any(change[0] == channel for change in changes)

    def list_change(self, number: int, channel: str) -> tuple[int, int, list[bytes]]:
        """Return the entry that a list continues, the kept length, and the ids of the added items."""
        entry = self.entries[number]
        for name, before, keep, places in entry.header.get("l", ()):
            if name == channel:
                return before, keep, [entry.id(place) for place in _places(places)]
        raise _damaged(f"the list {channel!r} of an entry")

    def items(self, number: int, channel: str) -> list[bytes]:
        """Return the ids of the items of a list."""
        chain = []
        place: int = number
        while place >= 0 and (place, channel) not in self.lists:
            before, keep, added = self.list_change(place, channel)
            if before >= place:
                raise _damaged("the order of the entries")
            chain.append((keep, added))
            place = before
        items = self.lists[(place, channel)] if place >= 0 else []
        if chain:
            items = list(items)
            for keep, added in reversed(chain):
                del items[keep:]
                items += added
            self.keep_items(number, channel, items)
        return items

    def keep_items(self, number: int, channel: str, items: list[bytes]) -> None:
        """Cache the ids of the items of a list."""
        self.lists[(number, channel)] = items
        if len(self.lists) > 8:
            self.lists.popitem(last=False)


def _places(places: Any) -> Sequence[int]:
    return range(places[0], places[0] + places[1]) if len(places) == 2 else places[0]


def _damaged(what: str) -> TractError:
    return TractError(f"damaged checkpoint: {what}", code="corrupt", notes=["`verify` lists what is damaged"])


@dataclass
class Plan:
    """A checkpoint that is about to be written."""

    header: dict[str, Any]
    payload: dict[str, Any]
    state: dict[str, int]
    versions: ChannelVersions
    blobs: list[bytes]
    keeps: list[bytes]
    lists: dict[str, list[bytes]]
    known: dict[str, dict[int, tuple[BaseMessage, Any, bytes]]]
    branch: dict[str, Any] | None


def common_length(old: list[bytes], new: list[bytes]) -> int:
    """Return the length of the common beginning of two lists."""
    if new[: len(old)] == old:
        return len(old)
    for place, (left, right) in enumerate(zip(old, new, strict=False)):
        if left != right:
            return place
    return min(len(old), len(new))
