import asyncio
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
import tract_context as tract
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from tract_context.langgraph import TractSaver

LONG = "The clock of the login server is wrong, so tokens look expired before they are used. " * 3


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class DeltaState(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


def config(thread: str, checkpoint: str | None = None, **more: Any) -> RunnableConfig:
    configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": "", **more}
    if checkpoint:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def chat(saver: BaseCheckpointSaver[Any], schema: type = State) -> Any:
    """A graph that answers each message."""

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}", id=str(uuid.uuid4()))]}

    graph: StateGraph[Any] = StateGraph(schema)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


def say(graph: Any, where: RunnableConfig, text: str) -> None:
    graph.invoke({"messages": [HumanMessage(text, id=f"h-{text[:8]}")]}, where)


def texts(handle: tract.Tract) -> list[str]:
    return [message["content"] for message in handle.compile().messages]


def test_all_81_cases_of_the_conformance_suite(adapted: tract.Tract) -> None:
    async def savers() -> Any:
        yield TractSaver(adapted)

    report = asyncio.run(validate(RegisteredCheckpointer(name="tract", factory=savers)))
    results = report.results.values()
    failures = [failure for result in results for failure in result.failures]
    assert failures == []
    assert all(result.detected for result in results), "no capability is missing"
    assert sum(result.tests_passed for result in results) == 81


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_langgraphs_own_tests(sdist: Callable[[str], Path], store: str) -> None:
    """443 functions take a checkpointer: all run but two; the plugin has the reasons.

    A server takes several minutes more, so the conformance suite has to do for it here.
    """
    suite = sdist("langgraph-1.2.24")
    takes_one = re.compile(r"\b(sync|async|make)_checkpointer: ")
    tests = [
        str(at) for at in sorted((suite / "tests").glob("test_*.py")) if takes_one.search(at.read_text())
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "langgraph_plugin"]
    paths = os.pathsep.join([str(Path(__file__).parent / "vendors"), str(suite)])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "TRACT_SUITE_STORE": store,
        "TRACT_SUITE_FUNCTIONS": "443",
    }
    run = subprocess.run(
        [*command, "-o", "addopts=", "-n", "2", *tests],
        cwd=suite,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr[-2000:]
    passed = re.search(r"^(\d+) passed", run.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) >= 441, run.stdout[-2000:]


def test_messages_of_a_thread_are_messages_of_a_branch(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    graph = chat(saver)
    say(graph, config("t1"), LONG)
    say(graph, config("t1"), "second")
    branch = adapted.on("langgraph/t1")
    assert texts(branch) == [LONG, f"answer to {LONG}", "second", "answer to second"]
    assert branch.log()[-1]["id"] in {hit["commit"] for hit in branch.search("clock login")}
    assert [message["role"] for message in branch.compile().messages] == ["user", "assistant"] * 2
    # Loading gives equal objects.
    stored = saver.get_tuple(config("t1"))
    assert stored is not None
    assert stored.checkpoint["channel_values"]["messages"] == graph.get_state(config("t1")).values["messages"]


def test_a_fork_is_a_branch_and_keeps_the_other_history(adapted: tract.Tract) -> None:
    graph = chat(TractSaver(adapted))
    for text in ("one", "two"):
        say(graph, config("t1"), text)
    history = list(graph.get_state_history(config("t1")))
    after_one = next(at for at in history if len(at.values.get("messages", ())) == 2 and not at.next)
    say(graph, after_one.config, "other")
    assert texts(adapted.on("langgraph/t1")) == ["one", "answer to one", "other", "answer to other"]
    forks = [at["name"] for at in adapted.branches() if at["name"].startswith("langgraph/t1/fork-")]
    assert len(forks) == 1
    assert texts(adapted.on(forks[0])) == ["one", "answer to one", "two", "answer to two"]


def test_edits_and_removals_follow(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    graph = chat(saver)
    for text in ("one", "two", "three"):
        say(graph, config("t1"), text)
    graph.update_state(config("t1"), {"messages": [HumanMessage("TWO", id="h-two"), RemoveMessage("h-one")]})
    expected = ["answer to one", "TWO", "answer to two", "three", "answer to three"]
    assert texts(adapted.on("langgraph/t1")) == expected
    again = TractSaver(adapted).get_tuple(config("t1"))
    assert again is not None
    assert [m.content for m in again.checkpoint["channel_values"]["messages"]] == expected
    say(graph, config("t1"), "four")
    assert texts(adapted.on("langgraph/t1")) == [*expected, "four", "answer to four"]


def test_a_message_that_is_changed_in_place_is_stored(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    message = AIMessage("a", id="m1", additional_kwargs={"nested": {"count": 1}})
    checkpoint: Any = {
        "v": 1, "id": "1", "ts": "", "versions_seen": {}, "updated_channels": None,
        "channel_values": {"messages": [message]}, "channel_versions": {"messages": 1},
    }  # fmt: skip
    first = saver.put(config("t"), checkpoint, {}, {"messages": 1})
    message.additional_kwargs["nested"]["count"] = 2
    checkpoint = {**checkpoint, "id": "2", "channel_versions": {"messages": 2}}
    second = saver.put(first, checkpoint, {}, {"messages": 2})
    for at, count in ((first, 1), (second, 2)):
        found = TractSaver(adapted).get_tuple(at)
        assert found is not None
        stored = found.checkpoint["channel_values"]["messages"][0]
        assert stored.additional_kwargs["nested"]["count"] == count


def test_tool_calls_and_results_are_paired(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    call = AIMessage("", id="a", tool_calls=[{"id": "c1", "name": "grep", "args": {"path": "src"}}])
    messages = [HumanMessage("look", id="h"), call, ToolMessage("3 lines", tool_call_id="c1", id="r")]
    graph = StateGraph(State)
    graph.add_node("work", lambda _: {"messages": messages})
    graph.add_edge(START, "work")
    graph.compile(checkpointer=saver).invoke({"messages": []}, config("t"))
    compiled = adapted.on("langgraph/t").compile().to_openai()
    assert compiled[1]["tool_calls"][0]["function"]["name"] == "grep"
    assert compiled[2]["tool_call_id"] == "c1"


def test_nothing_is_plain_with_an_encrypting_serializer(tmp_path: Path) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456")
    path = tmp_path / "agent.db"
    with TractSaver(f"sqlite:{path}", serde=serde) as saver:
        graph = chat(saver)
        say(graph, config("t"), LONG)
        say(graph, config("t"), "second")
        assert [at["name"] for at in saver.tract.branches()] == []
        assert len(graph.get_state(config("t")).values["messages"]) == 4
    for file in tmp_path.iterdir():
        assert b"clock of the login" not in file.read_bytes()


@pytest.mark.parametrize("schema", [State, DeltaState])
def test_the_same_states_as_in_memory(adapted: tract.Tract, schema: type) -> None:
    """Runs, forks and states of a thread, against LangGraph's own saver."""
    saver = TractSaver(adapted)
    states = []
    for at in (saver, InMemorySaver()):
        graph = chat(at, schema)
        for number in range(5):
            say(graph, config("t"), f"text {number}")
        history = list(graph.get_state_history(config("t")))
        say(graph, next(h for h in history if len(h.values.get("messages", ())) == 4).config, "fork")
        found = list(graph.get_state_history(config("t")))
        states.append([[m.content for m in h.values.get("messages", ())] for h in found])
    assert states[0] == states[1]


def test_a_copy_survives_its_source(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    graph = chat(saver)
    say(graph, config("t/1"), LONG)
    saver.copy_thread("t/1", "t 2")
    before = graph.get_state(config("t 2")).values["messages"]
    saver.delete_thread("t/1")
    assert TractSaver(adapted).get_tuple(config("t/1")) is None
    assert chat(TractSaver(adapted)).get_state(config("t 2")).values["messages"] == before
    assert {at.config["configurable"]["thread_id"] for at in saver.list(None)} == {"t 2"}
    saver.copy_thread("t 2", "t 3")
    with pytest.raises(tract.TractError) as raised:
        saver.copy_thread("t 2", "t 3")
    assert raised.value.code == "exists"


def test_a_thread_is_copied_over_the_branch_of_deleted_runs(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    graph = chat(saver)
    say(graph, config("t1"), "one")
    graph.invoke(
        {"messages": [HumanMessage("old", id="h-old")]}, {**config("t2"), "metadata": {"run_id": "r2"}}
    )
    saver.delete_for_runs(["r2"])
    assert saver.get_tuple(config("t2")) is None
    saver.copy_thread("t1", "t2")
    assert texts(adapted.on("langgraph/t2")) == ["one", "answer to one"]
    forks = [at["name"] for at in adapted.branches() if at["name"].startswith("langgraph/t2/fork-")]
    assert [texts(adapted.on(name)) for name in forks] == [["old", "answer to old"]]
    say(graph, config("t2"), "two")
    assert texts(adapted.on("langgraph/t2")) == ["one", "answer to one", "two", "answer to two"]
    assert texts(adapted.on("langgraph/t1")) == ["one", "answer to one"]


@pytest.mark.parametrize("schema", [State, DeltaState])
def test_prune_keeps_the_state_and_the_messages(adapted: tract.Tract, schema: type) -> None:
    saver = TractSaver(adapted)
    graph = chat(saver, schema)
    for number in range(5):
        say(graph, config("t"), f"text {number}")
    before = graph.get_state(config("t"))
    count = len(list(saver.list(config("t"))))
    saver.prune(["t"])
    other = chat(TractSaver(adapted), schema)
    assert other.get_state(config("t")).values == before.values
    assert len(list(saver.list(config("t")))) < count
    say(other, config("t"), "more")
    assert len(graph.get_state(config("t")).values["messages"]) == 12
    with pytest.raises(tract.TractError):
        saver.prune(["t"], strategy="some")


def test_writes_of_threads_and_savers_are_not_lost(adapted: tract.Tract) -> None:
    savers = [TractSaver(adapted) for _ in range(4)]
    where = config("t", "1")

    def work(number: int) -> None:
        for index in range(5):
            savers[number].put_writes(where, [("c", (number, index))], f"{number}-{index}")
            savers[number].put(config("t"), checkpoint_of(f"{number}-{index}"), {}, {})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saver = TractSaver(adapted)
    assert len(list(saver.list(config("t")))) == 20
    saver.put(config("t"), checkpoint_of("1"), {}, {})
    found = saver.get_tuple(where)
    assert found is not None and found.pending_writes is not None
    assert len(found.pending_writes) == 20


def fill(saver: TractSaver, numbers: range, thread: str = "t") -> None:
    """Add a checkpoint with one more message for each number, and a write for it."""
    for number in numbers:
        newest = saver.get_tuple(config(thread))
        before = newest.checkpoint["channel_values"]["messages"] if newest else []
        checkpoint: Any = {
            **checkpoint_of(f"{number:04}"),
            "channel_values": {"messages": [*before, HumanMessage(f"text {number}", id=str(number))]},
            "channel_versions": {"messages": number + 1},
        }
        metadata: Any = {"run_id": f"run {number // 100}"}
        at = saver.put(
            newest.config if newest else config(thread), checkpoint, metadata, {"messages": number}
        )
        saver.put_writes(at, [("c", number), ("d", -number)], "task")


def ids(found: Iterator[CheckpointTuple]) -> list[str]:
    return [at.checkpoint["id"] for at in found]


def check(saver: TractSaver, numbers: range, at: int, thread: str = "t") -> None:
    """Check a checkpoint of a filled thread."""
    found = saver.get_tuple(config(thread, f"{at:04}"))
    assert found is not None and found.pending_writes is not None
    texts = [message.content for message in found.checkpoint["channel_values"]["messages"]]
    assert texts == [f"text {number}" for number in range(at + 1)]
    assert found.pending_writes == [("task", "c", at), ("task", "d", -at)]
    if at > numbers.start:
        assert found.parent_config == config(thread, f"{at - 1:04}")


def test_a_long_thread_is_read_by_another_saver(adapted: tract.Tract) -> None:
    fill(TractSaver(adapted), numbers := range(150))
    for at in (149, 148, 75, 64, 1, 0):
        check(TractSaver(adapted), numbers, at)
    saver = TractSaver(adapted)
    assert ids(saver.list(config("t"), limit=2)) == ["0149", "0148"]
    assert ids(saver.list(config("t"), before=config("t", "0003"))) == ["0002", "0001", "0000"]
    assert ids(saver.list(config("t"), filter={"run_id": "run 1"}, limit=60)) == [
        f"{number:04}" for number in reversed(range(100, 150))
    ]
    assert ids(saver.list(None)) == [f"{number:04}" for number in reversed(numbers)]
    # Another saver goes on, also from an old checkpoint.
    fill(saver, range(150, 152))
    old = saver.get_tuple(config("t", "0010"))
    assert old is not None
    fork: Any = {
        **checkpoint_of("0152"),
        "channel_values": {"messages": [*old.checkpoint["channel_values"]["messages"], HumanMessage("fork")]},
        "channel_versions": {"messages": 500},
    }
    TractSaver(adapted).put(old.config, fork, {}, {"messages": 500})
    branch = texts(adapted.on("langgraph/t"))
    assert branch == [*(f"text {number}" for number in range(11)), "fork"]
    names = [at["name"] for at in adapted.branches()]
    forks = [texts(adapted.on(name)) for name in names if name.startswith("langgraph/t/fork-")]
    assert [f"text {number}" for number in range(152)] in forks


def test_savers_take_turns_in_a_long_thread(adapted: tract.Tract) -> None:
    savers = [TractSaver(adapted), TractSaver(adapted)]
    for turn, length in enumerate((10, 50, 3, 70, 1, 40)):
        start = sum((10, 50, 3, 70, 1, 40)[:turn])
        fill(savers[turn % 2], range(start, start + length))
    for saver in (*savers, TractSaver(adapted)):
        assert ids(saver.list(config("t"))) == [f"{number:04}" for number in reversed(range(174))]
        check(saver, range(174), 173)
        check(saver, range(174), 60)
    assert texts(adapted.on("langgraph/t")) == [f"text {number}" for number in range(174)]


def test_a_long_thread_without_some_runs_is_complete(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    fill(saver, range(250))
    saver.copy_thread("t", "copy")
    listing = saver.list(config("t"))
    assert next(listing).checkpoint["id"] == "0249"
    other = TractSaver(adapted)
    other.delete_for_runs(["run 1"])
    left = [f"{number:04}" for number in reversed([*range(100), *range(200, 250)])]
    for reader in (saver, other, TractSaver(adapted)):
        assert ids(reader.list(config("t"))) == left
        assert ids(reader.list(config("copy"))) == left
        for thread in ("t", "copy"):
            check(reader, range(200, 250), 249, thread)
            check(reader, range(250), 99, thread)
    # The listing that had begun goes on where it was.
    assert ids(listing) == left[1:]
    fill(other, range(250, 320))
    check(TractSaver(adapted), range(200, 320), 319)
    other.prune(["t"])
    assert ids(TractSaver(adapted).list(config("t"))) == ["0319"]
    check(TractSaver(adapted), range(319, 320), 319)
    check(TractSaver(adapted), range(200, 250), 249, "copy")
    fill(saver, range(320, 322))
    check(TractSaver(adapted), range(319, 322), 321)


def test_a_list_that_keeps_changing_stays_short_to_read(adapted: tract.Tract) -> None:
    saver = TractSaver(adapted)
    at = config("t")
    for number in range(200):
        messages = [HumanMessage("first", id="first"), HumanMessage(str(number), id="last")]
        checkpoint: Any = {
            **checkpoint_of(f"{number:04}"),
            "channel_values": {"messages": messages},
            "channel_versions": {"messages": number},
        }
        at = saver.put(at, checkpoint, {}, {"messages": number})
    found = TractSaver(adapted).get_tuple(at)
    assert found is not None
    assert [m.content for m in found.checkpoint["channel_values"]["messages"]] == ["first", "199"]
    branch = adapted.on("langgraph/t")
    assert texts(branch) == ["first", "199"]
    assert len([at for at in branch.log(limit=500) if at["op"]["name"] == "edit"]) == 199


def test_an_edit_by_another_saver_is_an_edit(adapted: tract.Tract) -> None:
    graph = chat(TractSaver(adapted))
    for text in ("one", "two"):
        say(graph, config("t"), text)
    chat(TractSaver(adapted)).update_state(config("t"), {"messages": [HumanMessage("ONE", id="h-one")]})
    branch = adapted.on("langgraph/t")
    assert texts(branch) == ["ONE", "answer to one", "two", "answer to two"]
    assert branch.log()[0]["op"]["name"] == "edit"


def test_prune_leaves_what_a_graph_goes_on_with(adapted: tract.Tract) -> None:
    """As in LangGraph's saver on PostgreSQL, but a `DeltaChannel` is no reason to refuse."""
    saver = TractSaver(adapted)
    with pytest.raises(TypeError):
        saver.prune("t")
    graphs = chat(saver), chat(saver, DeltaState)
    for number in range(4):
        say(graphs[0], config("plain"), f"text {number}")
        say(graphs[1], config("delta"), f"text {number}")
    before = [
        graph.get_state(config(name)).values for graph, name in zip(graphs, ("plain", "delta"), strict=True)
    ]
    saver.prune(["plain", "delta"])
    assert len(list(saver.list(config("plain")))) == 1
    newest = saver.get_tuple(config("plain"))
    assert newest is not None and newest.parent_config is None
    after = [
        graph.get_state(config(name)).values for graph, name in zip(graphs, ("plain", "delta"), strict=True)
    ]
    assert after == before


def checkpoint_of(id_: str) -> Any:
    return {
        "v": 1, "id": id_, "ts": "", "versions_seen": {}, "updated_channels": None,
        "channel_values": {}, "channel_versions": {},
    }  # fmt: skip


def test_bad_input_raises_and_changes_nothing(url: str) -> None:
    with pytest.raises(TypeError):
        TractSaver(42)  # type: ignore[arg-type]
    with pytest.raises(tract.TractError) as unknown:
        TractSaver("mysql:agent")
    assert unknown.value.code == "no_such_store"
    with TractSaver(url) as saver:
        with pytest.raises(tract.TractError):
            saver.put_writes(config("t"), [("c", 1)], "task")
        with pytest.raises(TypeError):
            bad: Any = {**checkpoint_of("1"), "channel_values": {"c": object()}}
            saver.put(config("t"), bad, {}, {"c": 1})
        assert list(saver.list(None)) == []
    with pytest.raises(tract.ClosedError):
        saver.get_tuple(config("t"))


def test_an_open_store_stays_open_and_asyncio_works(adapted: tract.Tract) -> None:
    async def run() -> list[AnyMessage]:
        async with TractSaver(adapted) as saver:
            graph = chat(saver)
            await asyncio.gather(
                *(
                    graph.ainvoke({"messages": [HumanMessage(f"hello {number}")]}, config(f"t{number}"))
                    for number in range(20)
                )
            )
            state = await graph.aget_state(config("t7"))
            messages: list[AnyMessage] = state.values["messages"]
            return messages

    messages = asyncio.run(run())
    assert [message.content for message in messages] == ["hello 7", "answer to hello 7"]
    assert texts(adapted.on("langgraph/t7")) == ["hello 7", "answer to hello 7"]
