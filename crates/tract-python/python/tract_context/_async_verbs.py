"""The async verbs. Generated from `_tract.py` by `tools/async_verbs.py`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tract_context._calls import (
    UNCHECKED,
    Message,
    Record,
    Unchecked,
    commit_call,
    commit_fields,
    decode,
    decode_commit,
    decode_commits,
)
from tract_context._compiled import Compiled
from tract_context._messages import text_of

if TYPE_CHECKING:
    from tract_context._tract import Tract


class AsyncVerbs:
    """The async twins of the verbs."""

    __slots__ = ()

    if TYPE_CHECKING:

        async def _start(self, call: Record) -> Any: ...
        def on(self, branch: str) -> "Tract": ...

    async def afork(self, name: str, source: str = "HEAD") -> "Tract":
        """Create a branch at a revision, and return a handle on it. Nothing is copied.

        Raises `TractError`: `exists`; `UnknownRevisionError`.
        """
        await self.acreate_branch(name, source)
        return self.on(name)

    async def acheckout(self, name: str) -> "Tract":
        """Point the stored `HEAD` to a branch, and return a handle on it.

        Other handles keep their branch.

        Raises `UnknownRevisionError` with a similar name.
        """
        return self.on(decode(await self._start({"checkout": {"name": name}})))

    async def acommit(
        self,
        message: Message,
        *,
        note: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        generation_config: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        priority: str | None = None,
        expect: str | Unchecked | None = UNCHECKED,
    ) -> Record:
        """Record a message. It is durable when this returns.

        A message is a dict with a `role` (`system`, `user`, `assistant`, `tool`) and `content`, with
        `tool_calls` and `tool_call_id` as in OpenAI's API, or a stream operation with an `op`.
        Arguments given as text are kept byte for byte.

        If another writer moves the branch during the call, the message is added after its commits.
        With `expect`, the id of a head or `None` for an empty branch, it is added only there.

        Returns the commit: its `id` and the members of its record.

        Raises `ConflictError` if the branch is not at `expect`; `TractError`: `bad_content`,
        `no_open_call` for a result without a call, `too_large`, and `deferred` if a hook asks a
        person.
        """
        fields = commit_fields(note, metadata, generation_config, tools, priority)
        return decode_commit(await self._start(commit_call([message], fields, expect)))

    async def acommit_all(self, messages: Iterable[Message]) -> list[Record]:
        """Record messages in one durable write: all of them, or none.

        Raises as `commit`.
        """
        return decode_commits(await self._start(commit_call(messages, {}, UNCHECKED)))

    async def ahead(self) -> str | None:
        """Return the id of the branch's head; `None` before the first commit."""
        answer: str | None = decode(await self._start({"head": {}}))
        return answer

    async def aresolve(self, revision: str) -> str:
        """Return the id of the commit that a revision names.

        A revision is a branch, a tag, `HEAD` (this handle's branch) or at least 4 digits of an id, followed
        by any of `~3` (three commits back), `#20` (the 20th message), `@{1}` (before the last move) and
        `@{2026-01-31T09:30:00Z}` (at that time).

        Raises `UnknownRevisionError`, with similar names or the matches of an ambiguous prefix as notes.
        """
        answer: str = decode(await self._start({"resolve": {"revision": revision}}))
        return answer

    async def ashow(self, revision: str) -> Record:
        """Return a commit: its `id` and the members of its record.

        `created_at` is in microseconds since 1970, UTC.

        Raises `UnknownRevisionError`; `CorruptError` if the commit is not stored.
        """
        return decode_commit(await self._start({"show": {"revision": revision}}))

    async def alog(self, revision: str = "HEAD", *, limit: int = 100) -> list[Record]:
        """Return the commits of a history, newest first, at most `limit`.

        Commits that others add during the call are not included.

        Raises `UnknownRevisionError`.
        """
        return decode_commits(await self._start({"log": {"revision": revision, "limit": limit}}))

    async def aapply(self, operations: Iterable[Mapping[str, Any] | str]) -> list[str | None]:
        """Carry out stream operations such as `{"op": "user", "text": "Hi"}`: all of them, or none.

        A `str` is a line of `tract export`. Returns the commit of each operation. All are one operation for
        `undo`. If another writer moves the branch, the operations are applied again on top of its commits.

        Raises `TractError` with the number of the first refused operation; nothing is written then.
        """
        answer: list[str | None] = decode(
            await self._start({"apply": {"lines": [text_of(operation) for operation in operations]}})
        )
        return answer

    async def acompile(self, revision: str | None = None) -> Compiled:
        """Compile the branch, or any revision, to the context that a model sees.

        The result depends only on the head: later commits do not change it.

        Raises `UnknownRevisionError`; `ErasedError` if the context contains erased content; `CorruptError`.
        """
        return Compiled(await self._start({"compile": {"revision": revision}}))

    async def aedit(self, message: str, text: str) -> Record:
        """Replace the text of a message, which may be named by any of its versions.

        Its role and calls are unchanged, and the original can be read by its own id. If others add commits
        during the call, the edit is made on top of them. Returns the new commit.

        Raises `TractError`: `not_visible` if the message is not in the context, `other_kind`,
        `other_calls`.
        """
        return decode_commit(await self._start({"edit": {"message": message, "text": text}}))

    async def aannotate(self, message: str, priority: str) -> Record:
        """Set the priority of a message: `"pinned"`, `"important"`, `"normal"` or `"skip"`.

        A skipped message is kept but left out of the context. Returns the new commit.

        Raises `TractError`: `not_visible` if the message is not in the context.
        """
        return decode_commit(await self._start({"annotate": {"message": message, "priority": priority}}))

    async def acompress(self, first: str, last: str, summary: str) -> Record:
        """Replace a range of messages, both ends included, by one summary.

        Calls are summarized with their results; pinned messages and open calls are kept. Messages that
        others add during the call are kept too: only the named range is replaced. The originals stay in the
        history. Returns the new commit.

        Raises `TractError`: `not_visible`; `nothing_left` if no message of the range may be replaced.
        """
        return decode_commit(
            await self._start({"compress": {"first": first, "last": last, "summary": summary}})
        )

    async def arevert(self, revision: str) -> Record:
        """Revert a commit with a new commit.

        Raises `TractError`: `superseded`, with the commits that have to be reverted first.
        """
        return decode_commit(await self._start({"revert": {"revision": revision}}))

    async def amerge(self, source: str) -> Record:
        """Merge a revision into this branch; `result` is `"nothing"`, `"fast_forward"` or `"merged"`.

        Raises `TractError`: `merge_conflicts` with the changes on both sides; nothing is written then.
        """
        answer: Record = decode(await self._start({"merge": {"from": source}}))
        return answer

    async def acherry_pick(self, revisions: Sequence[str]) -> Record:
        """Copy commits of other branches to this branch, in one move.

        A message with calls includes its results, and a result its call. Returns `before`, `head` and the
        new `commits`.

        Raises `TractError`: `replay_conflicts` with the reason; `nothing_to_pick`. Nothing is written then.
        """
        answer: Record = decode(await self._start({"cherry_pick": {"commits": list(revisions)}}))
        return answer

    async def arebase(self, onto: str) -> Record:
        """Apply the commits that a revision lacks on top of it. Only this branch moves.

        Raises `TractError`: `replay_conflicts`; nothing is written then.
        """
        answer: Record = decode(await self._start({"rebase": {"onto": onto}}))
        return answer

    async def adrop(self, revisions: Sequence[str]) -> Record:
        """Drop commits from this branch: a message with its edits, and calls with their results.

        Raises `TractError`: `not_in_range`, `replay_conflicts`, `empty_branch`.
        """
        answer: Record = decode(await self._start({"drop": {"commits": list(revisions)}}))
        return answer

    async def areset(self, to: str) -> str | None:
        """Move this branch to any commit, and return the old head. `undo` reverts it.

        Raises `UnknownRevisionError`.
        """
        answer: str | None = decode(await self._start({"reset": {"to": to}}))
        return answer

    async def aundo(self) -> Record:
        """Revert the last operation on this branch: refs move back, commits are kept.

        Returns `what` was undone, and the `moves` of refs.

        Raises `TractError`: `nothing_to_undo`; `ConflictError` if another operation has moved one of the
        refs since. Nothing moves then.
        """
        answer: Record = decode(await self._start({"undo": {}}))
        return answer

    async def aredo(self) -> Record:
        """Revert the last undo. After another operation there is nothing to redo.

        Raises as `undo`.
        """
        answer: Record = decode(await self._start({"redo": {}}))
        return answer

    async def adiff(self, before: str, after: str) -> Record:
        """Compare the contexts of two revisions: `messages`, `tools`, and the `tokens` of both.

        Raises `UnknownRevisionError`.
        """
        answer: Record = decode(await self._start({"diff": {"before": before, "after": after}}))
        return answer

    async def ablame(self, revision: str = "HEAD") -> list[Record]:
        """Return the commits that added and changed each message of a context.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(await self._start({"blame": {"revision": revision}}))
        return answer

    async def asearch(
        self, query: str, *, heads: Sequence[str] = (), limit: int = 20, hidden: bool = False
    ) -> list[Record]:
        """Find the messages that best match some words, best first.

        Searches the contexts of `heads` (default: this branch); with `hidden`, summarized and skipped
        messages too. An index of the words is stored and updated on the way.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(
            await self._start(
                {"search": {"query": query, "heads": list(heads), "limit": limit, "hidden": hidden}}
            )
        )
        return answer

    async def agrep(
        self,
        pattern: str,
        *,
        heads: Sequence[str] = (),
        regex: bool = True,
        ignore_case: bool = False,
        word: bool = False,
    ) -> list[Record]:
        """Find the lines of messages and tool definitions that match a pattern.

        `regex` is the syntax of Rust's `regex` crate; without it, the pattern is plain text. Line numbers
        start at 1.

        Raises `TractError` for an invalid pattern; `UnknownRevisionError`.
        """
        answer: list[Record] = decode(
            await self._start(
                {
                    "grep": {
                        "pattern": pattern,
                        "heads": list(heads),
                        "regex": regex,
                        "ignore_case": ignore_case,
                        "word": word,
                    }
                }
            )
        )
        return answer

    async def ausage(self) -> list[Record]:
        """Return the tokens of each recorded answer of a model, by branch and model."""
        answer: list[Record] = decode(await self._start({"usage": {}}))
        return answer

    async def abranches(self) -> list[Record]:
        """Return the branches: `name`, `head` and whether `HEAD` points to it, sorted by name."""
        answer: list[Record] = decode(await self._start({"branches": {}}))
        return answer

    async def acreate_branch(self, name: str, source: str = "HEAD") -> str:
        """Create a branch that begins at a revision; returns the commit. Nothing is copied.

        Raises `TractError`: `exists` if there is a branch of this name; `UnknownRevisionError`.
        """
        answer: str = decode(await self._start({"create_branch": {"name": name, "from": source}}))
        return answer

    async def arename_branch(self, name: str, to: str) -> str | None:
        """Rename a branch; returns its head.

        Raises `UnknownRevisionError`; `TractError`: `exists`.
        """
        answer: str | None = decode(await self._start({"rename_branch": {"name": name, "to": to}}))
        return answer

    async def adelete_branch(self, name: str) -> str:
        """Delete a branch; its commits are kept. Returns its last head.

        Raises `UnknownRevisionError`; `TractError`: `checked_out` when `HEAD` points to it.
        """
        answer: str = decode(await self._start({"delete_branch": {"name": name}}))
        return answer

    async def atags(self) -> list[Record]:
        """Return the tags: `name` and `commit`, sorted by name."""
        answer: list[Record] = decode(await self._start({"tags": {}}))
        return answer

    async def acreate_tag(self, name: str, revision: str = "HEAD") -> str:
        """Create a tag, which never moves; returns its commit.

        Raises `TractError`: `exists`; `UnknownRevisionError`.
        """
        answer: str = decode(await self._start({"create_tag": {"name": name, "revision": revision}}))
        return answer

    async def adelete_tags(self, names: Sequence[str]) -> list[str]:
        """Delete all of these tags, or none; returns their commits.

        Raises `UnknownRevisionError` with the missing tag.
        """
        answer: list[str] = decode(await self._start({"delete_tags": {"names": list(names)}}))
        return answer

    async def aset_tools(self, tools: Iterable[Mapping[str, Any] | str]) -> Record:
        """Set the active tools from here on, in any provider's format. An empty list means no tools.

        A `str` is JSON text and is kept byte for byte; a dict is written as compact JSON.

        Raises `TractError`: `invalid_json`, `too_large`, `no_name`, `duplicate_name`.
        """
        return decode_commit(await self._start({"set_tools": {"tools": [text_of(tool) for tool in tools]}}))

    async def atools(self, revision: str | None = None) -> list[Record]:
        """Return the active tools of the branch, or at a revision: `name`, `id`, and `schema` as given.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(await self._start({"tools_at": {"revision": revision}}))
        return answer

    async def aown_tools(self, revision: str) -> list[Record]:
        """Return the tools that a commit reports as its own.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(await self._start({"own_tools": {"revision": revision}}))
        return answer

    async def atool_history(self, name: str) -> list[Record]:
        """Return all versions of a tool, in the order of their first use."""
        answer: list[Record] = decode(await self._start({"tool_history": {"name": name}}))
        return answer

    async def atool_diff(self, before: str, after: str) -> Record:
        """Compare the active tools at two revisions, and their schemas by structure.

        Raises `UnknownRevisionError`.
        """
        answer: Record = decode(await self._start({"tool_diff": {"before": before, "after": after}}))
        return answer

    async def aopen_calls(self) -> list[Record]:
        """Return the unanswered calls of the branch: `id` and `name`."""
        answer: list[Record] = decode(await self._start({"open_calls": {}}))
        return answer

    async def apending(self) -> list[Record]:
        """Return the pending approvals of all branches, oldest first."""
        answer: list[Record] = decode(await self._start({"pending": {}}))
        return answer

    async def aapprove(self, pending_id: str) -> Record:
        """Carry out a pending operation on the current head of its branch.

        Raises `TractError`: `unknown_pending`, `already_decided`; the operation's own error if it is no
        longer possible.
        """
        answer: Record = decode(await self._start({"approve": {"id": pending_id}}))
        return answer

    async def areject(self, pending_id: str, reason: str) -> Record:
        """Reject a pending operation. An open call is answered by an error with the reason.

        Raises as `approve`.
        """
        answer: Record = decode(await self._start({"reject": {"id": pending_id, "reason": reason}}))
        return answer

    async def aedit_pending(self, pending_id: str, text: str) -> Record:
        """Carry out a pending operation with another text; the original is kept.

        Raises as `approve`.
        """
        answer: Record = decode(await self._start({"edit_pending": {"id": pending_id, "text": text}}))
        return answer

    async def aremotes(self) -> list[Record]:
        """Return the remotes; passwords in their URLs are hidden."""
        answer: list[Record] = decode(await self._start({"remotes": {}}))
        return answer

    async def aadd_remote(self, name: str, url: str, *, repo: str | None = None) -> None:
        """Add a remote: the URL of a store, or `bundle:PATH`.

        Raises `TractError`: `remote_exists`, `no_such_store`, `bad_name`.
        """
        await self._start({"add_remote": {"name": name, "url": url, "repo": repo}})

    async def aremove_remote(self, name: str) -> None:
        """Remove a remote, with the remote-tracking refs of its branches.

        Raises `TractError`: `unknown_remote`.
        """
        await self._start({"remove_remote": {"name": name}})

    async def apush(self, remote: str, branches: Sequence[str] | None = None) -> Record:
        """Push branches (default: all) to a remote; a missing store is created.

        A remote branch only moves forward. One that has other commits is left as it is, and its ref is
        reported with the status `diverged`.

        Raises `TractError`: `unknown_remote`; errors of the remote's store.
        """
        answer: Record = decode(
            await self._start(
                {"push": {"remote": remote, "branches": None if branches is None else list(branches)}}
            )
        )
        return answer

    async def afetch(self, remote: str) -> Record:
        """Fetch the branches of a remote to `remotes/NAME/BRANCH`, and its tags. No branch moves.

        Raises `TractError`: `unknown_remote`; errors of the remote's store.
        """
        answer: Record = decode(
            await self._start({"fetch": {"remote": remote, "pull": None, "pull_all": False}})
        )
        return answer

    async def apull(self, remote: str, branches: Sequence[str] | None = None) -> Record:
        """Fetch, and move branches (default: all) forward to those of the remote.

        A branch that has other commits is left as it is, and reported with the status `diverged`.

        Raises as `fetch`.
        """
        answer: Record = decode(
            await self._start(
                {
                    "fetch": {
                        "remote": remote,
                        "pull": None if branches is None else list(branches),
                        "pull_all": branches is None,
                    }
                }
            )
        )
        return answer

    async def acreate_bundle(self, path: str | os.PathLike[str]) -> Record:
        """Write all branches and tags to a new file, for a place where no store can be reached.

        Raises `TractError` if the file exists or cannot be written.
        """
        answer: Record = decode(await self._start({"create_bundle": {"path": os.fspath(path)}}))
        return answer

    async def aapply_bundle(self, path: str | os.PathLike[str]) -> Record:
        """Bring the history of a bundle into this repository. Branches only move forward.

        Raises `TractError` if the file is not a complete bundle; nothing is written then.
        """
        answer: Record = decode(await self._start({"apply_bundle": {"path": os.fspath(path)}}))
        return answer

    async def aimport_conversation(
        self, conversation: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str, *, name: str
    ) -> Record:
        """Import a conversation in a provider's form: a request, its list of messages, or a recording.

        Its branch is named by its own `id`, else `name`. Importing a longer version extends the branch.

        Raises `TractError`: `invalid_json`, `unknown_format`, `bad_recording`, with the path in the text.
        """
        answer: Record = decode(
            await self._start({"import_text": {"text": text_of(conversation), "name": name}})
        )
        return answer

    async def averify(self) -> Record:
        """Verify all hashes and links: `clean`, numbers of objects, and `damage`.

        Damage of single objects is reported, not raised.
        """
        answer: Record = decode(await self._start({"verify": {}}))
        return answer

    async def aerase(
        self, messages: Sequence[str], reason: str, *, everywhere: bool = False, ban: bool = False
    ) -> Record:
        """Permanently delete the bytes of messages, with all their versions. `undo` cannot revert it.

        The messages read `[erased: REASON]`. Bytes that other messages share stay unless `everywhere`; with
        `ban`, storing the same bytes again is refused.

        Raises `TractError`: `unsupported` if the store cannot erase, `bad_erase`; `UnknownRevisionError`.
        """
        answer: Record = decode(
            await self._start(
                {"erase": {"targets": list(messages), "reason": reason, "everywhere": everywhere, "ban": ban}}
            )
        )
        return answer
