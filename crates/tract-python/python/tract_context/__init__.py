"""Version control for the context of LLM agents.

Every message, tool definition, call and result is an immutable commit, identified by its hash. Branch
the history, edit, summarize, revert and verify it, and compile it into the exact request that a
provider accepts.

>>> import tract_context as tract
>>> with tract.open("memory:") as t:
...     commit = t.commit({"role": "user", "content": "Do I need a coat?"})
...     t.compile().to_openai()
[{'role': 'user', 'content': 'Do I need a coat?'}]

Every verb exists twice: `commit` waits on this thread with the GIL released, and `acommit` is awaited.
Both run the same Rust future. Importing the package starts no threads.
"""

from tract_context._calls import UNCHECKED
from tract_context._compiled import Compiled, Params
from tract_context._errors import (
    BusyError,
    ClosedError,
    ConflictError,
    CorruptError,
    ErasedError,
    ForkedError,
    TractError,
    UnknownRevisionError,
)
from tract_context._native import __version__
from tract_context._tract import Tract, aopen, open

__all__ = [
    "UNCHECKED",
    "BusyError",
    "ClosedError",
    "Compiled",
    "ConflictError",
    "CorruptError",
    "ErasedError",
    "ForkedError",
    "Params",
    "Tract",
    "TractError",
    "UnknownRevisionError",
    "__version__",
    "aopen",
    "open",
]
