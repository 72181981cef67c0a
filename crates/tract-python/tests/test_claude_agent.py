"""Transcripts of the Claude Agent SDK: the vendor's conformance suite, and the features of tract."""

import asyncio
import inspect
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import tract_context as tract
from claude_agent_sdk import InMemorySessionStore, SessionKey
from claude_agent_sdk.testing import run_session_store_conformance, session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tract_context.claude_agent import SessionStore

KEY: SessionKey = {"project_key": "-home-ann-project", "session_id": "5f1c"}


def line(kind: str, text: Any, **members: Any) -> Any:
    role = {"message": {"role": kind, "content": text}}
    return {"type": kind, "uuid": str(uuid.uuid4()), "timestamp": "2026-01-01T00:00:00Z", **role, **members}


def fresh(handle: tract.Tract, request: pytest.FixtureRequest) -> Callable[[], SessionStore]:
    """Return what makes an empty store on the same engine."""
    if "postgres" in request.node.name:
        server = request.getfixturevalue("postgres")
        return lambda: SessionStore(tract.open(server, repo=f"claude-{uuid.uuid4()}"))
    if "sqlite" in request.node.name:
        folder = request.getfixturevalue("tmp_path")
        return lambda: SessionStore(f"sqlite:{folder / str(uuid.uuid4())}")
    return lambda: SessionStore("memory:")


def test_the_vendors_conformance_suite(adapted: tract.Tract, request: pytest.FixtureRequest) -> None:
    """14 contracts of 14: no optional method is missing, and none is left out."""
    made = []

    def make() -> SessionStore:
        store = fresh(adapted, request)()
        made.append(store)
        return store

    asyncio.run(run_session_store_conformance(make))
    contracts = inspect.getsource(session_store_conformance).count("\n        # ") - 1
    assert len(made) == 1 + 14, (len(made), contracts)
    for store in made:
        store.close()


