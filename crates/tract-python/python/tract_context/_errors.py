"""The exceptions of the package."""

from collections.abc import Sequence


class TractError(Exception):
    """An operation that was refused or that failed; nothing of it was written.

    `code` is stable, for programs: the command line prints the same codes, and `docs/errors.md` lists
    them. `notes` contains hints about what to do.
    """

    code: str
    notes: tuple[str, ...]

    def __init__(self, message: str, code: str = "invalid", notes: Sequence[str] = ()) -> None:
        """Create an error; the library does this."""
        # Celery creates an error that left a task again, from its class and `args`.
        super().__init__(message, code, tuple(notes))
        self.code = code
        self.notes = tuple(notes)
        for note in notes:
            self.add_note(f"note: {note}")

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class ConflictError(TractError):
    """A ref does not point to the expected commit, because another writer moved it."""


class UnknownRevisionError(TractError):
    """A revision does not name a commit, a branch or a tag."""


class BusyError(TractError):
    """Another process holds the store; the same call can succeed later."""


class CorruptError(TractError):
    """Stored data is damaged."""


class ErasedError(TractError):
    """The content was erased permanently."""


class ForkedError(TractError):
    """A handle was used in a child of the process that opened it. Open the store in the child."""


class ClosedError(TractError):
    """The handle was closed."""


_CLASSES: dict[str, type[TractError]] = {
    "busy": BusyError,
    "closed": ClosedError,
    "conflict": ConflictError,
    "corrupt": CorruptError,
    "damaged": CorruptError,
    "missing": CorruptError,
    "erased": ErasedError,
    "forked": ForkedError,
    "unknown_branch": UnknownRevisionError,
    "unknown_revision": UnknownRevisionError,
    "unknown_tag": UnknownRevisionError,
}


def make(code: str, message: str, notes: Sequence[str]) -> TractError:
    """Create the exception of a code."""
    return _CLASSES.get(code, TractError)(message, code=code, notes=notes)
