"""Sessions of OpenAI's Agents SDK as branches.

>>> from tract_context.openai_agents import Session
>>> session = Session("s1", "memory:")

Give it to a runner: `Runner.run(agent, "Hello", session=session)`. The items of the session are the
messages of the branch `s1`, so `tract cat s1`, `search`, `diff` and all other verbs work on them. The
agent sees the changes in its next run: a message can be edited, skipped or summarized.
"""

import inspect
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from agents import SessionSettings, TResponseInputItem
from agents.memory import OpenAIResponsesCompactionArgs
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from tract_context._adapter import Adapter, Write, branch_name
from tract_context._compiled import Compiled
from tract_context._errors import ConflictError, TractError
from tract_context._tract import Tract

Summarize: TypeAlias = Callable[[list[TResponseInputItem]], str | Awaitable[str]]


class Session(Adapter):
    """A session of the Agents SDK, kept in a store of tract.

    Several sessions, processes and threads may use one store, and one session. Items are kept byte for
    byte; popped and cleared ones stay in the history, where `tract log` shows them.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: str | os.PathLike[str] | Tract,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        summarize: Summarize | None = None,
        compact_after: int = 40,
        keep_last: int = 10,
    ) -> None:
        """Open a session; it begins with its first item.

        `store` is the URL of a store (`sqlite:agent.db`), a path, or an open `Tract`, which the session
        does not close. The branch has the name of the session, percent-encoded where a branch cannot have
        it.

        `summarize` gets the oldest items and returns a summary. With it, `run_compaction`, which the SDK
        calls after each turn, replaces all but the newest `keep_last` items by one summary as soon as
        there are more than `compact_after`.
        """
        if session_settings is None:
            self.session_settings = SessionSettings()
        else:
            self.session_settings = coerce_session_settings(session_settings)
        super().__init__(store)
        self.session_id = session_id
        self._branch = branch_name(session_id)
        self._summarize = summarize
        self._compact_after = compact_after
        self._keep_last = keep_last

    @property
    def tract(self) -> Tract:
        """A handle on the session's branch, for all verbs of tract."""
        return super().tract.on(self._branch)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with `limit`, only the newest ones."""
        _, items, _ = await self._read()
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is None or limit < 0:
            return items
        return items[-limit:] if limit else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: all of them, or none. Items of concurrent callers stay before or after them."""
        tract = self.tract
        if not items:
            return
        write = Write("commit")
        for item in items:
            write.item(self._branch, "openai_agents", json.dumps(item, ensure_ascii=False))
        await write.apply(tract)

    async def pop_item(self) -> TResponseInputItem | None:
        """Leave the newest item out of the context, and return it; `None` if there is none.

        Two callers never get the same item.
        """
        while True:
            head, items, origins = await self._read()
            if not items:
                return None
            message = origins[-1]
            write = Write("annotate")
            write.expect(self._branch, head)
            write.skip(self._branch, [message], "popped")
            # A message that was committed with tract can be several items.
            for item, origin in zip(items[:-1], origins, strict=False):
                if origin == message:
                    write.item(self._branch, "openai_agents", json.dumps(item, ensure_ascii=False))
            try:
                await write.apply(self.tract)
            except ConflictError:
                continue
            return items[-1]

    async def clear_session(self) -> None:
        """Leave all items out of the context. Those that others add at the same time are cleared or kept."""
        while True:
            head, _, origins = await self._read()
            if not origins:
                return
            write = Write("annotate")
            write.expect(self._branch, head)
            write.skip(self._branch, list(dict.fromkeys(origins)), "cleared")
            try:
                await write.apply(self.tract)
            except ConflictError:
                continue
            return

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Replace the oldest items by a summary, if there are enough of them or `args` forces it.

        The SDK calls it after each turn. The summary replaces only the items that `summarize` got. Items
        that others add, edit or remove during the call are kept as they are. Without `summarize` this does
        nothing, and raises `TractError` if it is forced.
        """
        force = bool(args and args.get("force"))
        if self._summarize is None:
            if force:
                raise TractError("the session has no summarizer: pass `summarize` to Session")
            return
        _, items, origins = await self._read()
        end = len(items) - self._keep_last
        # Calls stay with their results: a message is summarized as a whole, and the store widens the range.
        if end <= 1 or not (force or len(items) > self._compact_after):
            return
        summary = self._summarize(items[:end])
        if inspect.isawaitable(summary):
            summary = await summary
        try:
            await self.tract.acompress(origins[0], origins[end - 1], summary)
        except TractError as error:
            # Others changed the range: the next call plans again.
            if error.code not in ("not_visible", "nothing_left", "hidden"):
                raise

    async def branch(self, session_id: str, at: int | str | None = None) -> "Session":
        """Start another session from this one. Nothing is copied, and this one stays as it is.

        `at` is the number of items to keep (default: all), negative to count from the end, or a revision of
        tract. The new session uses the same store, and ends when this one is closed.

        Raises `ConflictError` if there is a session of this name; `UnknownRevisionError`.
        """
        head, items, origins = await self._read()
        other = Session(
            session_id,
            self._tract,
            session_settings=self.session_settings,
            summarize=self._summarize,
            compact_after=self._compact_after,
            keep_last=self._keep_last,
        )
        if isinstance(at, str):
            head = await self.tract.aresolve(at)
            count = len(items)
        else:
            count = len(items) if at is None else at
            if not -len(items) <= count <= len(items):
                raise TractError(f"`at` is {count}, but the session has {len(items)} items")
            if count < 0:
                count += len(items)
        if head is None:
            return other
        write = Write("branch")
        if count and count < len(items):
            # The commit of the last item that is kept, unless an older item was changed since.
            compiled = await self.tract.acompile(origins[count - 1])
            if _items(compiled)[0] == items[:count]:
                head = origins[count - 1]
                count = len(items)
        write.move(other._branch, expect=None, to=head)
        if count < len(items):
            write.skip(other._branch, list(dict.fromkeys(origins[count:])), "not in this branch")
        await write.apply(self.tract)
        return other

    async def _read(self) -> tuple[str | None, list[TResponseInputItem], list[str]]:
        """Return the head, the items, and the commit of each item."""
        compiled = await self.tract.acompile()
        return compiled.head, *_items(compiled)


def _items(compiled: Compiled) -> tuple[list[TResponseInputItem], list[str]]:
    """Return the items of a context as they were added, and the commit of each."""
    params = compiled.form("responses-params", pairing="keep")
    body = params.body
    items = body["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    sources = [source for source in params._params.origins if source is not None]
    origins = sources[len(sources) - len(items) :]
    # Instructions that were committed with tract.
    if body.get("instructions"):
        items.insert(0, {"role": "system", "content": body["instructions"]})
        origins.insert(0, sources[0])
    return items, origins