def test_a_transcript_is_a_branch_of_messages(adapted: tract.Tract) -> None:
    async def run() -> None:
        store = SessionStore(adapted)
        call = {"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "login"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "3 lines"}
        usage = {"input_tokens": 9, "output_tokens": 3}
        lines = [
            {"type": "custom-title", "customTitle": "Login"},
            line("user", "Why does the login time out?"),
            line("assistant", [call], message_id="m1"),
            line("user", [result]),
            line("assistant", [{"type": "text", "text": "The clock is wrong."}]),
            {"type": "file-history-snapshot", "snapshot": {"a": [1, 2.5, None]}},
        ]
        lines[4]["message"] |= {"id": "msg_1", "model": "claude-x", "usage": usage}
        await store.append(KEY, lines)
        assert await store.load(KEY) == lines
        branch = adapted.on("claude/%2Dhome-ann-project/5f1c")
        assert [m["role"] for m in branch.compile().messages] == ["user", "assistant", "tool", "assistant"]
        assert branch.search("login timeout")
        answers = branch.usage()
        assert [(entry["model"], entry["tokens"]["output"]) for entry in answers] == [("claude-x", 3)]
        assert len(branch.log()) == 6
        summaries = await store.list_session_summaries(KEY["project_key"])
        assert summaries[0]["data"]["custom_title"] == "Login"

    asyncio.run(run())


def test_appends_are_idempotent_by_uuid(adapted: tract.Tract) -> None:
    async def run() -> None:
        first, second = line("user", "one"), line("user", "two")
        untitled: Any = {"type": "mode", "mode": "plan"}
        store = SessionStore(adapted)
        await store.append(KEY, [first, first, untitled])
        await store.append(KEY, [first, untitled])
        # Another process, which has seen nothing yet.
        await SessionStore(adapted).append(KEY, [first, second])
        await store.append(KEY, [second, first])
        assert await store.load(KEY) == [first, untitled, untitled, second]
        assert len(adapted.on("claude/%2Dhome-ann-project/5f1c").compile()) == 2

    asyncio.run(run())


def test_concurrent_appends_lose_nothing(adapted: tract.Tract) -> None:
    async def run() -> None:
        stores = [SessionStore(adapted) for _ in range(4)]
        lines = [line("user", str(n)) for n in range(24)]
        await asyncio.gather(*(stores[n % 4].append(KEY, [lines[n], lines[n // 2]]) for n in range(24)))
        loaded = await stores[0].load(KEY)
        assert loaded is not None
        assert sorted(entry["uuid"] for entry in loaded) == sorted(entry["uuid"] for entry in lines)

    asyncio.run(run())


def test_a_compaction_summarizes_the_context_and_not_the_transcript(adapted: tract.Tract) -> None:
    async def run() -> None:
        store = SessionStore(adapted)
        lines = [line("user", str(n)) for n in range(4)]
        lines.append({"type": "system", "subtype": "compact_boundary", "uuid": "b"})
        lines.append(line("user", "Four numbers.", isCompactSummary=True, parentUuid="b"))
        lines.append(line("user", "next"))
        for entry in lines:
            await store.append(KEY, [entry])
        assert await store.load(KEY) == lines
        branch = adapted.on("claude/%2Dhome-ann-project/5f1c")
        assert [m["content"] for m in branch.compile().to_openai()] == ["Four numbers.", "next"]

    asyncio.run(run())


def test_an_erased_line_keeps_its_place(tmp_path: Any) -> None:
    async def run() -> None:
        with tract.open(f"sqlite:{tmp_path / 'agent.db'}") as handle:
            store = SessionStore(handle)
            lines = [line("user", "my password is plum"), line("user", "next")]
            lines[1]["parentUuid"] = lines[0]["uuid"]
            await store.append(KEY, lines)
            branch = handle.on("claude/%2Dhome-ann-project/5f1c")
            branch.erase([branch.search("plum")[0]["commit"]], "a password")
            loaded: Any = await store.load(KEY)
            assert loaded[0]["message"] == {"role": "user", "content": "[erased]"}
            assert (loaded[0]["uuid"], loaded[1]) == (lines[0]["uuid"], lines[1])
            await store.append(KEY, [lines[0]])
            assert len(await store.load(KEY) or []) == 2

    asyncio.run(run())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
LINES = st.builds(
    lambda kind, members: {"type": kind, **members},
    st.sampled_from(["user", "assistant", "system", "summary", "progress"]),
    st.dictionaries(
        st.sampled_from(["message", "uuid", "parentUuid", "isMeta", "timestamp", "content"]), JSON
    ),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(LINES, max_size=3), max_size=3), st.text(), st.text())
def test_any_lines_are_loaded_as_appended(batches: list[list[Any]], project: str, session: str) -> None:
    async def run() -> None:
        with SessionStore("memory:") as store:
            key: SessionKey = {"project_key": project, "session_id": session}
            expected: list[Any] = []
            seen = set()
            for batch in batches:
                await store.append(key, batch)
                for entry in batch:
                    if isinstance(entry.get("uuid"), str):
                        if entry["uuid"] in seen:
                            continue
                        seen.add(entry["uuid"])
                    expected.append(entry)
            assert await store.load(key) == (expected or None)

    asyncio.run(run())


KEYS = st.builds(
    lambda project, session, subpath: {"project_key": project, "session_id": session, **subpath},
    st.sampled_from(["-p", "q"]),
    st.sampled_from(["s", "s2", "s.lock"]),
    st.sampled_from([{}, {}, {"subpath": "subagents/agent-1"}, {"subpath": "subagents/agent-1/deep"}]),
)


class Transcripts(RuleBasedStateMachine):
    """The same calls on the SDK's store in memory and on ours have the same results."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = tract.open("memory:")
        self.ours = [SessionStore(self.handle), SessionStore(self.handle)]
        self.theirs = InMemorySessionStore()

    def teardown(self) -> None:
        assert self.handle.verify()["clean"]
        self.handle.close()

    @rule(key=KEYS, place=st.integers(0, 1), batch=st.lists(LINES, min_size=1, max_size=4))
    def append(self, key: Any, place: int, batch: list[Any]) -> None:
        async def run() -> None:
            # The store of the SDK keeps entries that are sent again.
            stored = await self.theirs.load(key) or []
            new: list[Any] = []
            for entry in batch:
                uuid = entry.get("uuid")
                if not isinstance(uuid, str) or uuid not in [old.get("uuid") for old in (*stored, *new)]:
                    new.append(entry)
            await self.ours[place].append(key, batch)
            if new:
                await self.theirs.append(key, new)

        asyncio.run(run())

    @rule(key=KEYS, place=st.integers(0, 1))
    def append_again(self, key: Any, place: int) -> None:
        async def run() -> None:
            stored = await self.theirs.load(key) or []
            again = [entry for entry in stored if isinstance(entry.get("uuid"), str)]
            await self.ours[place].append(key, again)

        asyncio.run(run())

    @rule(key=KEYS, place=st.integers(0, 1))
    def delete(self, key: Any, place: int) -> None:
        async def run() -> None:
            await self.ours[place].delete(key)
            await self.theirs.delete(key)

        asyncio.run(run())

    @rule(key=KEYS, place=st.integers(0, 1))
    def load(self, key: Any, place: int) -> None:
        async def run() -> None:
            assert await self.ours[place].load(key) == await self.theirs.load(key)
            subkeys = await self.ours[place].list_subkeys(key)
            assert sorted(subkeys) == sorted(await self.theirs.list_subkeys(key))

        asyncio.run(run())

    @invariant()
    def have_the_same_sessions(self) -> None:
        async def facts(store: Any, project: str) -> Any:
            sessions = [entry["session_id"] for entry in await store.list_sessions(project)]
            summaries = await store.list_session_summaries(project)
            return sorted(sessions), {entry["session_id"]: entry["data"] for entry in summaries}

        async def run() -> None:
            for project in ("-p", "q"):
                expected = await facts(self.theirs, project)
                assert await facts(self.ours[0], project) == expected

        asyncio.run(run())


TestTranscripts = Transcripts.TestCase
TestTranscripts.settings = settings(max_examples=10, stateful_step_count=15, deadline=None)
