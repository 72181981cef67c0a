"""The real gunicorn with `--preload`, and the real Celery with its prefork pool."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import tract_context as tract

APPLICATIONS = Path(__file__).parent / "prefork"
LIMIT = 120
"""Seconds until a step of a test fails. A call that hangs takes longer; a busy machine does not."""


@contextmanager
def program(
    folder: Path, arguments: list[str], environment: dict[str, str], **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of Python with the applications in its path; its output is the file `log`."""
    variables = {**os.environ, "PYTHONPATH": str(APPLICATIONS), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=log,
            # Its own group, so that no child outlives a test that fails.
            start_new_session=True,
            **options,
        )
    try:
        yield process
    except BaseException as error:
        error.add_note((folder / "log").read_text(errors="replace")[-20_000:])
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check_end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for a program that was asked to end, and check that no process of it was killed or failed."""
    assert process.wait(LIMIT) == 0
    log = (folder / "log").read_text()
    for sign in ("CRITICAL", "SIGKILL", "SIGABRT", "SIGSEGV", "Fatal Python error", "panicked"):
        assert sign not in log


def texts(url: str) -> list[str]:
    """Return the messages of a store, which must be undamaged."""
    with tract.open(url) as handle:
        assert handle.verify()["clean"]
        return [message["content"] for message in handle.compile().messages]


class Client:
    """A client of a server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def start(self, path: str, **query: str) -> http.client.HTTPResponse:
        """Send a request, and return when its answer begins."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        connection.request("GET", f"{path}?{urlencode(query)}", headers={"Connection": "close"})
        response = connection.getresponse()
        assert response.status == 200
        return response

    def get(self, path: str, **query: str) -> Any:
        """Send a request, and return its answer."""
        with self.start(path, **query) as response:
            return json.loads(response.read())


def test_gunicorn_workers_of_a_preloaded_application(url: str, tmp_path: Path) -> None:
    # The server inherits a socket that is open already, so no port is guessed and no request comes too early.
    listener = socket.create_server(("127.0.0.1", 0))
    client = Client(listener.getsockname()[1])
    arguments = ["gunicorn", "--preload", "--workers=2", f"--bind=fd://{listener.fileno()}"]
    arguments += ["--config=python:gunicorn_hooks", "--no-control-socket"]
    arguments += [f"--timeout={LIMIT}", f"--graceful-timeout={LIMIT}", "gunicorn_application:application"]
    environment = {"TRACT_TEST_STORE": url}
    with program(tmp_path, arguments, environment, pass_fds=[listener.fileno()]) as server:
        listener.close()
        sent: list[str] = []
        commits: dict[str, dict[int, list[str]]] = {"/post_fork": {}, "/first_use": {}}
        forked: dict[int, Any] = {}
        end = time.monotonic() + LIMIT
        with ThreadPoolExecutor(4) as pool:
            # Either worker may accept any request, so requests are sent until both have answered all kinds.
            while min(map(len, (*commits.values(), forked))) < 2 and time.monotonic() < end:
                for path, by_worker in commits.items():
                    batch = [f"{path} {len(sent) + n}" for n in range(8)]
                    for answer in pool.map(lambda text: client.get(path, text=text), batch):  # noqa: B023
                        by_worker.setdefault(answer["worker"], []).append(answer["commit"])
                    sent += batch
                for answer in pool.map(client.get, ["/preloaded"] * 8):
                    forked[answer["worker"]] = answer
        # A request that is answered during the stop.
        with client.start("/wait", file=str(tmp_path / "stopping"), text="slow") as response:
            assert response.readline() == b"waiting\n"
            server.send_signal(signal.SIGTERM)
            (tmp_path / "stopping").touch()
            last = json.loads(response.readline())["commit"]
        check_end(server, tmp_path)

        workers = set(forked)
        assert len(workers) == 2
        assert server.pid not in workers
        assert all(set(by_worker) == workers for by_worker in commits.values())
        for answer in forked.values():
            assert answer["master"] == server.pid
            assert [code for code, *_ in answer["errors"]] == ["forked"] * 4
            assert "worker_process_init" in answer["errors"][0][1]
            assert answer["seconds"] < 30
        assert sorted(texts(url)) == sorted(["preload", *sent, "slow", "exit"])
        with tract.open(url) as handle:
            stored = {commit["id"] for commit in handle.log(limit=10_000)}
        made = [id_ for by_worker in commits.values() for ids in by_worker.values() for id_ in ids]
        assert len({*made, last}) == len(sent) + 1
        assert {*made, last} <= stored


def test_tasks_in_celerys_prefork_pool(url: str, tmp_path: Path) -> None:
    # Imported here, because it takes time that the other tests do not need.
    from celery import Celery

    for folder in ("queue", "control", "results"):
        (tmp_path / folder).mkdir()
    configuration = {
        "broker_url": "filesystem://",
        "broker_transport_options": {
            "data_folder_in": str(tmp_path / "queue"),
            "data_folder_out": str(tmp_path / "queue"),
            "control_folder": str(tmp_path / "control"),
            "polling_interval": 0.02,
        },
        "broker_connection_retry_on_startup": True,
        "result_backend": (tmp_path / "results").as_uri(),
        "worker_prefetch_multiplier": 1,
    }
    arguments = ["celery", "--app=celery_application", "worker", "--pool=prefork", "--concurrency=2"]
    arguments += ["--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    environment = {"TRACT_TEST_STORE": url, "TRACT_TEST_CELERY": json.dumps(configuration)}
    app = Celery("celery_application", set_as_current=False)
    app.conf.update(configuration)

    def send(task: str, *values: str) -> Any:
        return app.send_task(f"celery_application.{task}", values)

    with program(tmp_path, arguments, environment) as worker:
        sent: list[str] = []
        made: dict[int, list[str]] = {}
        end = time.monotonic() + LIMIT
        while len(made) < 2 and time.monotonic() < end:
            batch = [f"task {len(sent) + n}" for n in range(8)]
            for result in [send("commit", text) for text in batch]:
                answer = result.get(timeout=LIMIT, interval=0.02)
                made.setdefault(answer["process"], []).append(answer["commit"])
            sent += batch
        for result in [send("commit_with_parents", "child") for _ in range(4)]:
            answer = result.get(timeout=LIMIT, interval=0.02)
            assert answer["code"] == "forked"
            assert "worker_process_init" in answer["notes"][0]
            assert answer["seconds"] < 30
        # An error that leaves a task is the same error for the caller.
        with pytest.raises(tract.ForkedError, match="before the process forked") as error:
            send("fail").get(timeout=LIMIT, interval=0.02)
        assert error.value.code == "forked"
        worker.send_signal(signal.SIGTERM)
        check_end(worker, tmp_path)

        assert len(made) == 2
        assert worker.pid not in made
        assert sorted(texts(url)) == sorted(["import", *sent, "shutdown"])
        with tract.open(url) as handle:
            stored = {commit["id"] for commit in handle.log(limit=10_000)}
        ids = [id_ for commits in made.values() for id_ in commits]
        assert len(set(ids)) == len(sent)
        assert set(ids) <= stored
