"""The entries of a thread, and the index that finds them without reading all of them.

Entries are numbered. Each 64 of them become a page, which is stored with the next entry. Sixteen pages
become a node, sixteen nodes a larger one, and a root lists those that are not part of another yet. So
the newest entries up to one with a root (the window) lead to every other entry.
"""

import threading
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from langgraph.checkpoint.base import ChannelVersions

from tract_context._errors import TractError
from tract_context._langgraph_values import Known, blob_id, pack, unpack

LEDGERS = "langgraph-checkpoints/"
"""Prefix of the refs with the checkpoints of threads. No branch has it: a revision would be ambiguous."""

BRANCHES = "langgraph/"
"""Prefix of the branches with the messages of threads."""

PAGE = 64
"""Number of entries in a page."""

FANOUT = 16
"""Number of pages or nodes in a node."""

CACHED_PAGES = 128
"""Maximum number of pages that a thread caches."""

CACHED_NODES = 64
"""Maximum number of nodes that a thread caches."""

CACHED_LISTS = 8
"""Maximum number of lists that a thread caches."""

NAMESPACES = 64
"""Maximum number of namespaces that a summary lists."""

ITEMS = 1 << 24
"""Maximum number of new items in an entry. An item is named by the number of its entry times this, plus
its place among the new items there."""

Change = tuple[str, int, int, int, list[int]]
"""A list of an entry: channel, the entry that it continues or -1, the kept length, the number of entries
that it is made of, and the added items."""


@dataclass(slots=True)
class Entry:
    """An entry: its small header, the id of its payload, and its lists."""

    header: dict[str, Any]
    payload: bytes
    lists: list[Change]

    def change(self, channel: str) -> Change | None:
        """Return the list of a channel, if the entry contains one."""
        for change in self.lists:
            if change[0] == channel:
                return change
        return None


def change_row(change: Change) -> list[Any]:
    """Return a list as it is stored: its items are ranges of entry, place and length."""
    *start, added = change
    ranges: list[int] = []
    last = -2
    for item in added:
        if item == last + 1:
            ranges[-1] += 1
        else:
            ranges += (*divmod(item, ITEMS), 1)
        last = item
    return [*start, ranges]


def change_of(row: Sequence[Any]) -> Change:
    """Return a stored list."""
    channel, before, keep, depth, ranges = row
    added: list[int] = []
    for number, place, count in zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True):
        start = number * ITEMS + place
        added += range(start, start + count)
    return channel, before, keep, depth, added


@dataclass(slots=True)
class Page:
    """Entries that follow each other, with an index of them."""

    first: int
    entries: list[Entry] = field(default_factory=list)
    checkpoints: dict[tuple[str, str], int] = field(default_factory=dict)
    writes: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        number = self.first + len(self.entries)
        self.entries.append(entry)
        header = entry.header
        namespace = header.get("n", "")
        if "c" in header:
            self.checkpoints[(namespace, header["c"])] = number
        elif "w" in header:
            self.writes.setdefault((namespace, header["w"]), []).append(number)

    def packed(self) -> bytes:
        """Return the page as it is stored."""
        rows = []
        for entry in self.entries:
            header = {key: value for key, value in entry.header.items() if key not in ("t", "x")}
            if "h" in header:
                header["h"] = bytes.fromhex(header["h"])
            rows.append([header, entry.payload, *map(change_row, entry.lists)])
        return pack(rows)

    @staticmethod
    def unpacked(first: int, data: bytes) -> "Page":
        """Return a stored page."""
        page = Page(first)
        for header, payload, *lists in unpack(data):
            if "h" in header:
                header["h"] = header["h"].hex()
            page.add(Entry(header, payload, list(map(change_of, lists))))
        return page


