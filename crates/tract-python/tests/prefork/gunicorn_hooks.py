"""The configuration of gunicorn: each worker opens the store, and the master uses its own handle."""

import gunicorn_application


def post_fork(server: object, worker: object) -> None:
    """Open the store in a new worker."""
    gunicorn_application.open_store("post_fork")


def on_exit(server: object) -> None:
    """Use the master's handle after all workers have ended."""
    gunicorn_application.PRELOADED.commit({"role": "user", "content": "exit"})
    gunicorn_application.PRELOADED.close()
