"""Running a native operation: on this thread, or for asyncio."""

import asyncio
from typing import Any

from tract_context._native import Operation


async def run_async(operation: Operation) -> Any:
    """Await an operation. Cancelling the task cancels the operation at its next point of waiting."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def done(value: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(settle, value, error)

    running = operation.start(done)
    try:
        return await future
    except asyncio.CancelledError:
        running.cancel()
        raise
