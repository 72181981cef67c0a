"""Conversations of pydantic-ai in a store of tract.

>>> from tract_context.pydantic_ai import ConversationStore
>>> store = ConversationStore("memory:")

A conversation is the branch `pydantic-ai/ID`, and its entries are the messages of that branch, so
`tract cat`, `search`, `diff`, `compile` and all other verbs work on it. A fork is a branch of tract. The
branches that a conversation left are the branches `pydantic-ai/ID+1`, `+2` and so on.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord
from pydantic_ai.conversation_store import ConversationStore as BaseConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)

from tract_context._adapter import Adapter, Write, branch_part, document, documents, items
from tract_context._calls import Record
from tract_context._errors import ConflictError
from tract_context._tract import Tract

_FORMAT = "pydantic_ai"
_PREFIX = "pydantic-ai/"
_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)
# The commits of this many entries are cached; others are found by a search.
_CACHED = 100_000


class ConversationStore(Adapter, BaseConversationStore):
    """A durable store of conversations, each message stored once.

    A write stores entries and record together, or nothing; the record's revision is checked by
    compare-and-swap, so one of two concurrent writers gets `ConversationConflict`.

    `delete` deletes the record and the branches. Entries that no other conversation shares stay
    unreachable in the store until `tract gc` deletes them; `Tract.erase` deletes them for good.

    Changes made with tract (edits, summaries) change what `compile` shows. The framework loads messages as
    they were saved, except for erased ones, which read `[erased]`.
    """

    def __init__(self, store: str | os.PathLike[str] | Tract) -> None:
        """Take the URL of a store (`sqlite:agent.db`), a path, or an open `Tract`, which is not closed."""
        super().__init__(store)
        # The last commit of each known entry.
        self._ends: OrderedDict[str, str] = OrderedDict()

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; `None` if the store does not have it."""
        _, value = await document(self.tract, _document(conversation_id))
        return None if value is None else self._record(value)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, newest `updated_at` first, at most `limit`; with `scope`, only its own.

        Reads all records, whatever the limit.
        """
        stored = await documents(self.tract, f"imports/{_PREFIX}")
        records = [self._record(value) for _, _, value in stored]
        records = [record for record in records if scope is None or record.scope == scope]
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, in one atomic write.

        Entries that continue the stored history are appended to the branch, after commits that tract added.
        Entries that continue an earlier entry move the branch there. The history that it leaves is kept as a
        branch if the record lists it.

        Raises `ConversationConflict` if the stored revision is not `expected_revision`, or the store does not
        have the entry that the record or the first new entry points to.
        """
        conversation_id = record.conversation_id
        tract = self.tract
        branch, name = _branch(conversation_id), _document(conversation_id)
        stored_id, stored = await document(tract, name)
        if (stored["record"]["revision"] if stored else None) != expected_revision:
            raise ConversationConflict(conversation_id)
        _check_chain(record, new_entries)
        parent = new_entries[0].parent_id if new_entries else record.head_id
        write = Write("save")
        try:
            base = None if parent is None else await self._end_of(parent)
            left = await self._leave(write, branch, record, stored)
        except KeyError:
            raise ConversationConflict(conversation_id) from None
        instructions = None
        if stored is not None and stored["record"]["head_id"] == parent:
            instructions = stored["instructions"]
        else:
            write.move(branch, to=base)
        for entry in new_entries:
            facts: Record = {"entry": entry.id, "parent": entry.parent_id, "kind": entry.message.kind}
            text = ModelMessagesTypeAdapter.dump_json([entry.message])[1:-1].decode()
            write.item(branch, _FORMAT, text, facts, instructions)
            instructions = getattr(entry.message, "instructions", None) or instructions
        value: Record = {
            "version": 1,
            "record": _RECORDS.dump_python(record, mode="json"),
            "head": base,
            "left": left,
            "instructions": instructions,
        }
        write.document(name, value, expect=stored_id, head_of=branch if new_entries else None)
        try:
            answer = await write.apply(tract)
        except ConflictError:
            raise ConversationConflict(conversation_id) from None
        for entry, commits in zip(new_entries, answer["items"], strict=True):
            self._remember(entry.id, commits[-1])

    async def _leave(
        self, write: Write, branch: str, record: ConversationRecord, stored: Record | None
    ) -> list[Record]:
        """Keep the branches that the record lists, and delete the branches of others."""
        known = {entry["entry"]: entry for entry in stored["left"]} if stored else {}
        number = max((entry["number"] for entry in known.values()), default=0)
        left: list[Record] = []
        for tip in record.branches:
            if tip in known:
                left.append(known.pop(tip))
                continue
            number += 1
            commit = await self._end_of(tip)
            write.move(f"{branch}+{number}", to=commit)
            left.append({"entry": tip, "commit": commit, "number": number})
        for entry in known.values():
            write.move(f"{branch}+{entry['number']}", to=None)
        return left

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record and its branches. Its entries are kept until `tract gc`.

        Raises `ConversationConflict` if no record with `expected_revision` is stored.
        """
        branch, name = _branch(conversation_id), _document(conversation_id)
        stored_id, stored = await document(self.tract, name)
        if stored is None or stored["record"]["revision"] != expected_revision:
            raise ConversationConflict(conversation_id)
        write = Write("delete")
        write.move(branch, to=None)
        for entry in stored["left"]:
            write.move(f"{branch}+{entry['number']}", to=None)
        write.document(name, None, expect=stored_id)
        try:
            await write.apply(self.tract)
        except ConflictError:
            raise ConversationConflict(conversation_id) from None

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return the entry with this id.

        One that this object has neither read nor written is searched in all conversations.

        Raises `KeyError` if no conversation has it.
        """
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, oldest first, or only the last `limit`; one walk.

        Raises `KeyError` if no conversation has the entry.
        """
        if head_id is None or limit == 0:
            return []
        head = await self._end_of(head_id)
        stored = await items(self.tract, head, _FORMAT, limit=limit)
        texts = ",".join(item["text"] for item in stored if item["text"] is not None)
        messages = iter(ModelMessagesTypeAdapter.validate_json(f"[{texts}]"))
        entries = []
        for item in stored:
            facts = item["facts"]
            self._remember(facts["entry"], item["end"])
            message = _erased(facts["kind"]) if item["text"] is None else next(messages)
            entries.append(ConversationEntry(id=facts["entry"], parent_id=facts["parent"], message=message))
        return entries

    def _record(self, value: Record) -> ConversationRecord:
        record = _RECORDS.validate_python(value["record"])
        if record.head_id is not None:
            self._remember(record.head_id, value["head"])
        for entry in value["left"]:
            self._remember(entry["entry"], entry["commit"])
        return record

    def _remember(self, entry_id: str, end: str) -> None:
        self._ends[entry_id] = end
        self._ends.move_to_end(entry_id)
        if len(self._ends) > _CACHED:
            self._ends.popitem(last=False)

    async def _end_of(self, entry_id: str) -> str:
        """Return the last commit of an entry. Raises `KeyError` if no conversation has it."""
        if entry_id in self._ends:
            return self._ends[entry_id]
        searched: set[str] = set()
        for _, _, value in await documents(self.tract, f"imports/{_PREFIX}"):
            for head in [value["head"], *(entry["commit"] for entry in value["left"])]:
                if head is None or head in searched:
                    continue
                searched.add(head)
                for item in await items(self.tract, head, _FORMAT, texts=False):
                    if item["facts"]["entry"] == entry_id:
                        end: str = item["end"]
                        self._remember(entry_id, end)
                        return end
        raise KeyError(entry_id)


def _branch(conversation_id: str) -> str:
    return f"{_PREFIX}{branch_part(conversation_id)}"


def _document(conversation_id: str) -> str:
    return f"imports/{_branch(conversation_id)}"


def _check_chain(record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> None:
    ends = [entry.id for entry in new_entries]
    if new_entries and record.head_id != ends[-1]:
        raise ValueError("the record's head is not the last new entry")
    if [entry.parent_id for entry in new_entries[1:]] != ends[:-1]:
        raise ValueError("each new entry has to point to the one before it")


def _erased(kind: Any) -> ModelMessage:
    if kind == "response":
        return ModelResponse(parts=[TextPart(content="[erased]")])
    return ModelRequest(parts=[UserPromptPart(content="[erased]")])
