"""The index of a thread's entries, against a plain list of all entries."""

import random

import pytest
from tract_context._langgraph_ledger import (
    FANOUT,
    ITEMS,
    PAGE,
    Entry,
    Ledger,
    change_of,
    change_row,
    common_length,
)
from tract_context._langgraph_values import blob_id

KEY = "t"


class Model:
    """Entries as a store keeps them, and what they mean."""

    def __init__(self, seed: int, disorder: float = 0.1) -> None:
        self.disorder = disorder
        self.source = random.Random(seed)
        self.blobs: dict[bytes, bytes] = {}
        self.entries: list[Entry] = []
        self.roots: dict[int, bytes] = {}
        self.checkpoints: dict[tuple[str, str], int] = {}
        self.writes: dict[tuple[str, str], list[int]] = {}
        self.lists: dict[int, list[int]] = {}
        self.reads = 0

    def read(self, ids: list[bytes]) -> list[bytes]:
        self.reads += 1
        return [self.blobs[id_] for id_ in ids]

    def store(self, data: bytes) -> bytes:
        self.blobs[blob_id(data)] = data
        return blob_id(data)

    def opened(self) -> Ledger:
        """A ledger of a new process, which reads the newest entries up to an index."""
        ledger = Ledger(KEY, self.read, thread_id=KEY)
        start = max(self.roots, default=0)
        for number in range(start, len(self.entries)):
            ledger.add(self.entries[number], self.roots.get(number))
        assert ledger.count == len(self.entries)
        return ledger

    def add(self, ledger: Ledger, length: int) -> None:
        number = len(self.entries)
        name = self.source.choice(["", "", "", f"sub:{self.source.randrange(length)}"])
        header: dict[str, object] = {"n": name} if name else {}
        lists = []
        if self.source.random() < 0.4 and self.checkpoints:
            known = list(self.checkpoints)
            id_ = self.source.choice(known if self.source.random() < self.disorder else known[-3:])[1]
            header["w"] = id_
            self.writes.setdefault((name, id_), []).append(number)
        else:
            # Now and then one that is not the newest, or one that replaces another.
            id_ = f"{number if self.source.random() >= self.disorder else self.source.randrange(length):08}"
            header["c"] = id_
            self.checkpoints[(name, id_)] = number
            before = self.source.choice([-1, *list(self.lists)[-3:], *list(self.lists)[-1:]])
            old = self.lists.get(before, [])
            keep = len(old) if self.source.random() < 0.9 else self.source.randrange(len(old) + 1)
            own = [number * ITEMS + place for place in range(self.source.randrange(3))]
            items = [*old[:keep], *own, *(self.source.choice(old) for _ in old[:1])]
            change = ledger.continued("m", before, common_length(old, items), items)
            assert change_of(change_row(change)) == change
            lists = [change]
            self.lists[number] = items
        levels, index = ledger.index()
        entry = Entry(header, blob_id(b"payload %d" % number), lists)
        if index:
            *_, self.roots[number] = map(self.store, index)
        self.entries.append(entry)
        assert ledger.add(entry, levels) == number

    def check(self, ledger: Ledger, length: int) -> None:
        for key in self.source.sample(list(self.checkpoints), min(40, len(self.checkpoints))):
            assert ledger.find(*key) == self.checkpoints[key]
            assert ledger.writes(*key) == self.writes.get(key, [])
        assert ledger.find("", "missing") is None and ledger.find("none", "00000000") is None
        for name in ("", "sub:1", "none"):
            found = [(id_, number) for (other, id_), number in self.checkpoints.items() if other == name]
            assert ledger.newest(name) == max(found, default=None)
        bound = f"{self.source.randrange(length):08}"
        expected = sorted(
            ((id_, name, n) for (name, id_), n in self.checkpoints.items() if id_ < bound), reverse=True
        )
        listed = [(id_, name, n) for name, id_, n in ledger.checkpoints(before=bound)]
        assert sorted(listed, reverse=True) == expected
        assert [at[0] for at in listed] == [at[0] for at in expected]
        for number in self.source.sample(list(self.lists), min(20, len(self.lists))):
            assert ledger.items(number, "m") == self.lists[number]
        assert all(
            ledger.entry(n).payload == self.entries[n].payload for n in range(0, len(self.entries), 61)
        )


@pytest.mark.parametrize("length", [1, PAGE - 1, PAGE, PAGE + 1, 700, PAGE * FANOUT + 1, 5000])
def test_an_index_finds_what_a_list_of_all_entries_has(length: int) -> None:
    model = Model(length)
    ledger = Ledger(KEY, model.read, thread_id=KEY)
    for _ in range(length):
        model.add(ledger, length)
        if model.source.random() < 0.01:
            ledger = model.opened()
    model.check(ledger, length)
    model.check(model.opened(), length)


def test_the_newest_checkpoint_needs_few_reads_in_a_long_thread() -> None:
    model = Model(1, disorder=0)
    ledger = Ledger(KEY, model.read, thread_id=KEY)
    for _ in range(10_000):
        model.add(ledger, 10_000)
    model.reads = 0
    opened = model.opened()
    newest = opened.newest("")
    assert newest is not None and opened.writes("", newest[0]) is not None
    assert all(opened.find(*key) == model.checkpoints[key] for key in list(model.checkpoints)[::2000])
    assert model.reads <= 20
    # The lists of this model are short, so that few entries make one.
    opened.items(max(model.lists), "m")
    assert model.reads <= 40
