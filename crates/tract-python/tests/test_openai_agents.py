"""Sessions of OpenAI's Agents SDK: the vendor's own tests, and the features of tract."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract
from agents import SQLiteSession
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from test_command import command
from tract_context.openai_agents import Session

HERE = Path(__file__).parent
PACKAGE = Path(tract.__file__).parents[1]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def texts(items: list[Any]) -> list[Any]:
    return [item["content"] for item in items]


def test_the_vendors_suite(sdist: Callable[[str], Path], suite_store: str) -> None:
    """42 functions: 26 pass in 53 cases, and 16 inspect SQLite; the plugin has the reasons."""
    suite = sdist("openai_agents-0.24.0")
    tests = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "openai_agents_plugin"]
    paths = os.pathsep.join([str(HERE / "vendors"), str(suite), str(PACKAGE)])
    environment = {**os.environ, "PYTHONPATH": paths, "TRACT_SUITE_STORE": suite_store}
    run = subprocess.run([*command, *tests], cwd=suite, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^53 passed, 18 deselected in ", run.stdout, re.MULTILINE), run.stdout


def test_items_are_messages_of_a_branch(adapted: tract.Tract) -> None:
    async def run() -> None:
        session = Session("user/42", adapted)
        call = {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": '{"b": 1e2}'}
        items: list[Any] = [
            user("Why does the login time out?"),
            call,
            {"type": "function_call_output", "call_id": "c1", "output": "3 lines"},
            {"role": "assistant", "content": "The clock is wrong."},
        ]
        await session.add_items(items)
        assert await session.get_items() == items
        branch = adapted.on("user/42")
        assert [m["role"] for m in branch.compile().messages] == ["user", "assistant", "tool", "assistant"]
        assert branch.search("login timeout")[0]["commit"] == branch.log()[-1]["id"]
        assert branch.compile().to_openai()[1]["tool_calls"][0]["function"]["arguments"] == '{"b": 1e2}'
        # The agent sees what tract changed.
        branch.edit("HEAD~3", "Why does the login fail?")
        branch.annotate("HEAD~1", "skip")
        assert texts((await session.get_items())[:1]) == ["Why does the login fail?"]
        branch.undo()
        branch.undo()
        assert await session.get_items() == items

    asyncio.run(run())


def test_popped_and_cleared_items_stay_in_the_history(adapted: tract.Tract) -> None:
    async def run() -> None:
        session = Session("s", adapted)
        await session.add_items([user(str(n)) for n in range(4)])
        assert await session.pop_item() == user("3")
        await session.add_items([user("4")])
        assert texts(await session.get_items()) == ["0", "1", "2", "4"]
        await session.clear_session()
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([user("5")])
        assert texts(await session.get_items()) == ["5"]
        assert len(adapted.on("s").log()) == 8

    asyncio.run(run())


def test_concurrent_callers_lose_nothing(adapted: tract.Tract) -> None:
    async def run() -> None:
        sessions = [Session("s", adapted) for _ in range(4)]
        await asyncio.gather(*(sessions[n % 4].add_items([user(str(n))]) for n in range(40)))
        popped = await asyncio.gather(*(sessions[n % 4].pop_item() for n in range(10)))
        left = await sessions[0].get_items()
        assert sorted(texts([*popped, *left]), key=int) == [str(n) for n in range(40)]

    asyncio.run(run())


def test_a_branch_shares_its_history(adapted: tract.Tract) -> None:
    async def run() -> None:
        session = Session("s", adapted)
        await session.add_items([user(str(n)) for n in range(6)])
        early = await session.branch("early", at=2)
        late = await session.branch("late", at=-1)
        whole = await session.branch("whole")
        empty = await session.branch("empty", at=0)
        named = await session.branch("named", at="s#3")
        await session.add_items([user("6")])
        await early.add_items([user("else")])
        assert texts(await early.get_items()) == ["0", "1", "else"]
        assert texts(await late.get_items()) == ["0", "1", "2", "3", "4"]
        assert texts(await whole.get_items()) == ["0", "1", "2", "3", "4", "5"]
        assert await empty.get_items() == []
        assert texts(await named.get_items()) == ["0", "1", "2"]
        assert adapted.on("early").log()[1]["id"] == adapted.on("s").log()[-2]["id"]
        # A branch of an edited session has the edit, and none of the later items.
        adapted.on("s").edit("s#1", "zero")
        assert texts(await (await session.branch("edited", at=2)).get_items()) == ["zero", "1"]
        with pytest.raises(tract.ConflictError):
            await session.branch("early")
        with pytest.raises(tract.TractError, match="has 7 items"):
            await session.branch("more", at=8)

    asyncio.run(run())


def test_compaction_keeps_concurrent_items(adapted: tract.Tract) -> None:
    async def run() -> None:
        other = Session("s", adapted)

        async def summarize(items: list[Any]) -> str:
            await other.add_items([user("added")])
            await other.pop_item()
            await other.add_items([user("added again")])
            return f"{len(items)} items"

        session = Session("s", adapted, summarize=summarize, compact_after=6, keep_last=2)
        await session.add_items([user(str(n)) for n in range(6)])
        await session.run_compaction({"response_id": "r1"})
        assert len(await session.get_items()) == 6
        await session.add_items([user("6")])
        await session.run_compaction()
        assert texts(await session.get_items()) == ["5 items", "5", "6", "added again"]
        assert len(adapted.on("s").log()) == 11

        async def clear(items: list[Any]) -> str:
            await other.clear_session()
            return "nothing"

        session = Session("s", adapted, summarize=clear, keep_last=1)
        await session.run_compaction({"force": True})
        with pytest.raises(tract.TractError, match="no summarizer"):
            await other.run_compaction({"force": True})
        await other.run_compaction()

    asyncio.run(run())


def test_the_store_is_closed_with_the_session_that_opened_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with Session("s", tmp_path / "agent.db") as session:
            await session.add_items([user("kept")])
        for call in (session.add_items([]), session.get_items(), session.pop_item()):
            with pytest.raises(tract.ClosedError):
                await call
        with tract.open(f"sqlite:{tmp_path / 'agent.db'}") as handle:
            with Session("s", handle) as session:
                assert await session.get_items() == [user("kept")]
            assert handle.on("s").head() is not None

    asyncio.run(run())


def test_an_imported_session_continues(tmp_path: Path) -> None:
    items: list[Any] = [
        user("my password is plum"),
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"call_id": "c1", "output": "sunny", "type": "function_call_output"},
    ]
    database, url = tmp_path / "agent.db", f"sqlite:{tmp_path / 'tract.db'}"

    async def run() -> None:
        old = SQLiteSession("s1", database)
        await old.add_items(items)
        old.close()
        tract.open(url).close()
        imported = command("--store", url, "import", "openai-agents", str(database))
        assert imported.returncode == 0, imported.stderr
        with Session("openai-agents/s1", url) as session:
            assert await session.get_items() == items
            await session.add_items([user("next")])
            secret = session.tract.search("plum")[0]["commit"]
            session.tract.erase([secret], "a password")
            assert texts((await session.get_items())[:1]) == ["[erased: a password]"]
            assert (await session.get_items())[1:] == [*items[1:], user("next")]

    asyncio.run(run())


def test_an_item_that_is_no_json_is_refused(adapted: tract.Tract) -> None:
    async def run() -> None:
        session = Session("s", adapted)
        wrong: Any = {"role": "user", "content": object()}
        with pytest.raises(TypeError):
            await session.add_items([user("x"), wrong])
        with pytest.raises(tract.TractError):
            await session.add_items([user("x"), user("\ud800")])
        assert await session.get_items() == []

    asyncio.run(run())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.dictionaries(
    st.sampled_from(["role", "content", "type", "call_id", "id", "output"]), VALUES
) | st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": st.text()}),
    st.fixed_dictionaries(
        {"type": st.just("function_call_output"), "call_id": st.text(), "output": st.text()}
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": st.text(), "name": st.text(), "arguments": st.text()}
    ),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(ITEMS, max_size=4), max_size=4), st.text(min_size=1, max_size=20))
def test_any_items_are_returned_byte_for_byte(batches: list[list[Any]], session_id: str) -> None:
    async def run() -> None:
        with Session(session_id, "memory:") as session:
            for batch in batches:
                await session.add_items(batch)
            items = [item for batch in batches for item in batch]
            assert json.dumps(await session.get_items()) == json.dumps(items)
            while items:
                assert json.dumps(await session.pop_item()) == json.dumps(items.pop())

    asyncio.run(run())


@settings(deadline=None)
@given(st.sets(st.text(max_size=12), min_size=2, max_size=6))
def test_different_sessions_have_different_branches(names: set[str]) -> None:
    with tract.open("memory:") as handle:
        branches = {Session(name, handle).tract.branch for name in names}
        assert len(branches) == len(names)


class Sessions(RuleBasedStateMachine):
    """The same calls on the SDK's session in SQLite and on ours have the same results."""

    names = st.sampled_from(["a", "b/c", "d e"])

    def __init__(self) -> None:
        super().__init__()
        self.handle = tract.open("memory:")
        self.ours: dict[tuple[str, int], Session] = {}
        self.theirs: dict[str, SQLiteSession] = {}
        self.begun: set[str] = set()

    def teardown(self) -> None:
        for session in self.theirs.values():
            session.close()
        assert self.handle.verify()["clean"]
        self.handle.close()

    def session(self, name: str, place: int = 0) -> Session:
        """Return one of two open sessions of a name."""
        if (name, place) not in self.ours:
            self.ours[(name, place)] = Session(name, self.handle)
        return self.ours[(name, place)]

    def reference(self, name: str) -> SQLiteSession:
        if name not in self.theirs:
            self.theirs[name] = SQLiteSession(name)
        return self.theirs[name]

    def both(self, name: str, place: int, call: Callable[[Any], Awaitable[Any]]) -> None:
        async def run() -> None:
            expected = await call(self.reference(name))
            assert json.dumps(await call(self.session(name, place))) == json.dumps(expected)

        asyncio.run(run())

    @rule(name=names, place=st.integers(0, 1), items=st.lists(ITEMS, max_size=4))
    def add(self, name: str, place: int, items: list[Any]) -> None:
        self.both(name, place, lambda session: session.add_items(items))
        if items:
            self.begun.add(name)

    @rule(name=names, place=st.integers(0, 1))
    def pop(self, name: str, place: int) -> None:
        self.both(name, place, lambda session: session.pop_item())

    @rule(name=names, place=st.integers(0, 1), limit=st.none() | st.integers(-1, 5))
    def get(self, name: str, place: int, limit: int | None) -> None:
        self.both(name, place, lambda session: session.get_items(limit))

    @rule(name=names, place=st.integers(0, 1))
    def clear(self, name: str, place: int) -> None:
        self.both(name, place, lambda session: session.clear_session())

    @rule(name=names, new=names, at=st.none() | st.integers(-4, 4))
    def branch(self, name: str, new: str, at: int | None) -> None:
        """Start a session from another; in SQLite, by a copy of its items."""

        async def run() -> None:
            items = await self.reference(name).get_items()
            if at is not None and not -len(items) <= at <= len(items):
                with pytest.raises(tract.TractError, match=f"has {len(items)} items"):
                    await self.session(name).branch(new, at)
            elif name in self.begun and new in self.begun:
                with pytest.raises(tract.ConflictError):
                    await self.session(name).branch(new, at)
            else:
                await self.session(name).branch(new, at)
                if name in self.begun:
                    await self.reference(new).add_items(items[:at])
                    self.begun.add(new)

        asyncio.run(run())

    @invariant()
    def have_the_same_items(self) -> None:
        for name in self.theirs:
            self.both(name, 1, lambda session: session.get_items())


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
