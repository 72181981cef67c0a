"""Every block of Python in the documentation runs."""

import doctest
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tract_context
from tract_context import claude_agent, openai_agents, pydantic_ai

ROOT = Path(__file__).parents[3]


PAGES = [
    "README.md",
    "crates/tract-python/README.md",
    "docs/claude-agent-sdk.md",
    "docs/langgraph.md",
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


@pytest.mark.parametrize("module", [tract_context, claude_agent, openai_agents, pydantic_ai])
def test_the_example_of_a_module(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
