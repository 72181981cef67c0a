"""Databases and hashes of the original Python implementation, through the binding."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract
from test_command import command

BUNDLED = Path(__file__).parents[3] / "tests" / "data" / "python_tract"


def folder() -> Path:
    data = os.environ.get("TRACT_DATA", "none")
    return BUNDLED if data == "none" else Path(data) / "python_tract"


FILES = sorted(path for path in folder().glob("*.db") if path.with_suffix(".expected.json").exists())


def expected(path: Path) -> Any:
    return json.loads(path.with_suffix(".expected.json").read_text())


def test_there_are_files() -> None:
    assert {"v13.db", "v6.db", "v8.db"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_tools_have_the_hashes_of_the_original(path: Path, t: tract.Tract) -> None:
    for golden, schema in (expected(path).get("tool_definitions") or {}).items():
        t.set_tools([schema])
        assert [tool["id"] for tool in t.tools()] == [golden]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_branches_have_the_messages_of_the_original(path: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'agent.db'}"
    imported = command("--store", url, "import", "--json", "--format", "python-tract", str(path))
    assert imported.returncode == 0, imported.stderr
    branches = {}
    for line in imported.stdout.splitlines():
        report = json.loads(line)
        if "branch" in report and "id" in report:
            branches[report["id"]] = report["branch"]
    compared = 0
    with tract.open(url, create=False) as handle:
        for part in expected(path)["tracts"]:
            for branch in part["branches"]:
                ours = handle.on(branches[f"{part['tract_id']}/{branch['name']}"]).compile().to_openai()
                # The note of a merge was a message to the model, by a defect of the original.
                theirs = [m for m in branch["messages"] if not is_merge_note(m)]
                assert [shown(message) for message in ours] == [shown(message) for message in theirs]
                compared += 1
        assert handle.verify()["clean"]
    assert compared


def is_merge_note(message: dict[str, Any]) -> bool:
    return str(message["content"]).startswith('{\n  "message": "Merged ')


def shown(message: dict[str, Any]) -> Any:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    names = [(call["name"], call["arguments"]) for call in calls]
    call_id = message.get("tool_call_id")
    # OpenAI has no result without a call.
    role = "user" if message["role"] == "tool" and call_id is None else message["role"]
    return role, content, call_id, names
