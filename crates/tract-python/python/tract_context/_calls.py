"""Calls of the native module: their arguments, and their answers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tract_context._messages import line

Record: TypeAlias = dict[str, Any]
Message: TypeAlias = Mapping[str, Any]


class Unchecked:
    """The type of `UNCHECKED`."""

    def __repr__(self) -> str:
        """Return the name."""
        return "UNCHECKED"


UNCHECKED = Unchecked()
"""The default of `expect`: the message is added wherever the branch is."""


def decode(value: Any) -> Any:
    """Return the value of a JSON text."""
    return json.loads(value)


def flat(entry: Record) -> Record:
    """Return a commit: its id and the members of its record."""
    return {"id": entry["id"], **entry["record"]}


def decode_commits(value: Any) -> list[Record]:
    """Return the commits of an answer."""
    return [flat(entry) for entry in json.loads(value)]


def decode_commit(value: Any) -> Record:
    """Return the only commit of an answer."""
    return decode_commits(value)[0]


def commit_call(messages: Iterable[Message], fields: Record, expect: "str | Unchecked | None") -> Record:
    """Return the call that adds messages."""
    arguments: Record = {"lines": [line(message, fields) for message in messages], "expect": None}
    if not isinstance(expect, Unchecked):
        arguments["expect"] = {"head": expect}
    return {"commit": arguments}


def commit_fields(
    note: str | None,
    metadata: Mapping[str, Any] | None,
    generation_config: Mapping[str, Any] | None,
    tools: Sequence[Mapping[str, Any]] | None,
    priority: str | None,
) -> Record:
    """Return the fields of a new commit."""
    return {
        "message": note,
        "metadata": metadata,
        "generation_config": generation_config,
        "tools": tools,
        "priority": priority,
    }
