"""Every block of Python in the documentation runs."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
import tract_context

ROOT = Path(__file__).parents[3]


PAGES = [
    "README.md",
    "crates/tract-python/README.md",
    "docs/claude-agent-sdk.md",
    "docs/openai-agents.md",
    "docs/pydantic-ai.md",
    "docs/tutorial-python.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_are_one_program(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_the_example_of_the_module() -> None:
    result = doctest.testmod(tract_context)
    assert (result.failed, result.attempted > 0) == (0, True)
