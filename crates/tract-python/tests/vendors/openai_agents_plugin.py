"""Runs the session tests of openai-agents on `tract_context.openai_agents.Session`.

A pytest plugin for the suite of the vendor's sdist: it replaces `agents.SQLiteSession` before the tests
are imported. `TRACT_SUITE_STORE` is `memory`, `sqlite`, or the URL of a PostgreSQL database.
"""

import os
import uuid
from pathlib import Path
from typing import Any

import agents
import pytest
import tract_context as tract
from agents import SessionSettings
from tract_context.openai_agents import Session

STORE = os.environ["TRACT_SUITE_STORE"]

CONNECTIONS = "it inspects the class's SQLite connections"
TABLES = "it writes to or drops the class's SQLite tables"

# The tests that inspect SQLite, each with the reason.
EXCEPTIONS = {
    "test_sqlite_session_close_closes_worker_thread_connections": CONNECTIONS,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": CONNECTIONS,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": CONNECTIONS,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": CONNECTIONS,
    "test_sqlite_session_file_lock_is_shared_across_instances": CONNECTIONS,
    "test_sqlite_session_rollback_failure_evicts_connection": CONNECTIONS,
    "test_sqlite_session_close_retries_quarantined_connection": CONNECTIONS,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": CONNECTIONS,
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": TABLES,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": TABLES,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": TABLES,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": TABLES,
    "test_sqlite_session_failed_add_items_releases_write_lock": TABLES,
    "test_sqlite_session_failed_clear_session_rolls_back": TABLES,
    "test_sqlite_session_failed_pop_item_releases_write_lock": TABLES,
    "test_sqlite_session_closed_rejects_empty_add_items": "it expects the class's name in the message",
}

_stores: dict[str, tract.Tract] = {}


def _open(path: str | Path) -> str | tract.Tract:
    """Return the store that replaces a database file."""
    if STORE == "sqlite" and str(path) != ":memory:":
        return f"sqlite:{path}"
    if STORE in ("memory", "sqlite"):
        opened = _stores.get(str(path)) or tract.open("memory:")
    else:
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{os.getpid()} {path}")
        opened = _stores.get(str(path)) or tract.open(STORE, repo=f"suite-{name}")
    if str(path) != ":memory:":
        _stores[str(path)] = opened
    return opened


class SQLiteSession(Session):
    """The adapter behind the constructor of the vendor's class."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(session_id, _open(db_path), session_settings=session_settings)


agents.SQLiteSession = SQLiteSession  # type: ignore[misc, assignment]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = {getattr(item, "originalname", item.name) for item in items}
    if unknown := EXCEPTIONS.keys() - names:
        raise pytest.UsageError(f"no such tests: {sorted(unknown)}")
    excluded = [item for item in items if getattr(item, "originalname", item.name) in EXCEPTIONS]
    config.hook.pytest_deselected(items=excluded)
    items[:] = [item for item in items if item not in excluded]
