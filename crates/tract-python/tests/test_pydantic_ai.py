"""Conversations of pydantic-ai: one test for each promise of the interface, and the features of tract."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, RunUsage
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from tract_context.pydantic_ai import ConversationStore

Check = Callable[[ConversationStore], Awaitable[None]]


def ask(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text)], **fields)


def answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(content=text)], model_name="m")


def content(message: ModelMessage) -> Any:
    return message.parts[-1].content  # type: ignore[union-attr]


def contents(conversation: Conversation | None) -> list[Any]:
    assert conversation is not None
    return [content(message) for message in conversation.messages]


async def saved(store: ConversationStore, conversation_id: str, *texts: str, **options: Any) -> Conversation:
    conversation = Conversation(messages=[ask(text) for text in texts], conversation_id=conversation_id)
    await store.save(conversation, **options)
    return conversation


def chain(*texts: str, parent: str | None = None) -> list[ConversationEntry]:
    entries: list[ConversationEntry] = []
    for text in texts:
        entry = ConversationEntry(parent_id=entries[-1].id if entries else parent, message=ask(text))
        entries.append(entry)
    return entries


@pytest.fixture
def store(adapted: tract.Tract) -> ConversationStore:
    return ConversationStore(adapted)


# The five primitives.


def test_read_record_returns_what_was_written(store: ConversationStore) -> None:
    async def run() -> None:
        assert await store.read_record("c") is None
        record = ConversationRecord(
            conversation_id="c",
            head_id=None,
            usage=RunUsage(input_tokens=3, requests=1, details={"x": 1}),
            deferred_tool_requests=DeferredToolRequests(
                calls=[ToolCallPart("grep", {"a": 1}, "c1")], metadata={"c1": {"why": "x"}}
            ),
            scope="ann",
            forked_from="b",
            updated_at=datetime.now(timezone(timedelta(hours=2))),
        )
        await store.write_record(record, expected_revision=None)
        assert await store.read_record("c") == record

    asyncio.run(run())


def test_a_returned_record_is_a_copy(store: ConversationStore) -> None:
    async def run() -> None:
        conversation = await saved(store, "c", "one")
        conversation.messages.append(ask("not saved"))
        record = await store.read_record("c")
        assert record is not None
        record.scope = "changed"
        record.branches.append("x")
        again = await store.read_record("c")
        assert again is not None
        assert (again.scope, again.branches) == (None, [])
        assert contents(await store.load("c")) == ["one"]

    asyncio.run(run())


def test_read_records_are_newest_first_of_a_scope_and_limited(store: ConversationStore) -> None:
    async def run() -> None:
        assert list(await store.read_records()) == []
        for n, scope in enumerate(["ann", "bob", "ann"]):
            record = ConversationRecord(
                conversation_id=f"c{n}",
                head_id=None,
                scope=scope,
                updated_at=datetime(2026, 1, 3 - n, tzinfo=UTC),
            )
            await store.write_record(record, expected_revision=None)
        names = [record.conversation_id for record in await store.read_records()]
        assert names == ["c0", "c1", "c2"]
        assert [r.conversation_id for r in await store.read_records(scope="ann")] == ["c0", "c2"]
        assert [r.conversation_id for r in await store.read_records(scope="ann", limit=1)] == ["c0"]
        assert list(await store.read_records(limit=0)) == []
        assert list(await store.read_records(scope="eve")) == []

    asyncio.run(run())


def test_write_record_stores_entries_and_record_together(store: ConversationStore) -> None:
    async def run() -> None:
        entries = chain("one", "two")
        record = ConversationRecord(conversation_id="c", head_id=entries[-1].id)
        await store.write_record(record, new_entries=entries, expected_revision=None)
        assert await store.read_history(record.head_id) == entries
        more = chain("three", parent=record.head_id)
        stale = dataclasses.replace(record, head_id=more[-1].id, revision="r2")
        with pytest.raises(ConversationConflict):
            await store.write_record(stale, new_entries=more, expected_revision="stale")
        with pytest.raises(KeyError):
            await store.read_entry(more[0].id)
        assert await store.read_record("c") == record

    asyncio.run(run())


def test_write_record_conflicts(store: ConversationStore) -> None:
    async def run() -> None:
        record = ConversationRecord(conversation_id="c", head_id=None)
        with pytest.raises(ConversationConflict):
            await store.write_record(record, expected_revision="none yet")
        await store.write_record(record, expected_revision=None)
        with pytest.raises(ConversationConflict) as error:
            await store.write_record(record, expected_revision=None)
        assert error.value.conversation_id == "c"
        # The head names an entry that nobody has.
        fork = ConversationRecord(conversation_id="fork", head_id="gone")
        with pytest.raises(ConversationConflict):
            await store.write_record(fork, expected_revision=None)
        orphans = chain("x", parent="gone")
        fork = ConversationRecord(conversation_id="fork", head_id=orphans[-1].id)
        with pytest.raises(ConversationConflict):
            await store.write_record(fork, new_entries=orphans, expected_revision=None)
        assert await store.read_record("fork") is None

    asyncio.run(run())


def test_new_entries_are_a_chain(store: ConversationStore) -> None:
    async def run() -> None:
        entries = chain("one", "two")
        for wrong, head in ((entries[::-1], entries[0].id), (entries, entries[0].id)):
            record = ConversationRecord(conversation_id="c", head_id=head)
            with pytest.raises(ValueError, match="entry"):
                await store.write_record(record, new_entries=wrong, expected_revision=None)
        assert await store.read_record("c") is None

    asyncio.run(run())


def test_one_of_two_concurrent_writers_wins(store: ConversationStore) -> None:
    async def run() -> None:
        await saved(store, "c", "one")
        loaded = [await store.load("c") for _ in range(5)]
        for n, conversation in enumerate(loaded):
            assert conversation is not None
            conversation.messages.append(ask(str(n)))
        results = await asyncio.gather(
            *(store.save(conversation) for conversation in loaded if conversation), return_exceptions=True
        )
        assert sum(isinstance(result, ConversationConflict) for result in results) == 4
        assert len(contents(await store.load("c"))) == 2

    asyncio.run(run())


def test_delete_record_is_compare_and_swap(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        with pytest.raises(ConversationConflict):
            await store.delete_record("c", expected_revision="x")
        conversation = await saved(store, "c", "one", "two")
        with pytest.raises(ConversationConflict):
            await store.delete_record("c", expected_revision="x")
        assert conversation.revision is not None
        await store.delete_record("c", expected_revision=conversation.revision)
        assert await store.read_record("c") is None
        assert adapted.branches() == []

    asyncio.run(run())


def test_delete_keeps_the_entries_that_a_fork_shares(store: ConversationStore) -> None:
    async def run() -> None:
        await saved(store, "c", "one", "two")
        fork = await store.fork("c", at=1, new_conversation_id="fork")
        await store.delete("c")
        await store.delete("never stored")
        assert await store.load("c") is None
        assert contents(await store.load("fork")) == ["one"]
        fork.messages.append(ask("else"))
        await store.save(fork)
        # A conversation that is created again has a new revision.
        again = await saved(store, "c", "new")
        assert contents(await store.load("c")) == ["new"]
        assert again.revision != fork.revision

    asyncio.run(run())


def test_read_entry_finds_every_entry_of_the_store(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        await saved(store, "c", "one", "two")
        entries = await store.load_entries("c")
        assert entries is not None
        await store.branch("c", at=1, expected_revision=await revision(store, "c"))
        # Another object knows none of them.
        for entry in entries:
            assert await ConversationStore(adapted).read_entry(entry.id) == entry
        with pytest.raises(KeyError):
            await ConversationStore(adapted).read_entry("unknown")

    asyncio.run(run())


def test_read_history_can_be_limited(store: ConversationStore) -> None:
    async def run() -> None:
        entries = chain(*map(str, range(10)))
        record = ConversationRecord(conversation_id="c", head_id=entries[-1].id)
        await store.write_record(record, new_entries=entries, expected_revision=None)
        assert await store.read_history(record.head_id, limit=3) == entries[-3:]
        assert await store.read_history(record.head_id, limit=0) == []
        assert await store.read_history(entries[4].id) == entries[:5]
        assert await store.read_history(None) == []

    asyncio.run(run())


async def revision(store: ConversationStore, conversation_id: str) -> str:
    record = await store.read_record(conversation_id)
    assert record is not None
    return record.revision


# The operations that are built on them.


def test_load_and_save_around_a_run(store: ConversationStore) -> None:
    async def run() -> None:
        agent = Agent(TestModel(custom_output_text="Yes."), instructions="Be brief.")
        result = await agent.run("Do I need a coat?", conversation=Conversation(conversation_id="c"))
        assert len(await store.save(result)) == 2
        loaded = await store.load("c")
        assert loaded is not None
        result = await agent.run("And tomorrow?", conversation=loaded)
        entries = await store.save(result)
        assert [entry.message.kind for entry in entries] == ["request", "response"]
        assert await store.save(result) == []
        whole = await store.load("c")
        assert whole is not None
        assert whole.messages == result.all_messages()
        assert whole.usage.requests == 2

    asyncio.run(run())


def test_every_kind_of_message_is_loaded_as_saved(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        messages: list[ModelMessage] = [
            ModelRequest(
                parts=[
                    SystemPromptPart(content="Be brief."),
                    UserPromptPart(
                        content=["What is this?", BinaryContent(b"\x00\xff", media_type="image/png")]
                    ),
                ],
                instructions="Answer in French.",
            ),
            ModelResponse(
                parts=[ThinkingPart(content="hm", signature="s"), ToolCallPart("grep", '{"b": 1e2}', "c1")],
                usage=dataclasses.replace(ModelResponse(parts=[]).usage, input_tokens=5),
                model_name="m",
                provider_details={"cost": 0.25},
            ),
            ModelRequest(parts=[ToolReturnPart("grep", {"lines": [1, 2.5, None]}, "c1")]),
            answer("é\u2028"),
            ModelRequest(parts=[]),
        ]
        conversation = Conversation(messages=messages, conversation_id="c")
        await store.save(conversation)
        loaded = await store.load("c")
        assert loaded is not None
        # Images are of another class after a round trip.
        dumped = ModelMessagesTypeAdapter.dump_json(messages)
        assert loaded.messages == ModelMessagesTypeAdapter.validate_json(dumped)
        assert loaded.messages[1:] == messages[1:]
        branch = adapted.on("pydantic-ai/c")
        roles = [message["role"] for message in branch.compile().messages]
        assert roles == ["system", "system", "user", "assistant", "tool", "assistant"]
        assert branch.compile().to_openai()[3]["tool_calls"][0]["function"]["arguments"] == '{"b": 1e2}'

    asyncio.run(run())


def test_instructions_are_not_repeated_in_the_context(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        conversation = Conversation(conversation_id="c")
        for text in ("one", "two", "three"):
            conversation.messages.append(ask(text, instructions="Be brief."))
            await store.save(conversation)
        branch = adapted.on("pydantic-ai/c")
        assert [m["role"] for m in branch.compile().messages] == ["system", "user", "user", "user"]

    asyncio.run(run())


def test_a_window_appends_to_the_whole_conversation(store: ConversationStore) -> None:
    async def run() -> None:
        await saved(store, "c", "one", "two", "three")
        window = await store.load("c", limit=1)
        assert contents(window) == ["three"]
        assert window is not None
        window.messages.append(ask("four"))
        await store.save(window)
        assert contents(await store.load("c")) == ["one", "two", "three", "four"]
        with pytest.raises(UserError):
            await store.load("c", limit=-1)

    asyncio.run(run())


def test_a_rewritten_history_leaves_a_branch(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        conversation = await saved(store, "c", "one", "two", "three")
        rewritten = Conversation(
            messages=[ask("one"), ask("else")], conversation_id="c", revision=conversation.revision
        )
        rewritten.messages[0] = conversation.messages[0]
        await store.save(rewritten)
        record = await store.read_record("c")
        assert record is not None
        assert len(record.branches) == 1
        assert contents(await store.load("c")) == ["one", "else"]
        left = await store.read_history(record.branches[0])
        assert [content(entry.message) for entry in left] == ["one", "two", "three"]
        names = [branch["name"] for branch in adapted.branches()]
        assert names == ["pydantic-ai/c", "pydantic-ai/c+1"]
        assert [m["text"] for m in messages(adapted, names[1])] == ["one", "two", "three"]
        assert [m["text"] for m in messages(adapted, names[0])] == ["one", "else"]

    asyncio.run(run())


def messages(handle: tract.Tract, branch: str) -> list[dict[str, Any]]:
    return [{"text": m["content"]} for m in handle.on(branch).compile().to_openai()]


def test_branches_can_be_left_and_returned_to(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        await saved(store, "c", "one", "two")
        entries = await store.load_entries("c")
        assert entries is not None
        branched = await store.branch("c", at=1, expected_revision=await revision(store, "c"))
        branched.messages.append(ask("else"))
        await store.save(branched)
        assert contents(await store.load("c")) == ["one", "else"]
        back = await store.branch(
            "c", from_entry=entries[-1].id, expected_revision=await revision(store, "c")
        )
        assert contents(back) == ["one", "two"]
        record = await store.read_record("c")
        assert record is not None
        assert (record.head_id, len(record.branches)) == (entries[-1].id, 1)
        assert len(adapted.branches()) == 2
        with pytest.raises(ConversationConflict):
            await store.branch("c", at=1, expected_revision="stale")
        with pytest.raises(UserError):
            await store.branch("c", from_entry="unknown", expected_revision=record.revision)
        empty = await store.branch("c", at=0, expected_revision=record.revision)
        assert empty.messages == []
        assert contents(await store.load("c")) == []

    asyncio.run(run())


def test_a_fork_shares_its_entries(store: ConversationStore, adapted: tract.Tract) -> None:
    async def run() -> None:
        await saved(store, "c", "one", "two", scope="ann")
        before = adapted.verify()["commits"]
        forks = [await store.fork("c", at=1, new_conversation_id=f"fork {n}") for n in range(3)]
        assert adapted.verify()["commits"] == before
        record = await store.read_record("fork 0")
        assert record is not None
        assert (record.forked_from, record.scope, record.forked_at) == ("c", "ann", record.head_id)
        for n, fork in enumerate(forks):
            fork.messages.append(ask(str(n)))
            await store.save(fork)
        assert contents(await store.load("fork 2")) == ["one", "2"]
        assert contents(await store.load("c")) == ["one", "two"]
        assert adapted.log("pydantic-ai/fork%200")[1] == adapted.log("pydantic-ai/c")[1]
        with pytest.raises(ConversationConflict):
            await store.fork("c", new_conversation_id="fork 0")

    asyncio.run(run())


def test_scopes_keep_conversations_apart(store: ConversationStore) -> None:
    async def run() -> None:
        conversation = await saved(store, "c", "one", scope="ann")
        assert await store.load("c", scope="bob") is None
        await store.delete("c", scope="bob")
        assert [r.conversation_id for r in await store.list_conversations(scope="ann")] == ["c"]
        assert await store.list_conversations(scope="bob") == []
        with pytest.raises(ConversationConflict):
            await store.save(conversation, scope="bob")

    asyncio.run(run())


# Features of tract.


def test_the_store_survives_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with ConversationStore(f"sqlite:{tmp_path / 'agent.db'}") as store:
            await saved(store, "c", "one", "two")
        async with ConversationStore(tmp_path / "agent.db") as store:
            assert contents(await store.load("c")) == ["one", "two"]
        with pytest.raises(tract.ClosedError):
            await store.load("c")

    asyncio.run(run())


def test_messages_are_searched_erased_and_kept_apart_from_edits(tmp_path: Path) -> None:
    async def run() -> None:
        with tract.open(f"sqlite:{tmp_path / 'agent.db'}") as handle:
            store = ConversationStore(handle)
            conversation = await saved(store, "c", "my password is plum", "next")
            branch = handle.on("pydantic-ai/c")
            secret = branch.search("plum")[0]["commit"]
            branch.erase([secret], "a password")
            loaded = await store.load("c")
            assert contents(loaded) == ["[erased]", "next"]
            assert "plum" not in str(branch.compile().messages)
            assert loaded is not None
            loaded.messages.append(ask("more"))
            await store.save(loaded)
            assert contents(await store.load("c")) == ["[erased]", "next", "more"]
            assert conversation.revision != loaded.revision

    asyncio.run(run())


class Conversations(RuleBasedStateMachine):
    """The same operations on the vendor's store in memory and on ours have the same results."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = ConversationStore("memory:")
        self.theirs = InMemoryConversationStore()
        self.number = 0

    def teardown(self) -> None:
        self.ours.close()

    def both(self, call: Callable[[Any], Awaitable[Any]]) -> None:
        results = []
        for store in (self.ours, self.theirs):
            try:
                results.append(summary(asyncio.run(call(store))))  # type: ignore[arg-type]
            except (UserError, ConversationConflict) as error:
                results.append(type(error))
        assert results[0] == results[1]

    names = st.sampled_from(["a", "b", "c d"])

    @rule(name=names, limit=st.none() | st.integers(0, 3), count=st.integers(0, 3))
    def append(self, name: str, limit: int | None, count: int) -> None:
        self.number += 1

        async def call(store: Any) -> Any:
            conversation = await store.load(name, limit=limit) or Conversation(conversation_id=name)
            conversation.messages.extend(ask(f"{self.number}.{n}") for n in range(count))
            await store.save(conversation)
            return conversation

        self.both(call)

    @rule(name=names, at=st.integers(0, 4))
    def rewrite(self, name: str, at: int) -> None:
        self.number += 1

        async def call(store: Any) -> Any:
            conversation = await store.load(name)
            if conversation is None:
                return None
            changed = Conversation(
                messages=[*conversation.messages[:at], ask(f"{self.number}")],
                conversation_id=name,
                revision=conversation.revision,
            )
            await store.save(changed)
            return changed

        self.both(call)

    @rule(name=names, at=st.integers(0, 4))
    def branch(self, name: str, at: int) -> None:
        async def call(store: Any) -> Any:
            record = await store.read_record(name)
            return await store.branch(name, at=at, expected_revision=record.revision if record else "")

        self.both(call)

    @rule(name=names, n=st.integers(0, 3))
    def back(self, name: str, n: int) -> None:
        async def call(store: Any) -> Any:
            record = await store.read_record(name)
            tips = record.branches if record else []
            tip = tips[n % len(tips)] if tips else "none"
            revision = record.revision if record else ""
            return await store.branch(name, from_entry=tip, expected_revision=revision)

        self.both(call)

    @rule(name=names, new=names, at=st.none() | st.integers(0, 4))
    def fork(self, name: str, new: str, at: int | None) -> None:
        async def call(store: Any) -> Any:
            return await store.fork(name, at=at, new_conversation_id=new)

        self.both(call)

    @rule(name=names)
    def delete(self, name: str) -> None:
        async def call(store: Any) -> Any:
            return await store.delete(name)

        self.both(call)

    @invariant()
    def same(self) -> None:
        async def call(store: Any) -> Any:
            found = []
            for name in ("a", "b", "c d"):
                record = await store.read_record(name)
                if record is not None:
                    lines = [await store.read_history(tip) for tip in [record.head_id, *record.branches]]
                    found.append([name, [[content(entry.message) for entry in line] for line in lines]])
            return found

        self.both(call)


def summary(value: Any) -> Any:
    return contents(value) if isinstance(value, Conversation) else value


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_a_decimal_cost_is_kept(store: ConversationStore) -> None:
    async def run() -> None:
        usage = RunUsage(input_tokens=1, cost=Decimal("0.10"))
        record = ConversationRecord(conversation_id="c", head_id=None, usage=usage)
        await store.write_record(record, expected_revision=None)
        assert await store.read_record("c") == record

    asyncio.run(run())
