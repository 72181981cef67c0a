"""Compares the saver for LangGraph with LangGraph's own, in one run: `python benches/langgraph_saver.py`.

A thread gets messages of 500 characters, each in a checkpoint of its own. Prints bytes per message, puts
per second at the end of the thread, and the time to read the newest and an old checkpoint. Then the same
for graphs, which also store the input and the writes of tasks, with a plain list and with a `DeltaChannel`.
Builds must be optimized: `maturin develop --release`.
"""

import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from tract_context.langgraph import TractSaver

Saver = BaseCheckpointSaver[Any]
WORDS = [
    f"{a}{b}{c}"
    for a in ("re", "con", "un", "trans")
    for b in ("mit", "fer", "sert", "pose")
    for c in "aeiou"
]


def text(source: random.Random) -> str:
    words: list[str] = []
    while len(" ".join(words)) < 500:
        words.append(source.choice(WORDS))
    return " ".join(words)[:500]


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def puts(saver: Saver, count: int) -> tuple[float, float, float]:
    """Return puts per second of the last tenth, and milliseconds to read the newest and an old one."""
    source = random.Random(count)
    config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    messages: list[AnyMessage] = []
    configs: list[RunnableConfig] = []
    version: Any = None
    started = time.perf_counter()
    for number in range(count):
        if number == count - count // 10:
            started = time.perf_counter()
        kind = HumanMessage if number % 2 == 0 else AIMessage
        messages = [*messages, kind(text(source), id=str(uuid.UUID(int=source.getrandbits(128))))]
        version = saver.get_next_version(version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": version}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"messages": version})
        configs.append(config)
    rate = (count // 10) / (time.perf_counter() - started)
    newest: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    return rate, read(saver, newest), read(saver, configs[count // 2])


def read(saver: Saver, config: RunnableConfig) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        assert saver.get_tuple(config) is not None
        times.append(time.perf_counter() - started)
    return sorted(times)[2] * 1000


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)]


def graph(saver: Saver, schema: type, count: int) -> float:
    """Return messages per second of a graph that answers each message."""
    source = random.Random(count)
    builder: StateGraph[Any] = StateGraph(schema)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(text(source), id=str(uuid.uuid4()))]})
    builder.add_edge(START, "answer")
    compiled = builder.compile(checkpointer=saver)
    started = time.perf_counter()
    for _ in range(count // 2):
        compiled.invoke({"messages": [HumanMessage(text(source))]}, {"configurable": {"thread_id": "t"}})
    return count / (time.perf_counter() - started)


def with_saver(name: str, work: Callable[[Saver], Any]) -> tuple[Any, float]:
    """Return the result of the work and the bytes on disk."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "memory":
            return work(InMemorySaver()), 0
        path = Path(folder) / "agent.db"
        if name == "sqlite":
            with SqliteSaver.from_conn_string(str(path)) as saver:
                result = work(saver)
        else:
            with TractSaver(f"sqlite:{path}") as own:
                result = work(own)
        return result, size(Path(folder))


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:]] or [1000, 5000]
    for count in counts:
        print(f"{count} messages, one checkpoint each")
        for name in ("tract", "sqlite", "memory"):
            if name == "sqlite" and count > 1000:
                continue  # The list is written again with each message: gigabytes.
            (rate, newest, old), disk = with_saver(name, partial(puts, count=count))
            print(
                f"  {name:7} {disk / count:10.0f} B/message {rate:8.0f} puts/s"
                f" {newest:8.1f} ms newest {old:8.1f} ms old"
            )
    count = counts[0]
    for schema in (Plain, Delta):
        print(f"{count} messages in a graph, {schema.__name__}")
        for name in ("tract", "sqlite", "memory"):
            rate, disk = with_saver(name, partial(graph, schema=schema, count=count))
            print(f"  {name:7} {disk / count:10.0f} B/message {rate:8.0f} messages/s")


if __name__ == "__main__":
    main()
