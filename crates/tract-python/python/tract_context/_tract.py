"""Handles on a repository: every verb, for threads and for asyncio."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tract_context import _native
from tract_context._async_verbs import AsyncVerbs
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
from tract_context._errors import TractError
from tract_context._messages import dumps, text_of
from tract_context._run import run_async


def open(
    url: str,
    *,
    create: bool = True,
    repo: str | None = None,
    branch: str | None = None,
    who: str | None = None,
) -> "Tract":
    """Open the store of a URL, and create it if it is missing.

    URLs are `memory:`, `sqlite:PATH`, `redb:PATH` and `postgres://USER@HOST/DATABASE`. A store can
    contain many repositories; `repo` is the name of one (default: `default`). `branch` need not exist
    (default: the one that `HEAD` names). `who` is the author in the ref log.

    Several processes and threads may open the same store. A handle does not survive `fork`: open the
    store in the child.

    Raises `TractError`: `no_such_store`; with `create=False`, `no_store` or `no_repo`;
    `BusyError` if another process locks the store; `CorruptError`.
    """
    operation = _native.open(url, create=create, repo=repo, branch=branch, who=who)
    return Tract(operation.wait())


async def aopen(
    url: str,
    *,
    create: bool = True,
    repo: str | None = None,
    branch: str | None = None,
    who: str | None = None,
) -> "Tract":
    """Async `open`."""
    operation = _native.open(url, create=create, repo=repo, branch=branch, who=who)
    return Tract(await run_async(operation))


class Tract(AsyncVerbs):
    """A repository and one of its branches; `open` returns one.

    Each verb exists twice: `commit` waits with the GIL released, and `acommit` is awaited. Threads
    and tasks may share a handle. `Ctrl-C` cancels a waiting call; a write that has reached the store
    is completed there. The branch of a handle never changes; `on` and `fork` return another handle.

    A handle is a context manager that closes the store. After `close`, every call raises
    `ClosedError`; in a forked child it raises `ForkedError`.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: _native.Handle) -> None:
        """Wrap the native handle; `open` does this."""
        if not isinstance(handle, _native.Handle):
            raise TypeError("use tract_context.open(url)")
        self._handle = handle

    def __repr__(self) -> str:
        """Return the branch, or the reason why the handle is unusable."""
        try:
            return f"<Tract on {self._handle.branch!r}>"
        except TractError as error:
            return f"<Tract: {error}>"

    def __reduce__(self) -> str:
        """Refuse to be pickled."""
        raise TypeError("a Tract cannot be pickled: it holds an open store; pass the URL and open it there")

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the handle."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        await self.aclose()

    def close(self) -> None:
        """Close the store for all handles that share it. A second call does nothing.

        All writes that returned are durable already.
        """
        operation = self._handle.close()
        if operation is not None:
            operation.wait()

    async def aclose(self) -> None:
        """Async `close`."""
        operation = self._handle.close()
        if operation is not None:
            await run_async(operation)

    def _wait(self, call: Record) -> Any:
        return self._handle.call(dumps(call)).wait()

    async def _start(self, call: Record) -> Any:
        return await run_async(self._handle.call(dumps(call)))

    @property
    def branch(self) -> str:
        """The name of this handle's branch."""
        return self._handle.branch

    def on(self, branch: str) -> "Tract":
        """Return a handle on another branch. It need not exist: the first commit creates it.

        Raises `TractError`: `bad_name`.
        """
        return Tract(self._handle.on(branch))

    def one_operation(self) -> "Tract":
        """Return a handle whose writes are one operation, so that one `undo` reverts all of them."""
        return Tract(self._handle.one_operation())

    def with_tool_result_hook(
        self, hook: Callable[[Record], str | tuple[str, str]], *, name: str = "python"
    ) -> "Tract":
        """Return a handle that asks a callable about each tool result before it is committed.

        The callable gets a dict with `branch`, `call_id`, `tool_name`, `text`, `is_error` and
        `token_count` (tokens), and returns `"pass"`, `"approve"`, `("edit", text)`,
        `("reject", reason)` or `("defer", reason)`, which makes it a pending approval. If it raises,
        the result is rejected. It may run on another thread; it may read the store but not write.
        """

        def ask(event: str) -> tuple[str, str]:
            answer = hook(json.loads(event))
            action, text = (answer, "") if isinstance(answer, str) else answer
            if action not in ("pass", "approve", "edit", "reject", "defer"):
                raise ValueError(f"the hook returned {action!r}")
            return action, text

        return Tract(self._handle.on_tool_result(name, ask))

    def fork(self, name: str, source: str = "HEAD") -> "Tract":
        """Create a branch at a revision, and return a handle on it. Nothing is copied.

        Raises `TractError`: `exists`; `UnknownRevisionError`.
        """
        self.create_branch(name, source)
        return self.on(name)

    def checkout(self, name: str) -> "Tract":
        """Point the stored `HEAD` to a branch, and return a handle on it.

        Other handles keep their branch.

        Raises `UnknownRevisionError` with a similar name.
        """
        return self.on(decode(self._wait({"checkout": {"name": name}})))

    def commit(
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
        return decode_commit(self._wait(commit_call([message], fields, expect)))

    def commit_all(self, messages: Iterable[Message]) -> list[Record]:
        """Record messages in one durable write: all of them, or none.

        Raises as `commit`.
        """
        return decode_commits(self._wait(commit_call(messages, {}, UNCHECKED)))

    def head(self) -> str | None:
        """Return the id of the branch's head; `None` before the first commit."""
        answer: str | None = decode(self._wait({"head": {}}))
        return answer

    def resolve(self, revision: str) -> str:
        """Return the id of the commit that a revision names.

        A revision is a branch, a tag, `HEAD` (this handle's branch) or at least 4 digits of an id, followed
        by any of `~3` (three commits back), `#20` (the 20th message), `@{1}` (before the last move) and
        `@{2026-01-31T09:30:00Z}` (at that time).

        Raises `UnknownRevisionError`, with similar names or the matches of an ambiguous prefix as notes.
        """
        answer: str = decode(self._wait({"resolve": {"revision": revision}}))
        return answer

    def show(self, revision: str) -> Record:
        """Return a commit: its `id` and the members of its record.

        `created_at` is in microseconds since 1970, UTC.

        Raises `UnknownRevisionError`; `CorruptError` if the commit is not stored.
        """
        return decode_commit(self._wait({"show": {"revision": revision}}))

    def log(self, revision: str = "HEAD", *, limit: int = 100) -> list[Record]:
        """Return the commits of a history, newest first, at most `limit`.

        Commits that others add during the call are not included.

        Raises `UnknownRevisionError`.
        """
        return decode_commits(self._wait({"log": {"revision": revision, "limit": limit}}))

    def apply(self, operations: Iterable[Mapping[str, Any] | str]) -> list[str | None]:
        """Carry out stream operations such as `{"op": "user", "text": "Hi"}`: all of them, or none.

        A `str` is a line of `tract export`. Returns the commit of each operation. All are one operation for
        `undo`. If another writer moves the branch, the operations are applied again on top of its commits.

        Raises `TractError` with the number of the first refused operation; nothing is written then.
        """
        answer: list[str | None] = decode(
            self._wait({"apply": {"lines": [text_of(operation) for operation in operations]}})
        )
        return answer

    def compile(self, revision: str | None = None) -> Compiled:
        """Compile the branch, or any revision, to the context that a model sees.

        The result depends only on the head: later commits do not change it.

        Raises `UnknownRevisionError`; `ErasedError` if the context contains erased content; `CorruptError`.
        """
        return Compiled(self._wait({"compile": {"revision": revision}}))

    def edit(self, message: str, text: str) -> Record:
        """Replace the text of a message, which may be named by any of its versions.

        Its role and calls are unchanged, and the original can be read by its own id. If others add commits
        during the call, the edit is made on top of them. Returns the new commit.

        Raises `TractError`: `not_visible` if the message is not in the context, `other_kind`,
        `other_calls`.
        """
        return decode_commit(self._wait({"edit": {"message": message, "text": text}}))

    def annotate(self, message: str, priority: str) -> Record:
        """Set the priority of a message: `"pinned"`, `"important"`, `"normal"` or `"skip"`.

        A skipped message is kept but left out of the context. Returns the new commit.

        Raises `TractError`: `not_visible` if the message is not in the context.
        """
        return decode_commit(self._wait({"annotate": {"message": message, "priority": priority}}))

    def compress(self, first: str, last: str, summary: str) -> Record:
        """Replace a range of messages, both ends included, by one summary.

        Calls are summarized with their results; pinned messages and open calls are kept. Messages that
        others add during the call are kept too: only the named range is replaced. The originals stay in the
        history. Returns the new commit.

        Raises `TractError`: `not_visible`; `nothing_left` if no message of the range may be replaced.
        """
        return decode_commit(self._wait({"compress": {"first": first, "last": last, "summary": summary}}))

    def revert(self, revision: str) -> Record:
        """Revert a commit with a new commit.

        Raises `TractError`: `superseded`, with the commits that have to be reverted first.
        """
        return decode_commit(self._wait({"revert": {"revision": revision}}))

    def merge(self, source: str) -> Record:
        """Merge a revision into this branch; `result` is `"nothing"`, `"fast_forward"` or `"merged"`.

        Raises `TractError`: `merge_conflicts` with the changes on both sides; nothing is written then.
        """
        answer: Record = decode(self._wait({"merge": {"from": source}}))
        return answer

    def cherry_pick(self, revisions: Sequence[str]) -> Record:
        """Copy commits of other branches to this branch, in one move.

        A message with calls includes its results, and a result its call. Returns `before`, `head` and the
        new `commits`.

        Raises `TractError`: `replay_conflicts` with the reason; `nothing_to_pick`. Nothing is written then.
        """
        answer: Record = decode(self._wait({"cherry_pick": {"commits": list(revisions)}}))
        return answer

    def rebase(self, onto: str) -> Record:
        """Apply the commits that a revision lacks on top of it. Only this branch moves.

        Raises `TractError`: `replay_conflicts`; nothing is written then.
        """
        answer: Record = decode(self._wait({"rebase": {"onto": onto}}))
        return answer

    def drop(self, revisions: Sequence[str]) -> Record:
        """Drop commits from this branch: a message with its edits, and calls with their results.

        Raises `TractError`: `not_in_range`, `replay_conflicts`, `empty_branch`.
        """
        answer: Record = decode(self._wait({"drop": {"commits": list(revisions)}}))
        return answer

    def reset(self, to: str) -> str | None:
        """Move this branch to any commit, and return the old head. `undo` reverts it.

        Raises `UnknownRevisionError`.
        """
        answer: str | None = decode(self._wait({"reset": {"to": to}}))
        return answer

    def undo(self) -> Record:
        """Revert the last operation on this branch: refs move back, commits are kept.

        Returns `what` was undone, and the `moves` of refs.

        Raises `TractError`: `nothing_to_undo`; `ConflictError` if another operation has moved one of the
        refs since. Nothing moves then.
        """
        answer: Record = decode(self._wait({"undo": {}}))
        return answer

    def redo(self) -> Record:
        """Revert the last undo. After another operation there is nothing to redo.

        Raises as `undo`.
        """
        answer: Record = decode(self._wait({"redo": {}}))
        return answer

    def diff(self, before: str, after: str) -> Record:
        """Compare the contexts of two revisions: `messages`, `tools`, and the `tokens` of both.

        Raises `UnknownRevisionError`.
        """
        answer: Record = decode(self._wait({"diff": {"before": before, "after": after}}))
        return answer

    def blame(self, revision: str = "HEAD") -> list[Record]:
        """Return the commits that added and changed each message of a context.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(self._wait({"blame": {"revision": revision}}))
        return answer

    def search(
        self, query: str, *, heads: Sequence[str] = (), limit: int = 20, hidden: bool = False
    ) -> list[Record]:
        """Find the messages that best match some words, best first.

        Searches the contexts of `heads` (default: this branch); with `hidden`, summarized and skipped
        messages too. An index of the words is stored and updated on the way.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(
            self._wait({"search": {"query": query, "heads": list(heads), "limit": limit, "hidden": hidden}})
        )
        return answer

    def grep(
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
            self._wait(
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

    def usage(self) -> list[Record]:
        """Return the tokens of each recorded answer of a model, by branch and model."""
        answer: list[Record] = decode(self._wait({"usage": {}}))
        return answer

    def branches(self) -> list[Record]:
        """Return the branches: `name`, `head` and whether `HEAD` points to it, sorted by name."""
        answer: list[Record] = decode(self._wait({"branches": {}}))
        return answer

    def create_branch(self, name: str, source: str = "HEAD") -> str:
        """Create a branch that begins at a revision; returns the commit. Nothing is copied.

        Raises `TractError`: `exists` if there is a branch of this name; `UnknownRevisionError`.
        """
        answer: str = decode(self._wait({"create_branch": {"name": name, "from": source}}))
        return answer

    def rename_branch(self, name: str, to: str) -> str | None:
        """Rename a branch; returns its head.

        Raises `UnknownRevisionError`; `TractError`: `exists`.
        """
        answer: str | None = decode(self._wait({"rename_branch": {"name": name, "to": to}}))
        return answer

    def delete_branch(self, name: str) -> str:
        """Delete a branch; its commits are kept. Returns its last head.

        Raises `UnknownRevisionError`; `TractError`: `checked_out` when `HEAD` points to it.
        """
        answer: str = decode(self._wait({"delete_branch": {"name": name}}))
        return answer

    def tags(self) -> list[Record]:
        """Return the tags: `name` and `commit`, sorted by name."""
        answer: list[Record] = decode(self._wait({"tags": {}}))
        return answer

    def create_tag(self, name: str, revision: str = "HEAD") -> str:
        """Create a tag, which never moves; returns its commit.

        Raises `TractError`: `exists`; `UnknownRevisionError`.
        """
        answer: str = decode(self._wait({"create_tag": {"name": name, "revision": revision}}))
        return answer

    def delete_tags(self, names: Sequence[str]) -> list[str]:
        """Delete all of these tags, or none; returns their commits.

        Raises `UnknownRevisionError` with the missing tag.
        """
        answer: list[str] = decode(self._wait({"delete_tags": {"names": list(names)}}))
        return answer

    def set_tools(self, tools: Iterable[Mapping[str, Any] | str]) -> Record:
        """Set the active tools from here on, in any provider's format. An empty list means no tools.

        A `str` is JSON text and is kept byte for byte; a dict is written as compact JSON.

        Raises `TractError`: `invalid_json`, `too_large`, `no_name`, `duplicate_name`.
        """
        return decode_commit(self._wait({"set_tools": {"tools": [text_of(tool) for tool in tools]}}))

    def tools(self, revision: str | None = None) -> list[Record]:
        """Return the active tools of the branch, or at a revision: `name`, `id`, and `schema` as given.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(self._wait({"tools_at": {"revision": revision}}))
        return answer

    def own_tools(self, revision: str) -> list[Record]:
        """Return the tools that a commit reports as its own.

        Raises `UnknownRevisionError`.
        """
        answer: list[Record] = decode(self._wait({"own_tools": {"revision": revision}}))
        return answer

    def tool_history(self, name: str) -> list[Record]:
        """Return all versions of a tool, in the order of their first use."""
        answer: list[Record] = decode(self._wait({"tool_history": {"name": name}}))
        return answer

    def tool_diff(self, before: str, after: str) -> Record:
        """Compare the active tools at two revisions, and their schemas by structure.

        Raises `UnknownRevisionError`.
        """
        answer: Record = decode(self._wait({"tool_diff": {"before": before, "after": after}}))
        return answer

    def open_calls(self) -> list[Record]:
        """Return the unanswered calls of the branch: `id` and `name`."""
        answer: list[Record] = decode(self._wait({"open_calls": {}}))
        return answer

    def pending(self) -> list[Record]:
        """Return the pending approvals of all branches, oldest first."""
        answer: list[Record] = decode(self._wait({"pending": {}}))
        return answer

    def approve(self, pending_id: str) -> Record:
        """Carry out a pending operation on the current head of its branch.

        Raises `TractError`: `unknown_pending`, `already_decided`; the operation's own error if it is no
        longer possible.
        """
        answer: Record = decode(self._wait({"approve": {"id": pending_id}}))
        return answer

    def reject(self, pending_id: str, reason: str) -> Record:
        """Reject a pending operation. An open call is answered by an error with the reason.

        Raises as `approve`.
        """
        answer: Record = decode(self._wait({"reject": {"id": pending_id, "reason": reason}}))
        return answer

    def edit_pending(self, pending_id: str, text: str) -> Record:
        """Carry out a pending operation with another text; the original is kept.

        Raises as `approve`.
        """
        answer: Record = decode(self._wait({"edit_pending": {"id": pending_id, "text": text}}))
        return answer

    def remotes(self) -> list[Record]:
        """Return the remotes; passwords in their URLs are hidden."""
        answer: list[Record] = decode(self._wait({"remotes": {}}))
        return answer

    def add_remote(self, name: str, url: str, *, repo: str | None = None) -> None:
        """Add a remote: the URL of a store, or `bundle:PATH`.

        Raises `TractError`: `remote_exists`, `no_such_store`, `bad_name`.
        """
        self._wait({"add_remote": {"name": name, "url": url, "repo": repo}})

    def remove_remote(self, name: str) -> None:
        """Remove a remote, with the remote-tracking refs of its branches.

        Raises `TractError`: `unknown_remote`.
        """
        self._wait({"remove_remote": {"name": name}})

    def push(self, remote: str, branches: Sequence[str] | None = None) -> Record:
        """Push branches (default: all) to a remote; a missing store is created.

        A remote branch only moves forward. One that has other commits is left as it is, and its ref is
        reported with the status `diverged`.

        Raises `TractError`: `unknown_remote`; errors of the remote's store.
        """
        answer: Record = decode(
            self._wait({"push": {"remote": remote, "branches": None if branches is None else list(branches)}})
        )
        return answer

    def fetch(self, remote: str) -> Record:
        """Fetch the branches of a remote to `remotes/NAME/BRANCH`, and its tags. No branch moves.

        Raises `TractError`: `unknown_remote`; errors of the remote's store.
        """
        answer: Record = decode(self._wait({"fetch": {"remote": remote, "pull": None, "pull_all": False}}))
        return answer

    def pull(self, remote: str, branches: Sequence[str] | None = None) -> Record:
        """Fetch, and move branches (default: all) forward to those of the remote.

        A branch that has other commits is left as it is, and reported with the status `diverged`.

        Raises as `fetch`.
        """
        answer: Record = decode(
            self._wait(
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

    def create_bundle(self, path: str | os.PathLike[str]) -> Record:
        """Write all branches and tags to a new file, for a place where no store can be reached.

        Raises `TractError` if the file exists or cannot be written.
        """
        answer: Record = decode(self._wait({"create_bundle": {"path": os.fspath(path)}}))
        return answer

    def apply_bundle(self, path: str | os.PathLike[str]) -> Record:
        """Bring the history of a bundle into this repository. Branches only move forward.

        Raises `TractError` if the file is not a complete bundle; nothing is written then.
        """
        answer: Record = decode(self._wait({"apply_bundle": {"path": os.fspath(path)}}))
        return answer

    def import_conversation(
        self, conversation: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str, *, name: str
    ) -> Record:
        """Import a conversation in a provider's form: a request, its list of messages, or a recording.

        Its branch is named by its own `id`, else `name`. Importing a longer version extends the branch.

        Raises `TractError`: `invalid_json`, `unknown_format`, `bad_recording`, with the path in the text.
        """
        answer: Record = decode(self._wait({"import_text": {"text": text_of(conversation), "name": name}}))
        return answer

    def verify(self) -> Record:
        """Verify all hashes and links: `clean`, numbers of objects, and `damage`.

        Damage of single objects is reported, not raised.
        """
        answer: Record = decode(self._wait({"verify": {}}))
        return answer

    def erase(
        self, messages: Sequence[str], reason: str, *, everywhere: bool = False, ban: bool = False
    ) -> Record:
        """Permanently delete the bytes of messages, with all their versions. `undo` cannot revert it.

        The messages read `[erased: REASON]`. Bytes that other messages share stay unless `everywhere`; with
        `ban`, storing the same bytes again is refused.

        Raises `TractError`: `unsupported` if the store cannot erase, `bad_erase`; `UnknownRevisionError`.
        """
        answer: Record = decode(
            self._wait(
                {"erase": {"targets": list(messages), "reason": reason, "everywhere": everywhere, "ban": ban}}
            )
        )
        return answer