@dataclass(slots=True)
class Summary:
    """What a page or a node contains."""

    blob: bytes
    low: str
    high: str
    namespaces: bytes
    """The digests of the namespaces; empty if there are too many."""

    @staticmethod
    def of_page(page: Page, data: bytes) -> "Summary":
        """Return the summary of a page."""
        keys = [*page.checkpoints, *page.writes]
        ids = [id_ for _, id_ in keys]
        digests = {_digest(namespace) for namespace, _ in keys}
        return Summary(blob_id(data), min(ids, default=""), max(ids, default=""), _joined(digests))

    @staticmethod
    def of_node(parts: "Sequence[Summary]", data: bytes) -> "Summary":
        """Return the summary of a node."""
        low = min((part.low for part in parts if part.high), default="")
        digests = {part.namespaces[at : at + 4] for part in parts for at in range(0, len(part.namespaces), 4)}
        is_known = all(part.namespaces or not part.high for part in parts)
        namespaces = _joined(digests) if is_known else b""
        return Summary(blob_id(data), low, max(part.high for part in parts), namespaces)

    def row(self) -> list[Any]:
        """Return the summary as it is stored."""
        return [self.blob, self.low, self.high, self.namespaces]

    def may_have(self, digest: bytes | None) -> bool:
        """Return whether a namespace may occur."""
        if digest is None or not self.namespaces:
            return True
        return any(self.namespaces[at : at + 4] == digest for at in range(0, len(self.namespaces), 4))


def _digest(namespace: str) -> bytes:
    return sha256(namespace.encode("utf-8", "surrogatepass")).digest()[:4]


def _joined(digests: set[bytes]) -> bytes:
    return b"".join(sorted(digests)) if len(digests) <= NAMESPACES else b""


def _node(data: bytes) -> list[Summary]:
    return [Summary(*row) for row in unpack(data)]


Levels = list[list[Summary]]
"""The pages that are not part of a node, then the nodes of pages that are not part of another, and so on."""


@dataclass
class State:
    """The channels of a checkpoint: their versions, and the entries with their values."""

    versions: ChannelVersions
    values: dict[str, int]


