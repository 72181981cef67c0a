"""A Celery application that opens its store at import, before the pool forks."""

import json
import os
import time
from typing import Any

import tract_context as tract
from celery import Celery, signals

URL = os.environ["TRACT_TEST_STORE"]

app = Celery("celery_application")
app.conf.update(json.loads(os.environ["TRACT_TEST_CELERY"]))

PARENTS = tract.open(URL)
PARENTS.commit({"role": "user", "content": "import"})

handle: tract.Tract | None = None


@signals.worker_process_init.connect
def open_store(**_: object) -> None:
    """Open the store in a new process of the pool."""
    global handle
    handle = tract.open(URL)


@signals.worker_shutdown.connect
def use_parents(**_: object) -> None:
    """Use the parent's handle after the pool has ended."""
    PARENTS.commit({"role": "user", "content": "shutdown"})
    PARENTS.close()


@app.task
def commit(text: str) -> dict[str, Any]:
    """Commit with the handle of this process."""
    assert handle is not None
    return {"process": os.getpid(), "commit": handle.commit({"role": "user", "content": text})["id"]}


@app.task
def commit_with_parents(text: str) -> dict[str, Any]:
    """Commit with the handle that was opened before the fork, and report the error."""
    start = time.monotonic()
    try:
        PARENTS.commit({"role": "user", "content": text})
    except tract.ForkedError as error:
        return {"code": error.code, "notes": error.notes, "seconds": time.monotonic() - start}
    return {}


@app.task
def fail() -> None:
    """Let the error of the parent's handle leave the task."""
    PARENTS.head()
