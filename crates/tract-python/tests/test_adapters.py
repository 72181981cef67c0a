"""Bad circumstances: each adapter raises typed errors, and the store stays as it was."""

import asyncio
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart
from test_processes import in_child
from tract_context.claude_agent import SessionStore
from tract_context.langgraph import TractSaver
from tract_context.openai_agents import Session
from tract_context.pydantic_ai import ConversationStore


@dataclass
class Kind:
    """An adapter: how to open it, to add a text to a conversation, and to read all texts."""

    open: Callable[[str | tract.Tract], Any]
    add: Callable[[Any, str], None]
    texts: Callable[[Any], list[str]]


THREAD: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def _graph_texts(saver: TractSaver) -> list[str]:
    found = saver.get_tuple(THREAD)
    return [] if found is None else [at.content for at in found.checkpoint["channel_values"]["messages"]]


def _graph_add(saver: TractSaver, text: str) -> None:
    found = saver.get_tuple(THREAD)
    messages = found.checkpoint["channel_values"]["messages"] if found else []
    number = len(messages) + 1
    checkpoint: Any = {
        "v": 4, "id": f"{number:08}", "ts": "", "versions_seen": {}, "updated_channels": None,
        "channel_values": {"messages": [*messages, HumanMessage(text, id=str(number))]},
        "channel_versions": {"messages": number},
    }  # fmt: skip
    saver.put(found.config if found else THREAD, checkpoint, {}, {"messages": number})


def _session_add(session: Session, text: str) -> None:
    asyncio.run(session.add_items([{"role": "user", "content": text}]))


def _session_texts(session: Session) -> list[str]:
    items: list[Any] = list(asyncio.run(session.get_items()))
    return [item["content"] for item in items]


def _transcript_add(store: SessionStore, text: str) -> None:
    line: Any = {"type": "user", "message": {"role": "user", "content": text}}
    asyncio.run(store.append({"project_key": "p", "session_id": "s"}, [line]))


def _transcript_texts(store: SessionStore) -> list[str]:
    lines: Any = asyncio.run(store.load({"project_key": "p", "session_id": "s"})) or []
    return [line["message"]["content"] for line in lines]


def _conversation_add(store: ConversationStore, text: str) -> None:
    async def run() -> None:
        loaded = await store.load("c")
        conversation = loaded or Conversation(conversation_id="c")
        conversation.messages.append(ModelRequest(parts=[UserPromptPart(content=text)]))
        await store.save(conversation)

    asyncio.run(run())


def _conversation_texts(store: ConversationStore) -> list[str]:
    loaded = asyncio.run(store.load("c"))
    parts: list[Any] = [message.parts[0] for message in loaded.messages] if loaded else []
    return [part.content for part in parts]


KINDS = {
    "langgraph": Kind(TractSaver, _graph_add, _graph_texts),
    "openai_agents": Kind(lambda store: Session("s", store), _session_add, _session_texts),
    "claude_agent": Kind(SessionStore, _transcript_add, _transcript_texts),
    "pydantic_ai": Kind(ConversationStore, _conversation_add, _conversation_texts),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond this size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_an_error_and_keeps_what_is_there(kind: Kind, url: str) -> None:
    stored = ["first"]
    with kind.open(url) as adapter:
        kind.add(adapter, stored[0])
        with full_disk(400_000), pytest.raises(tract.TractError) as error:
            for n in range(100):
                kind.add(adapter, text := f"{n} " * 8_000)
                stored.append(text)
        assert error.value.code not in ("internal", "corrupt")
        assert kind.texts(adapter) == stored
        # After a failed write the state of the file is unknown, so the store must be opened again.
        with pytest.raises(tract.TractError, match="an earlier write failed"):
            kind.add(adapter, "refused")
    with kind.open(url) as adapter, tract.open(url) as handle:
        assert kind.texts(adapter) == stored
        kind.add(adapter, "last")
        assert kind.texts(adapter) == [*stored, "last"]
        assert handle.verify()["clean"]


def test_a_store_of_a_newer_format_is_refused_and_unchanged(kind: Kind, url: str, tmp_path: Path) -> None:
    with kind.open(url) as adapter:
        kind.add(adapter, "first")
    path = tmp_path / "agent.db"
    with sqlite3.connect(path) as connection:
        (version,) = connection.execute("pragma user_version").fetchone()
        connection.execute(f"pragma user_version = {version + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(tract.TractError) as error:
        kind.open(url)
    assert error.value.code == "format_too_new"
    assert path.read_bytes() == before


def test_a_foreign_file_is_refused_and_unchanged(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table notes (text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(tract.TractError) as error:
        kind.open(f"sqlite:{path}")
    assert error.value.code == "not_a_store"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["foreign.db"]


def test_a_closed_adapter_is_refused(kind: Kind, url: str) -> None:
    with kind.open(url) as adapter:
        kind.add(adapter, "first")
    adapter.close()
    for call in (lambda: kind.add(adapter, "more"), lambda: kind.texts(adapter), lambda: adapter.tract):
        with pytest.raises(tract.ClosedError) as error:
            call()
        assert error.value.code == "closed"
    with tract.open(url) as handle:
        borrowed = kind.open(handle)
        borrowed.close()
        with pytest.raises(tract.ClosedError):
            kind.add(borrowed, "more")
        assert kind.texts(kind.open(handle)) == ["first"]


def test_an_adapter_on_a_closed_handle_is_refused(kind: Kind, url: str) -> None:
    handle = tract.open(url)
    adapter = kind.open(handle)
    kind.add(adapter, "first")
    handle.close()
    for call in (lambda: kind.add(adapter, "more"), lambda: kind.texts(adapter)):
        with pytest.raises(tract.ClosedError):
            call()
    with kind.open(url) as again:
        assert kind.texts(again) == ["first"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_at_once(kind: Kind, url: str) -> None:
    with kind.open(url) as adapter:
        kind.add(adapter, "parent")

        def child() -> None:
            for call in (lambda: kind.add(adapter, "child"), lambda: kind.texts(adapter)):
                with pytest.raises(tract.ForkedError) as error:
                    call()
                assert error.value.code == "forked"
            with kind.open(url) as own:
                kind.add(own, "child")

        assert in_child(child) == 0
        kind.add(adapter, "parent again")
        assert kind.texts(adapter) == ["parent", "child", "parent again"]
        assert adapter.tract.verify()["clean"]


@pytest.mark.parametrize("store", [42, None, b"sqlite:x"])
def test_a_wrong_type_is_refused(kind: Kind, store: Any) -> None:
    with pytest.raises((TypeError, tract.TractError)):
        kind.open(store)
