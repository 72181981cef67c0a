"""Forks, threads, tasks, interrupts, and the end of the interpreter."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import tract_context as tract

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def in_child(work: Callable[[], object], seconds: float = 10) -> int:
    """Run `work` in a forked child, and return its exit code; -1 if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def test_a_handle_in_a_forked_child_raises_at_once(t: tract.Tract) -> None:
    t.commit(user("parent"))

    def child() -> None:
        for call in (t.head, t.close, lambda: t.commit(user("child")), lambda: asyncio.run(t.ahead())):
            with pytest.raises(tract.ForkedError) as error:
                call()
            assert error.value.code == "forked"
        assert "fork" in repr(t)

    assert in_child(child) == 0
    assert len(t.compile()) == 1


def test_a_child_may_open_the_store_and_drop_the_parents_handle(url: str) -> None:
    holder = [tract.open(url)]
    holder[0].commit(user("parent"))

    def child() -> None:
        holder.clear()
        with tract.open(url) as own:
            own.commit(user("child"))
            assert asyncio.run(own.ahead()) == own.head()

    assert in_child(child) == 0
    holder[0].commit(user("parent again"))
    assert len(holder[0].compile()) == 3
    assert holder[0].verify()["clean"]
    holder[0].close()


def test_forked_workers_open_their_own(url: str) -> None:
    application = tract.open(url)

    def worker() -> None:
        with pytest.raises(tract.ForkedError):
            application.head()
        with tract.open(url) as own:
            for n in range(10):
                own.commit(user(f"{os.getpid()} {n}"))

    assert [in_child(worker, seconds=30) for _ in range(3)] == [0, 0, 0]
    assert len(application.compile()) == 30
    application.close()


_APPLICATION: tract.Tract | None = None


def _prefork_task(url: str) -> str:
    assert _APPLICATION is not None
    try:
        _APPLICATION.head()
    except tract.ForkedError:
        with tract.open(url) as own:
            return str(own.commit(user("task"))["id"])
    return "no error"


def test_a_pool_of_forked_processes(url: str) -> None:
    global _APPLICATION
    _APPLICATION = tract.open(url)
    _APPLICATION.commit(user("first"))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        ids = pool.map_async(_prefork_task, [url] * 8).get(timeout=60)
    assert len(set(ids)) == 8
    assert "no error" not in ids
    assert len(_APPLICATION.compile()) == 9
    _APPLICATION.close()


def test_importing_starts_no_thread() -> None:
    script = "import os, tract_context; print(len(os.listdir('/proc/self/task')))"
    if os.path.exists("/proc/self/task"):
        assert subprocess.run([sys.executable, "-c", script], capture_output=True).stdout == b"1\n"


def test_two_processes_write_one_store(url: str) -> None:
    script = (
        "import sys, tract_context as tract\n"
        "with tract.open(sys.argv[1]) as t:\n"
        "    for n in range(50): t.commit({'role': 'user', 'content': str(n)})\n"
    )
    tract.open(url).close()
    writers = [subprocess.Popen([sys.executable, "-c", script, url]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with tract.open(url) as t:
        assert len(t.compile()) == 100


def test_threads_share_a_handle(t: tract.Tract) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: t.commit(user(str(n))), range(80)))
    assert sorted(int(m["content"]) for m in t.compile().to_openai()) == list(range(80))


def test_200_tasks_write_one_branch(t: tract.Tract) -> None:
    async def run() -> None:
        commits = await asyncio.gather(*(t.acommit(user(str(n))) for n in range(200)))
        assert len({commit["id"] for commit in commits}) == 200
        assert len(await t.acompile()) == 200

    asyncio.run(run())


def test_the_gil_is_released(url: str) -> None:
    with tract.open(url) as t:
        done = threading.Event()
        ticks = 0

        def write() -> None:
            for n in range(100):
                t.commit(user(str(n)))
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        while not done.is_set():
            ticks += 1
            time.sleep(0.0005)
        thread.join()
        assert ticks > 5


def test_a_cancelled_task_leaves_the_store_usable(url: str) -> None:
    async def run() -> None:
        async with await tract.aopen(url) as t:
            tasks = [asyncio.ensure_future(t.acommit(user(str(n)))) for n in range(50)]
            await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            before = len(await t.acompile())
            await t.acommit(user("after"))
            assert len(await t.acompile()) >= before + 1
            assert (await t.averify())["clean"]

    asyncio.run(run())


def test_ctrl_c_cancels_a_waiting_call(url: str) -> None:
    script = (
        "import signal, sys, tract_context as tract\n"
        # Jobs in the background ignore the signal, and so do their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "t = tract.open(sys.argv[1])\n"
        "print('open', flush=True)\n"
        "sys.stdin.readline()\n"
        "print('waits', flush=True)\n"
        "while True:\n"
        "    try:\n"
        "        t.commit({'role': 'user', 'content': 'x'})\n"
        # A call waits five seconds for the lock; a busy machine may take longer to send the signal.
        "    except tract.BusyError:\n"
        "        continue\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
        "        break\n"
    )
    run = [sys.executable, "-c", script, url]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        lock = sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None)
        lock.execute("begin immediate")
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == "waits\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        lock.execute("rollback")
        lock.close()
        assert child.wait(20) == 0


def test_the_interpreter_ends_with_writes_in_flight(url: str) -> None:
    script = (
        "import asyncio, sys, tract_context as tract\n"
        "t = tract.open(sys.argv[1])\n"
        "async def main():\n"
        "    for n in range(200):\n"
        "        asyncio.ensure_future(t.acommit({'role': 'user', 'content': str(n)}))\n"
        "    await asyncio.sleep(0.02)\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(main())\n"
        "sys.stderr.close()\n"
        "sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, url], timeout=30).returncode == 7
    with tract.open(url) as t:
        assert t.verify()["clean"]


def test_the_interpreter_ends_right_after_the_last_answer(url: str) -> None:
    """A thread that is attached while the interpreter is finalized would abort the process."""
    script = (
        "import asyncio, sys, tract_context as tract\n"
        "async def main():\n"
        "    t = await tract.aopen('memory:')\n"
        "    await asyncio.gather(*(t.acommit({'role': 'user', 'content': str(n)}) for n in range(20)))\n"
        "    await t.ahead()\n"
        "asyncio.run(main())\n"
    )
    for _ in range(10):
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
        assert (run.returncode, run.stderr) == (0, "")


def test_a_forked_child_ends_while_its_parent_has_calls_in_flight(url: str) -> None:
    script = (
        "import asyncio, os, sys, time, tract_context as tract\n"
        "async def main():\n"
        "    t = await tract.aopen(sys.argv[1])\n"
        "    message = {'role': 'user', 'content': 'x'}\n"
        "    calls = [asyncio.ensure_future(t.acommit(message)) for _ in range(50)]\n"
        "    await asyncio.sleep(0)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        start = time.monotonic()\n"
        "        import atexit; atexit._run_exitfuncs()\n"
        "        os._exit(0 if time.monotonic() - start < 5 else 1)\n"
        "    await asyncio.gather(*calls)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script, url], timeout=60)
    assert run.returncode == 0
