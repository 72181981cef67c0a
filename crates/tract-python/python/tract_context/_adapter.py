"""Shared parts of the adapters for agent frameworks: the store, names of branches, atomic writes."""

import asyncio
import json
import os
from collections.abc import Coroutine, Sequence
from hashlib import sha256
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from tract_context._calls import UNCHECKED, Record, Unchecked
from tract_context._errors import ClosedError
from tract_context._messages import text_of
from tract_context._tract import Tract, open

_T = TypeVar("_T")

# The longest name of a branch is 850 bytes.
_LONGEST = 200


def branch_part(text: str) -> str:
    """Return a part of a branch's name for any text; different texts have different parts.

    Letters, digits, `_`, `-` and single dots are kept, and all else is percent-encoded.
    """
    if not text:
        return "%"
    part = quote(text, safe="").replace("~", "%7E").replace("..", ".%2E")
    if part.startswith((".", "-")):
        part = f"%{ord(part[0]):02X}{part[1:]}"
    if part.endswith("."):
        part = f"{part[:-1]}%2E"
    elif part.endswith(".lock"):
        part = f"{part[:-5]}%2Elock"
    if len(part) > _LONGEST:
        part = f"{part[: _LONGEST - 66].rstrip('.')}%{sha256(text.encode()).hexdigest()}"
    return part


def branch_name(text: str) -> str:
    """Return the name of the branch for any text: `user/42` stays as it is, `two words` is encoded."""
    parts = text.split("/")
    if not all(parts) or parts[0] in ("HEAD", "heads"):
        return f"%{branch_part(text)}"
    return "/".join(branch_part(part) for part in parts)


async def settled(work: Coroutine[Any, Any, _T]) -> _T:
    """Await a write to its end even if the caller is cancelled, so that its outcome is known."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()
        raise


class Adapter:
    """An adapter for a framework, on a store that it opens or on a handle that it borrows."""

    def __init__(self, store: str | os.PathLike[str] | Tract) -> None:
        """Take an open handle, or open the store of a URL; a path is one of SQLite."""
        self._owned = not isinstance(store, Tract)
        self._closed = False
        if isinstance(store, Tract):
            self._tract = store
        elif isinstance(store, (str, os.PathLike)):
            self._tract = open(store if isinstance(store, str) else f"sqlite:{os.fspath(store)}")
        else:
            raise TypeError(f"an adapter needs a URL, a path or a Tract, not {type(store).__name__}")

    @property
    def tract(self) -> Tract:
        """The handle, for all verbs of tract."""
        if self._closed:
            raise ClosedError("this store is closed", code="closed", notes=["open it again"])
        return self._tract

    def close(self) -> None:
        """Close the store, if the adapter opened it. A second call does nothing."""
        self._closed = True
        if self._owned:
            self._tract.close()

    async def aclose(self) -> None:
        """Async `close`."""
        self._closed = True
        if self._owned:
            await self._tract.aclose()

    def __enter__(self) -> Self:
        """Return the adapter."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store, if the adapter opened it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the adapter."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store, if the adapter opened it."""
        await self.aclose()


class Write:
    """A write of an adapter: all of it is stored, or nothing."""

    def __init__(self, verb: str) -> None:
        """Begin a write; `verb` is its name in the ref log."""
        self._call: Record = {"verb": verb, "branches": [], "skips": [], "items": [], "documents": []}

    def expect(self, branch: str, head: str | None) -> None:
        """Require a branch to point to a commit; `None` for a branch without commits."""
        self._call["branches"].append({"name": branch, "expect": {"head": head}, "to": None})

    def move(self, branch: str, *, to: str | None, expect: str | Unchecked | None = UNCHECKED) -> None:
        """Move a branch before items are added; `None` deletes it."""
        expected = None if isinstance(expect, Unchecked) else {"head": expect}
        self._call["branches"].append({"name": branch, "expect": expected, "to": {"head": to}})

    def skip(self, branch: str, messages: Sequence[str], reason: str) -> None:
        """Leave messages out of the context from here on."""
        self._call["skips"].append({"branch": branch, "messages": list(messages), "reason": reason})

    def item(
        self,
        branch: str,
        kind: str,
        item: Any,
        facts: Record | None = None,
        instructions: str | None = None,
    ) -> None:
        """Add an item of a framework to a branch; a `str` is its JSON text."""
        self._call["items"].append(
            {
                "branch": branch,
                "format": kind,
                "text": text_of(item),
                "facts": None if facts is None else json.dumps(facts),
                "instructions": instructions,
            }
        )

    def document(
        self, name: str, value: Record | None, *, expect: str | None, head_of: str | None = None
    ) -> None:
        """Replace a document with this id, `None` if there must be none. The value `None` deletes it.

        With `head_of`, the new head of that branch becomes the member `head`.
        """
        text = None if value is None else text_of(value)
        self._call["documents"].append(
            {"name": name, "expect": {"id": expect}, "text": text, "head_of": head_of}
        )

    async def apply(self, tract: Tract) -> Record:
        """Store the write. Raises `ConflictError` if something is not as expected."""
        answer: Record = json.loads(await settled(tract._start({"record": self._call})))
        return answer


async def items(
    tract: Tract,
    head: str | None,
    kind: str,
    *,
    until: str | None = None,
    limit: int | None = None,
    texts: bool = True,
) -> list[Record]:
    """Return the items that lead to a commit, oldest first: `commit`, `facts` and `text`."""
    if head is None or limit == 0:
        return []
    query = {"head": head, "format": kind, "until": until, "limit": limit, "texts": texts}
    entries: list[Record] = json.loads(await tract._start({"items": query}))
    return entries


async def document(tract: Tract, name: str) -> tuple[str | None, Record | None]:
    """Return the id and the value of a document; `None` for one that does not exist."""
    answer: Record | None = json.loads(await tract._start({"document": {"name": name}}))
    return (None, None) if answer is None else (answer["id"], json.loads(answer["text"]))


async def documents(tract: Tract, prefix: str) -> list[tuple[str, str, Record]]:
    """Return name, id and value of the documents whose names begin with a prefix."""
    answer: list[Record] = json.loads(await tract._start({"documents": {"prefix": prefix}}))
    return [(entry["name"], entry["id"], json.loads(entry["text"])) for entry in answer]


__all__ = [
    "Adapter",
    "Write",
    "branch_name",
    "branch_part",
    "document",
    "documents",
    "items",
    "settled",
]
