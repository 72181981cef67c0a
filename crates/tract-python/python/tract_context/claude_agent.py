"""Session transcripts of the Claude Agent SDK in a store of tract.

>>> from tract_context.claude_agent import SessionStore
>>> store = SessionStore("memory:")

Give it to the SDK: `ClaudeAgentOptions(session_store=store)`. A session is the branch
`claude/PROJECT/SESSION`, and that of a subagent has its subpath behind it. The lines become the messages
that `tract import` makes of them, so `tract cat`, `search`, `usage`, `diff` and all other verbs work on
them; lines that no model saw are notes.
"""

import json
import os
import time
from collections import OrderedDict
from typing import Any

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from tract_context._adapter import Adapter, Write, branch_name, branch_part, document, documents, items
from tract_context._calls import Record
from tract_context._errors import ConflictError
from tract_context._tract import Tract

_FORMAT = "claude_code"
_PREFIX = "claude/"
# The uuids of this many sessions are cached; those of others are read again.
_CACHED = 64


class SessionStore(Adapter):
    """A store of session transcripts.

    An entry with a `uuid` that the session has is left out, so a batch may be sent again. Entries, summary
    and times are written together, or not at all; concurrent appends to one session follow each other.

    `delete` deletes the branches. Their entries stay unreachable in the store until `tract gc` deletes them.

    Changes made with tract (edits, summaries) change what `compile` shows. `load` returns entries as they
    were appended, except for erased ones, which read `[erased]`.
    """

    def __init__(self, store: str | os.PathLike[str] | Tract) -> None:
        """Take the URL of a store (`sqlite:agent.db`), a path, or an open `Tract`, which is not closed."""
        super().__init__(store)
        # The head of a branch, and the uuids up to there.
        self._uuids: OrderedDict[str, tuple[str, set[str]]] = OrderedDict()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries to a transcript: all of them, or none. Known uuids are left out."""
        tract = self.tract
        if not entries:
            return
        branch = _branch(key)
        name = f"imports/{branch}"
        while True:
            stored_id, stored = await document(tract, name)
            head = await tract.on(branch).ahead()
            known = await self._known(branch, head)
            added: set[str] = set()
            new_entries: list[SessionStoreEntry] = []
            for entry in entries:
                uuid = entry.get("uuid")
                if isinstance(uuid, str):
                    if uuid in known or uuid in added:
                        continue
                    added.add(uuid)
                new_entries.append(entry)
            if not new_entries:
                return
            write = Write("append")
            write.expect(branch, head)
            for entry in new_entries:
                write.item(branch, _FORMAT, entry, _facts(entry))
            value = _folded(key, stored, new_entries)
            write.document(name, value, expect=stored_id)
            try:
                answer = await write.apply(tract)
            except ConflictError:
                continue
            known.update(added)
            self._remember(branch, answer["items"][-1][-1], known)
            return

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries in the order of their appends; `None` for a key that was never written."""
        head = await self.tract.on(_branch(key)).ahead()
        if head is None:
            return None
        entries = await items(self.tract, head, _FORMAT)
        return [
            _erased(item["facts"]) if item["text"] is None else json.loads(item["text"]) for item in entries
        ]

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project; `mtime` is the time of the last append in milliseconds."""
        return [
            {"session_id": value["key"]["session_id"], "mtime": value["mtime"]}
            for _, _, value in await self._transcripts(project_key)
            if "subpath" not in value["key"]
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions, as folded by the SDK at each append."""
        return [
            {"session_id": value["key"]["session_id"], "mtime": value["mtime"], "data": value["summary"]}
            for _, _, value in await self._transcripts(project_key)
            if "subpath" not in value["key"]
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; without `subpath`, those of the session's subagents too.

        Entries that others append at the same time are deleted too, or begin a new transcript.
        """
        while True:
            write = Write("delete")
            if key.get("subpath"):
                name = f"imports/{_branch(key)}"
                stored_id, stored = await document(self.tract, name)
                transcripts = [] if stored_id is None or stored is None else [(name, stored_id, stored)]
            else:
                transcripts = await self._transcripts(key["project_key"], key["session_id"])
            if not transcripts:
                return
            for name, stored_id, _ in transcripts:
                write.move(name.removeprefix("imports/"), to=None)
                write.document(name, None, expect=stored_id)
            try:
                await write.apply(self.tract)
            except ConflictError:
                continue
            return

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session, such as those of its subagents."""
        transcripts = await self._transcripts(key["project_key"], key["session_id"])
        return [value["key"]["subpath"] for _, _, value in transcripts if "subpath" in value["key"]]

    async def _transcripts(
        self, project_key: str, session_id: str | None = None
    ) -> list[tuple[str, str, Record]]:
        prefix = f"imports/{_PREFIX}{branch_part(project_key)}/"
        if session_id is not None:
            prefix += branch_part(session_id)
        transcripts = await documents(self.tract, prefix)
        return [entry for entry in transcripts if session_id in (None, entry[2]["key"]["session_id"])]

    async def _known(self, branch: str, head: str | None) -> set[str]:
        """Return the uuids of a transcript."""
        if head is None:
            return set()
        until, known = self._uuids.get(branch, (None, set[str]()))
        if until != head:
            # Another writer appended, or moved the branch back.
            entries = await items(self.tract, head, _FORMAT, texts=False)
            known = {item["facts"]["uuid"] for item in entries if "uuid" in item["facts"]}
            self._remember(branch, head, known)
        return known

    def _remember(self, branch: str, head: str, known: set[str]) -> None:
        self._uuids[branch] = (head, known)
        self._uuids.move_to_end(branch)
        if len(self._uuids) > _CACHED:
            self._uuids.popitem(last=False)


def _branch(key: SessionKey) -> str:
    branch = f"{_PREFIX}{branch_part(key['project_key'])}/{branch_part(key['session_id'])}"
    subpath = key.get("subpath")
    return f"{branch}/{branch_name(subpath)}" if subpath else branch


def _folded(key: SessionKey, stored: Record | None, new_entries: list[SessionStoreEntry]) -> Record:
    """Return the document of a transcript after an append."""
    now = time.time_ns() // 1_000_000
    value: Record = {"version": 1, "key": dict(key), "mtime": now}
    if key.get("subpath"):
        return value
    value["key"].pop("subpath", None)
    previous: SessionSummaryEntry | None = None
    if stored is not None:
        value["mtime"] = max(now, stored["mtime"])
        previous = {
            "session_id": key["session_id"],
            "mtime": stored["mtime"],
            "data": stored["summary"],
        }
    value["summary"] = fold_session_summary(previous, key, new_entries)["data"]
    return value


def _facts(entry: SessionStoreEntry) -> Record:
    """Return the members of an entry that are needed without its text."""
    names = ("uuid", "parentUuid", "sessionId", "type", "timestamp")
    return {name: value for name, value in entry.items() if name in names and isinstance(value, str)}


def _erased(facts: Record) -> Any:
    """Return an entry in place of an erased one, so that the chain of parents stays whole."""
    entry = {"parentUuid": None, **facts}
    if facts.get("type") in ("user", "assistant"):
        entry["message"] = {"role": facts["type"], "content": "[erased]"}
    return entry
