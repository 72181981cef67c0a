"""Runs the tests of LangGraph that take a checkpointer on `tract_context.langgraph.TractSaver`.

A pytest plugin for the vendor's sdist: it replaces the savers in memory, on SQLite and on PostgreSQL, and
selects each test that takes one of them once. `TRACT_SUITE_STORE` is `memory`, `sqlite`, or the URL of a
PostgreSQL database.
"""

import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from tract_context.langgraph import TractSaver

from tests import conftest_checkpointer as savers  # type: ignore[attr-defined]

STORE = os.environ["TRACT_SUITE_STORE"]

REFUSES = "it expects `prune` to refuse a `DeltaChannel`, which this saver supports"

# The tests that do not run, each with the reason.
EXCEPTIONS = {
    "test_keep_latest_refuses_a_batch_with_a_delta_channel_thread": REFUSES,
    "test_akeep_latest_refuses_a_batch_with_a_delta_channel_thread": REFUSES,
}

FIXTURES = ("sync_checkpointer", "async_checkpointer", "make_checkpointer")


@contextmanager
def _saver(serde: Any = None) -> Iterator[TractSaver]:
    if STORE == "memory":
        with TractSaver("memory:", serde=serde) as saver:
            yield saver
    elif STORE == "sqlite":
        with (
            tempfile.TemporaryDirectory() as folder,
            TractSaver(f"sqlite:{Path(folder) / 'agent.db'}", serde=serde) as saver,
        ):
            yield saver
    else:
        with (
            tract.open(STORE, repo=f"suite-{uuid.uuid4()}") as store,
            TractSaver(store, serde=serde) as saver,
        ):
            yield saver


@contextmanager
def _encrypted() -> Iterator[TractSaver]:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456")
    with _saver(serde) as saver:
        yield saver


@asynccontextmanager
async def _saver_aio() -> AsyncIterator[TractSaver]:
    with _saver() as saver:
        yield saver


replaced: dict[str, Callable[[], Any]] = {
    "_checkpointer_memory": _saver,
    "_checkpointer_sqlite_aes": _encrypted,
    "_checkpointer_sqlite_aio": _saver_aio,
    "_checkpointer_postgres": _saver,
    "_checkpointer_postgres_aio": _saver_aio,
}
for name, saver in replaced.items():
    assert hasattr(savers, name), f"the vendor renamed {name}"
    setattr(savers, name, saver)


def _function(item: pytest.Item) -> str:
    return getattr(item, "originalname", item.name)


def _is_run(item: pytest.Item, params: dict[str, Any]) -> bool:
    if _function(item) in EXCEPTIONS or params.get("cache") == "redis":
        return False
    if any(params.get(store, "in_memory") != "in_memory" for store in ("sync_store", "async_store")):
        return False
    sync = {"memory", "sqlite_aes"} if STORE == "memory" else {"memory"}
    return (
        params.get("sync_checkpointer") in sync
        or params.get("async_checkpointer") == "sqlite_aio"
        or params.get("make_checkpointer") in (_saver, _saver_aio)
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions: set[tuple[str, str]] = set()
    kept: dict[pytest.Item, tuple[str, str]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        params: dict[str, Any] = callspec.params if callspec is not None else {}
        if any(fixture in params for fixture in FIXTURES):
            function = (item.nodeid.split("::")[0], _function(item))
            functions.add(function)
            if _is_run(item, params):
                kept[item] = function
    left_out = {name for _, name in functions - set(kept.values())}
    expected = os.environ["TRACT_SUITE_FUNCTIONS"]
    if left_out != set(EXCEPTIONS) or str(len(functions)) != expected:
        raise pytest.UsageError(
            f"{len(functions)} functions, {expected} expected; without a run: {sorted(left_out)}"
        )
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = list(kept)