@dataclass
class Ledger:
    """A thread: the newest entries, and those that were read."""

    key: str
    read: Callable[[list[bytes]], list[bytes]]
    """Reads blobs."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    head: str | None = None
    loaded: bool = False
    thread_id: str = ""
    levels: Levels = field(default_factory=list)
    window: Page = field(default_factory=lambda: Page(0))
    pages: OrderedDict[int, Page] = field(default_factory=OrderedDict)
    nodes: OrderedDict[bytes, list[Summary]] = field(default_factory=OrderedDict)
    states: dict[int, State] = field(default_factory=dict)
    lists: OrderedDict[tuple[int, str], list[int]] = field(default_factory=OrderedDict)
    known: OrderedDict[str, Known] = field(default_factory=OrderedDict)
    digests: dict[bytes, int] = field(default_factory=dict)
    """The items whose contents are known, by the digests of these."""
    digested: set[int] = field(default_factory=set)
    values: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """The serialized values of items."""
    value_bytes: int = 0
    clears: int = 0
    """Number of times that the entries were forgotten. Their numbers are others afterwards."""

    @property
    def name(self) -> str:
        """The ref."""
        return LEDGERS + self.key

    @property
    def count(self) -> int:
        """The number of entries."""
        return self.window.first + len(self.window.entries)

    def clear(self) -> None:
        """Forget all entries."""
        self.clears += 1
        self.head = None
        self.thread_id = self.key
        self.levels = []
        self.window = Page(0)
        self.values, self.value_bytes = {}, 0
        for cache in (
            self.pages,
            self.nodes,
            self.states,
            self.lists,
            self.known,
            self.digests,
            self.digested,
        ):
            cache.clear()

    # --- growing

    def index(self) -> tuple[Levels | None, list[bytes]]:
        """Return the index of all entries and its new blobs, if the next entry is to contain it.

        The last blob is the root.
        """
        if len(self.window.entries) < PAGE:
            return None, []
        data = self.window.packed()
        blobs = [data]
        levels = [list(level) for level in self.levels] or [[]]
        levels[0].append(Summary.of_page(self.window, data))
        for depth, level in enumerate(levels):
            if len(level) < FANOUT:
                break
            data = pack([summary.row() for summary in level])
            blobs.append(data)
            if depth + 1 == len(levels):
                levels.append([])
            levels[depth + 1].append(Summary.of_node(level, data))
            level.clear()
        rows = [[summary.row() for summary in level] for level in levels]
        blobs.append(pack({"t": self.thread_id, "l": rows}))
        return levels, blobs

    def add(self, entry: Entry, root: bytes | Levels | None = None) -> int:
        """Add an entry. `root` is the index that it contains, or its id. Returns the entry's number."""
        if root is not None:
            levels = self._open(self.read([root])[0]) if isinstance(root, bytes) else root
            first = PAGE * sum(len(level) * FANOUT**depth for depth, level in enumerate(levels))
            if self.window.entries and self.count == first:
                self._keep_page(self.window)
            self.levels = levels
            self.window = Page(first)
        if "t" in entry.header:
            self.thread_id = entry.header["t"]
        self.window.add(entry)
        return self.count - 1

    def keep_known(self, channel: str, known: Known) -> None:
        """Cache what is known of the messages of a channel."""
        self.known[channel] = known
        self.known.move_to_end(channel)
        if len(self.known) > CACHED_LISTS:
            self.known.popitem(last=False)

    def know(self, item: int, frame: bytes) -> None:
        """Note what an item contains."""
        self.digests.setdefault(digest_of(frame), item)
        self.digested.add(item)

    def _open(self, root: bytes) -> Levels:
        found = unpack(root)
        self.thread_id = found["t"]
        return [[Summary(*row) for row in level] for level in found["l"]]

    # --- finding

    def entry(self, number: int) -> Entry:
        """Return an entry."""
        if number >= self.window.first:
            return self.window.entries[number - self.window.first]
        return self._page(number // PAGE).entries[number % PAGE]

    def _page(self, number: int, ahead: int = 0) -> Page:
        """Return a page. Of one that is not cached, as many older ones are read too."""
        page = self.pages.get(number)
        if page is None:
            wanted = [at for at in range(max(0, number - ahead), number + 1) if at not in self.pages]
            blobs = self.read([self._summary(at).blob for at in wanted])
            for at, data in zip(wanted, blobs, strict=True):
                page = Page.unpacked(at * PAGE, data)
                self._keep_page(page)
            assert page is not None
        return page

    def _keep_page(self, page: Page) -> None:
        self.pages[page.first // PAGE] = page
        if len(self.pages) > CACHED_PAGES:
            self.pages.popitem(last=False)

    def _parts(self, summary: Summary) -> list[Summary]:
        """Return the parts of a node."""
        node = self.nodes.get(summary.blob)
        if node is None:
            node = self.nodes[summary.blob] = _node(self.read([summary.blob])[0])
            if len(self.nodes) > CACHED_NODES:
                self.nodes.popitem(last=False)
        return node

    def _summary(self, page: int) -> Summary:
        for depth in reversed(range(len(self.levels))):
            span = FANOUT**depth
            level = self.levels[depth]
            if page >= span * len(level):
                page -= span * len(level)
                continue
            summary: Summary = level[page // span]
            while depth:
                page %= span
                depth -= 1
                span //= FANOUT
                summary = self._parts(summary)[page // span]
            return summary
        raise damaged("the index of the entries")

    def _roots(self) -> Iterator[tuple[int, int, Summary]]:
        """Iterate over the summaries in the root, newest first: depth, first page, summary."""
        first = self.window.first // PAGE
        for depth, level in enumerate(self.levels):
            for summary in reversed(level):
                first -= FANOUT**depth
                yield depth, first, summary

    def _pages_with(self, namespace: str, id_: str) -> Iterator[Page]:
        """Iterate over the pages that may have entries of a checkpoint, newest first."""
        yield self.window
        digest = _digest(namespace)
        left = list(self._roots())[::-1]
        while left:
            depth, first, summary = left.pop()
            if not summary.low <= id_ <= summary.high or not summary.may_have(digest):
                continue
            if depth == 0:
                yield self._page(first)
                continue
            span = FANOUT ** (depth - 1)
            parts = enumerate(self._parts(summary))
            left += ((depth - 1, first + place * span, part) for place, part in parts)

    def find(self, namespace: str, id_: str | None) -> int | None:
        """Return the number of a checkpoint; `None` if there is none."""
        if id_:
            for page in self._pages_with(namespace, id_):
                if (number := page.checkpoints.get((namespace, id_))) is not None:
                    return number
        return None

    def writes(self, namespace: str, id_: str) -> list[int]:
        """Return the numbers of the entries with the writes of a checkpoint, in order."""
        found = [page.writes.get((namespace, id_), []) for page in self._pages_with(namespace, id_)]
        return [number for numbers in reversed(found) for number in numbers]

    def newest(self, namespace: str) -> tuple[str, int] | None:
        """Return the id and the number of the newest checkpoint of a namespace."""
        for _, id_, number in self.checkpoints(namespace):
            return id_, number
        return None

    def checkpoints(
        self, namespace: str | None = None, *, before: str | None = None
    ) -> Iterator[tuple[str, str, int]]:
        """Iterate over checkpoints, newest first: namespace, id, number.

        Pages are read as far as the iteration goes. After `clear` it must not go on.
        """
        digest = None if namespace is None else _digest(namespace)
        # Sorted, the next one last: pages by the newest id that they may contain, before checkpoints.
        left: list[tuple[str, int, int, Any]] = []

        def add_page(page: Page) -> None:
            for (name, id_), number in page.checkpoints.items():
                if (namespace is None or name == namespace) and (before is None or id_ < before):
                    insort(left, (id_, 0, number, name))

        def add_part(depth: int, first: int, summary: Summary) -> None:
            if summary.may_have(digest) and (before is None or summary.low < before):
                insort(left, (summary.high, 1, first * FANOUT + depth, summary))

        add_page(self.window)
        for root in self._roots():
            add_part(*root)
        done: tuple[str, set[str]] = ("", set())
        while left:
            id_, is_part, number, found = left.pop()
            if is_part:
                first, depth = divmod(number, FANOUT)
                if depth == 0:
                    add_page(self._page(first))
                    continue
                span = FANOUT ** (depth - 1)
                for place, part in enumerate(self._parts(found)):
                    add_part(depth - 1, first + place * span, part)
                continue
            if done[0] != id_:
                done = (id_, set())
            # Of checkpoints with the same id the last one counts.
            if found not in done[1]:
                done[1].add(found)
                yield found, id_, number

    # --- lists

    def items(self, number: int, channel: str) -> list[int] | None:
        """Return the items of a list; `None` if the entry contains none for this channel."""
        chain: list[Change] = []
        place = number
        while (place, channel) not in self.lists:
            if place < self.window.first:
                self._page(place // PAGE, ahead=FANOUT - 1)
            change = self.entry(place).change(channel)
            if change is None:
                if not chain:
                    return None
                raise damaged(f"the list {channel!r} of an entry")
            chain.append(change)
            if change[1] >= place:
                raise damaged("the order of the entries")
            place = change[1]
            if place < 0:
                break
        items = self.lists[(place, channel)] if place >= 0 else []
        if chain:
            items = list(items)
            for _, _, keep, _, added in reversed(chain):
                del items[keep:]
                items += added
            self.keep_items(number, channel, items)
        return items

    def keep_items(self, number: int, channel: str, items: list[int]) -> None:
        """Cache the items of a list."""
        self.lists[(number, channel)] = items
        if len(self.lists) > CACHED_LISTS:
            self.lists.popitem(last=False)

    def continued(self, channel: str, before: int, keep: int, items: list[int]) -> Change:
        """Return a list that continues that of another entry, or one of its own.

        A list is made of at most about as many entries as it has items.
        """
        change = self.entry(before).change(channel) if before >= 0 and keep else None
        if change is None or change[3] + 1 > len(items) + PAGE:
            return channel, -1, 0, 1, items
        return channel, before, keep, change[3] + 1, items[keep:]


def digest_of(frame: bytes) -> bytes:
    """Return what tells the contents of items apart."""
    return sha256(frame).digest()[:16]


def damaged(what: str) -> TractError:
    """Return the error for a thread that cannot be read."""
    return TractError(f"damaged checkpoint: {what}", code="corrupt", notes=["`verify` lists what is damaged"])


@dataclass
class Plan:
    """A checkpoint that is about to be written."""

    header: dict[str, Any]
    payload: dict[str, Any]
    blobs: list[bytes]
    """The texts that the payload refers to."""
    state: State | None = None
    changes: list[Change] = field(default_factory=list)
    lists: dict[str, list[int]] = field(default_factory=dict)
    known: dict[str, tuple[Known | None, int, list[Any], list[int]]] = field(default_factory=dict)
    """What to know afterwards: the messages and items of a channel, of which so many are known."""
    branch: dict[str, Any] | None = None
    renamed: bool = False
    """Whether the entry names the thread."""


def common_length(old: list[int], new: list[int]) -> int:
    """Return the length of the common beginning of two lists."""
    if new[: len(old)] == old:
        return len(old)
    for place, (left, right) in enumerate(zip(old, new, strict=False)):
        if left != right:
            return place
    return min(len(old), len(new))
