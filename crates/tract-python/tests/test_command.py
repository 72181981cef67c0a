"""The command line of the wheel, and equal results through Python and through it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tract_context as tract
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
OPERATIONS = st.lists(
    st.one_of(
        st.builds(lambda op, text: {"op": op, "text": text}, st.sampled_from(["system", "user"]), TEXT),
        st.builds(
            lambda text, reasoning: {"op": "assistant", "text": text, "reasoning": reasoning}, TEXT, TEXT
        ),
        st.builds(
            lambda n, arguments: {
                "op": "assistant",
                "text": "",
                "tool_calls": [{"id": f"c{n}", "name": "grep", "arguments": arguments}],
            },
            st.integers(0, 3),
            st.one_of(TEXT, st.dictionaries(TEXT, st.integers(), max_size=3)),
        ),
        st.builds(lambda name: {"op": "set_tools", "tools": [{"name": name}]}, st.sampled_from("abc")),
        st.builds(lambda text: {"op": "edit", "target": "HEAD#1", "content": text}, TEXT),
        st.builds(
            lambda priority: {"op": "annotate", "target": "HEAD#1", "priority": priority},
            st.sampled_from(["pinned", "normal"]),
        ),
    ),
    min_size=1,
    max_size=12,
)


def command(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "tract_context", *arguments]
    return subprocess.run(run, input=text, capture_output=True, text=True, timeout=60)


def test_the_command_line_is_in_the_wheel(url: str) -> None:
    assert command("--version").stdout.startswith("tract ")
    assert command("--help").returncode == 0
    assert command("no-such-verb").returncode == 2
    with tract.open(url) as t:
        head = t.commit({"role": "user", "content": "Do I need a coat?"})["id"]
    log = command("--json", "--store", url, "log")
    assert log.returncode == 0
    assert head in log.stdout
    assert command("--store", "sqlite:/none/none.db", "log").returncode == 3


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_python_and_the_command_line_make_equal_commits(
    tmp_path_factory: Any, operations: list[dict[str, Any]]
) -> None:
    folder: Path = tmp_path_factory.mktemp("equal")
    start = {"op": "user", "text": "start"}
    timed = [
        {**operation, "at": f"2026-01-31T09:30:{n:02}Z"} for n, operation in enumerate([start, *operations])
    ]
    url = f"sqlite:{folder / 'command.db'}"
    lines = "\n".join(json.dumps(operation, ensure_ascii=False, separators=(",", ":")) for operation in timed)
    with tract.open("memory:") as t:
        try:
            made = t.apply(timed)
        except tract.TractError:
            assert command("--store", url, "apply", "--atomic", "-", text=lines).returncode != 0
            return
        applied = command("--store", url, "apply", "-", text=lines)
        assert applied.returncode == 0, applied.stderr
        with tract.open(url) as stored:
            assert stored.head() == t.head() == made[-1]
            assert stored.compile().messages == t.compile().messages
