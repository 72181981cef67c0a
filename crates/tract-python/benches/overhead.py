"""The overhead of the binding: the same work through Python and through Rust, in one run.

`benches/baseline.rs` is the Rust half:

    cargo build --release --example baseline
    maturin develop --release
    python benches/overhead.py target/release/examples/baseline
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tract_context as tract

COMMITS = 500
MESSAGES = 5_000
ROUNDS = 5


def message(n: int) -> dict[str, str]:
    return {"role": "user", "content": f"{n} " + "x" * 500}


def commits_per_second(folder: Path) -> float:
    with tract.open(f"sqlite:{folder / 'commits.db'}") as t:
        t.commit(message(0))
        started = time.perf_counter()
        for n in range(COMMITS):
            t.commit(message(n))
        return COMMITS / (time.perf_counter() - started)


def compile_seconds(url: str) -> float:
    """The time of a cold compile to a request: a new handle for each round."""
    with tract.open(url, create=False) as t:
        started = time.perf_counter()
        body = t.compile().to_openai_params()
        seconds = time.perf_counter() - started
        assert len(body["messages"]) == MESSAGES
        return seconds


def main() -> None:
    baseline = sys.argv[1]
    python: list[tuple[float, float]] = []
    rust: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:{Path(name) / 'compile.db'}"
        with tract.open(url) as t:
            t.commit_all(message(n) for n in range(MESSAGES))
        for n in range(ROUNDS):
            folder = Path(name) / str(n)
            folder.mkdir()
            python.append((commits_per_second(folder), compile_seconds(url)))
            other = f"sqlite:{folder / 'rust.db'}"
            run = subprocess.run([baseline, other, url, str(COMMITS)], capture_output=True, check=True)
            rust.append(tuple(json.loads(run.stdout)))
    commit = [max(pair[0] for pair in side) for side in (python, rust)]
    compiled = [min(pair[1] for pair in side) for side in (python, rust)]
    print(f"commit: Python {commit[0]:.0f}/s, Rust {commit[1]:.0f}/s: ratio {commit[0] / commit[1]:.2f}")
    print(
        f"compile of {MESSAGES} messages: Python {compiled[0] * 1e3:.1f} ms, "
        f"Rust {compiled[1] * 1e3:.1f} ms: ratio {compiled[0] / compiled[1]:.2f}"
    )


if __name__ == "__main__":
    main()
