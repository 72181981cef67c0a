"""Compares the saver for LangGraph with LangGraph's own, in one run: `python benches/langgraph_saver.py`.

A thread gets messages of 500 characters, each in a checkpoint of its own. Prints bytes per message, puts
per second at the end of the thread, the time to read the newest and an old checkpoint and to fork at it,
the same reads by a new process, and the growth of the process. Of more than 1,000 messages, LangGraph's
savers get each hundredth checkpoint only: they write the whole list with each one, which is gigabytes.

Then messages per second of graphs, which also store the input and the writes of tasks, with a plain list
and with a `DeltaChannel`. With `TRACT_POSTGRES_URL`, all of it again on that server through asyncio.

Each saver runs in a process of its own. Builds must be optimized: `maturin develop --release`.
"""

import asyncio
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import tract_context as tract
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
SERVER = os.environ.get("TRACT_POSTGRES_URL", "")
WORDS = [
    f"{a}{b}{c}"
    for a in ("re", "con", "un", "trans")
    for b in ("mit", "fer", "sert", "pose")
    for c in "aeiou"
]
THREAD: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def text(source: random.Random) -> str:
    words: list[str] = []
    while len(" ".join(words)) < 500:
        words.append(source.choice(WORDS))
    return " ".join(words)[:500]


@contextlib.asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[Saver]:
    path = folder / "agent.db"
    if name == "memory":
        yield InMemorySaver()
    elif name == "sqlite":
        with SqliteSaver.from_conn_string(str(path)) as saver:
            yield saver
    elif name == "tract":
        with TractSaver(f"sqlite:{path}") as own:
            yield own
    elif name == "tract-postgres":
        with tract.open(SERVER, repo=folder.name) as store, TractSaver(store) as own:
            yield own
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        async with AsyncPostgresSaver.from_conn_string(SERVER) as theirs:
            await theirs.setup()
            yield theirs


def is_on_server(name: str) -> bool:
    return name.endswith("postgres")


async def size(folder: Path) -> int:
    files = sum(file.stat().st_size for file in folder.iterdir())
    if not SERVER:
        return files
    import psycopg

    async with await psycopg.AsyncConnection.connect(SERVER) as connection:
        row = await (await connection.execute("SELECT pg_database_size(current_database())")).fetchone()
        assert row is not None
        return files + int(row[0])


def put_of(saver: Saver, on_server: bool) -> Callable[..., Awaitable[RunnableConfig]]:
    async def put(*arguments: Any) -> RunnableConfig:
        return saver.put(*arguments)

    return saver.aput if on_server else put


async def read(saver: Saver, on_server: bool, config: RunnableConfig, rounds: int = 5) -> float:
    """Return milliseconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        found = await saver.aget_tuple(config) if on_server else saver.get_tuple(config)
        times.append(time.perf_counter() - started)
        assert found is not None
    return sorted(times)[rounds // 2] * 1000


def checkpoint_of(messages: list[AnyMessage], version: Any) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": version}
    return checkpoint


async def puts(name: str, count: int) -> dict[str, float]:
    source = random.Random(count)
    on_server = is_on_server(name)
    step = 1 if name.startswith("tract") or count <= 1000 else 100
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        before = await size(folder)
        async with opened(name, folder) as saver:
            put = put_of(saver, on_server)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            config = THREAD
            messages: list[AnyMessage] = []
            configs: list[RunnableConfig] = []
            version: Any = None
            seconds = []
            for number in range(count):
                kind = HumanMessage if number % 2 == 0 else AIMessage
                messages = [*messages, kind(text(source), id=str(uuid.UUID(int=source.getrandbits(128))))]
                if (number + 1) % step:
                    continue
                version = saver.get_next_version(version, None)
                arguments = (checkpoint_of(messages, version), {"source": "loop", "step": number})
                started = time.perf_counter()
                config = await put(config, *arguments, {"messages": version})
                seconds.append(time.perf_counter() - started)
                configs.append(config)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            old = configs[len(configs) // 2]
            last = seconds[-max(1, len(seconds) // 10) :]
            result = {
                "puts": len(last) / sum(last),
                "newest": await read(saver, on_server, THREAD),
                "old": await read(saver, on_server, old),
                "mib": memory / 1024,
            }
        if name != "memory":
            async with opened(name, folder) as cold:
                result["cold_newest"] = await read(cold, on_server, THREAD, 1)
            async with opened(name, folder) as cold:
                result["cold_old"] = await read(cold, on_server, old, 1)
        # The database has its final size once it is closed.
        result["bytes"] = (await size(folder) - before) / count if name != "memory" else 0
        async with opened(name, folder) as saver:
            if name != "memory":
                found = saver.get_tuple(old) if not on_server else await saver.aget_tuple(old)
                assert found is not None
                messages = found.checkpoint["channel_values"]["messages"]
                version = saver.get_next_version(version, None)
                fork = checkpoint_of([*messages, HumanMessage("another way")], version)
                started = time.perf_counter()
                await put_of(saver, on_server)(
                    old, fork, {"source": "fork", "step": 0}, {"messages": version}
                )
                result["fork"] = (time.perf_counter() - started) * 1000
        return result


class Plain(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=100)]


async def graph(name: str, schema: type, count: int) -> dict[str, float]:
    """A graph that answers each message."""
    source = random.Random(count)
    builder: StateGraph[Any] = StateGraph(schema)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(text(source), id=str(uuid.uuid4()))]})
    builder.add_edge(START, "answer")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        before = await size(folder)
        async with opened(name, folder) as saver:
            compiled = builder.compile(checkpointer=saver)
            started = time.perf_counter()
            for _ in range(count // 2):
                message: Any = {"messages": [HumanMessage(text(source))]}
                if is_on_server(name):
                    await compiled.ainvoke(message, THREAD)
                else:
                    compiled.invoke(message, THREAD)
            rate = count / (time.perf_counter() - started)
        return {"rate": rate, "bytes": (await size(folder) - before) / count if name != "memory" else 0}


def one(*arguments: str) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    run = subprocess.run([sys.executable, __file__, "one", *arguments], stdout=subprocess.PIPE, check=True)
    result: dict[str, float] = json.loads(run.stdout)
    return result


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        name, what, count = sys.argv[2], sys.argv[3], int(sys.argv[4])
        schemas = {"Plain": Plain, "Delta": Delta}
        work = puts(name, count) if what == "puts" else graph(name, schemas[what], count)
        print(json.dumps(asyncio.run(work)))
        return
    counts = [int(argument) for argument in sys.argv[1:]] or [1000, 5000]
    names = ["tract-postgres", "postgres"] if SERVER else ["tract", "sqlite", "memory"]
    for count in counts:
        print(f"{count} messages, one checkpoint each", flush=True)
        for name in names:
            found = one(name, "puts", str(count))
            print(
                f"  {name:14} {found['bytes']:8.0f} B/message {found['puts']:7.0f} puts/s,"
                f" ms: {found['newest']:.1f} newest, {found['old']:.1f} old,"
                f" {found.get('cold_newest', 0):.1f} newest cold, {found.get('cold_old', 0):.1f} old cold,"
                f" {found.get('fork', 0):.1f} fork; {found['mib']:.0f} MiB",
                flush=True,
            )
    for schema in ("Plain", "Delta"):
        print(f"{counts[0]} messages in a graph, {schema}", flush=True)
        for name in names:
            found = one(name, schema, str(counts[0]))
            print(f"  {name:14} {found['bytes']:8.0f} B/message {found['rate']:7.0f} messages/s", flush=True)


if __name__ == "__main__":
    main()
