"""A WSGI application that opens its store at import, for gunicorn's `--preload`."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import tract_context as tract

URL = os.environ["TRACT_TEST_STORE"]
MASTER = os.getpid()

PRELOADED = tract.open(URL)
PRELOADED.commit({"role": "user", "content": "preload"})

handles: dict[str, tract.Tract] = {}
"""The handles of this worker, by the place that opens them."""


def open_store(place: str) -> tract.Tract:
    """Open the store in this worker."""
    if place not in handles:
        handles[place] = tract.open(URL)
    return handles[place]


def use_preloaded() -> dict[str, Any]:
    """Try all kinds of calls on the handle of the master."""
    errors = []
    start = time.monotonic()
    for call in (
        PRELOADED.head,
        PRELOADED.compile,
        lambda: PRELOADED.commit({"role": "user", "content": "child"}),
        PRELOADED.close,
    ):
        try:
            call()
        except tract.ForkedError as error:
            errors.append([error.code, *error.notes])
    return {"errors": errors, "seconds": time.monotonic() - start}


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Answer a request with a line of JSON."""
    query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
    answer: dict[str, Any] = {"master": MASTER, "worker": os.getpid()}
    start_response("200 OK", [("Content-Type", "application/json")])
    match environ["PATH_INFO"]:
        case "/post_fork":
            # The hook has opened it.
            commit = handles["post_fork"].commit({"role": "user", "content": query["text"]})
            answer["commit"] = commit["id"]
        case "/first_use":
            commit = open_store("first_use").commit({"role": "user", "content": query["text"]})
            answer["commit"] = commit["id"]
        case "/preloaded":
            answer |= use_preloaded()
        case "/wait":
            return wait_and_commit(Path(query["file"]), query["text"])
    return [json.dumps(answer).encode() + b"\n"]


def wait_and_commit(file: Path, text: str) -> Iterator[bytes]:
    """Send a line, wait until a file exists, commit, and send another line."""
    yield b"waiting\n"
    end = time.monotonic() + 60
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    commit = open_store("first_use").commit({"role": "user", "content": text})
    yield json.dumps({"commit": commit["id"]}).encode() + b"\n"
