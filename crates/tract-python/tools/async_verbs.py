"""Generate the async verbs from the sync ones: `python tools/async_verbs.py [--check]`.

A verb is a method of `Tract` that waits for the native module, or calls another verb. Its async twin
has the same signature, docstring and body, with `a` before its name and `await` before each call.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "tract_context"
TARGET = PACKAGE / "_async_verbs.py"

HEAD = '''\
"""The async verbs. Generated from `_tract.py` by `tools/async_verbs.py`."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tract_context._calls import (
    UNCHECKED,
    Message,
    Record,
    Unchecked,
    commit_call,
    commit_fields,
    decode,
    decode_commit,
    decode_commits,
)
from tract_context._compiled import Compiled
from tract_context._messages import text_of

if TYPE_CHECKING:
    from tract_context._tract import Tract


class AsyncVerbs:
    """The async twins of the verbs."""

    __slots__ = ()

    if TYPE_CHECKING:

        async def _start(self, call: Record) -> Any: ...
        def on(self, branch: str) -> "Tract": ...
'''


def generate() -> str:
    """Return the text of the generated module."""
    source = (PACKAGE / "_tract.py").read_text()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    methods = {node.name: node for node in classes[0].body if isinstance(node, ast.FunctionDef)}
    texts = {name: "\n".join(source.split("\n")[m.lineno - 1 : m.end_lineno]) for name, m in methods.items()}
    verbs = {name for name, text in texts.items() if "self._wait(" in text and name != "_wait"}
    verbs |= {
        name for name, text in texts.items() if any(re.search(rf"\bself\.{verb}\(", text) for verb in verbs)
    }
    twins = []
    for name, text in texts.items():
        if name in verbs:
            text = text.replace(f"def {name}(", f"async def a{name}(", 1).replace(
                "self._wait(", "await self._start("
            )
            for verb in verbs:
                text = re.sub(rf"\bself\.{verb}\(", f"await self.a{verb}(", text)
            twins.append(text)
    format_it = [sys.executable, "-m", "ruff", "format", "--no-cache", "--stdin-filename", str(TARGET), "-"]
    whole = HEAD + "\n" + "\n\n".join(twins) + "\n"
    return subprocess.run(format_it, input=whole, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    generated = generate()
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text() != generated:
            sys.exit(f"{TARGET.name} is out of date: run python tools/async_verbs.py")
    else:
        TARGET.write_text(generated)
