"""Bad input raises typed errors and leaves the store unchanged."""

import copy
import json
import pickle
import resource
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract


@pytest.mark.parametrize(
    "message",
    [
        "text",
        None,
        {},
        {"role": "user"},
        {"role": "user", "content": 7},
        {"role": "wizard", "content": "x"},
        {"role": "user", "content": "x", "unknown": 1},
        {"role": "user", "content": "\ud800"},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": {1, 2}},
        {"role": "tool", "tool_call_id": "none", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": ["x"]},
        {"op": "branch", "name": "x"},
        {"op": "user", "text": float("nan")},
    ],
)
def test_a_wrong_message_is_refused(t: tract.Tract, message: Any) -> None:
    with pytest.raises(tract.TractError) as error:
        t.commit(message)
    assert error.value.code
    assert t.head() is None


def test_an_unknown_revision_has_a_hint(t: tract.Tract) -> None:
    t.commit({"role": "user", "content": "x"})
    with pytest.raises(tract.UnknownRevisionError) as error:
        t.show("mian")
    assert error.value.code == "unknown_revision"
    assert error.value.notes == ('did you mean "main"?',)


def test_a_closed_handle_is_refused(url: str) -> None:
    t = tract.open(url)
    side = t.on("side")
    t.close()
    t.close()
    for handle in (t, side):
        with pytest.raises(tract.ClosedError):
            handle.head()
    assert "closed" in repr(t)
    with tract.open(url, create=False) as again:
        assert again.head() is None


def test_pickling_is_refused_with_a_reason(t: tract.Tract) -> None:
    for function in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="pass the URL"):
            function(t)


def test_an_error_crosses_processes() -> None:
    error = tract.ConflictError("main moved", code="conflict", notes=["again"])
    # The second way is that of task queues, which send the class and the arguments as JSON.
    for back in (pickle.loads(pickle.dumps(error)), tract.ConflictError(*json.loads(json.dumps(error.args)))):
        assert (type(back), str(back)) == (tract.ConflictError, "main moved")
        assert (back.code, back.notes, back.__notes__) == ("conflict", ("again",), ["note: again"])


def test_a_missing_store_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(tract.TractError) as error:
        tract.open(f"sqlite:{tmp_path / 'none.db'}", create=False)
    assert error.value.code == "no_store"
    assert not list(tmp_path.iterdir())
    with pytest.raises(tract.TractError) as error:
        tract.open("mysql:x")
    assert error.value.code == "no_such_store"


def test_a_foreign_file_is_unchanged(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database")
    database = tmp_path / "foreign.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table notes (text)")
    connection.close()
    for path in (text, database):
        before = path.read_bytes()
        with pytest.raises(tract.TractError):
            tract.open(f"sqlite:{path}")
        assert path.read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path, url: str) -> None:
    with tract.open(url) as t:
        t.commit({"role": "user", "content": "x"})
    path = tmp_path / "agent.db"
    with sqlite3.connect(path) as connection:
        (version,) = connection.execute("pragma user_version").fetchone()
        connection.execute(f"pragma user_version = {version + 1}")
    connection.close()
    with pytest.raises(tract.TractError) as error:
        tract.open(url)
    assert error.value.code == "format_too_new"


def test_a_full_disk_is_an_error_and_keeps_what_is_there(url: str) -> None:
    with tract.open(url) as t:
        head = t.commit({"role": "user", "content": "x"})["id"]
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(tract.TractError):
                for n in range(100):
                    head = t.commit({"role": "user", "content": str(n) * 20_000})["id"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert t.head() == head
    with tract.open(url) as t:
        assert t.head() == head
        assert t.verify()["clean"]
