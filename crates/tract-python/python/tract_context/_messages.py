"""From dicts to lines of the stream format, which the native module parses."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tract_context._errors import TractError

_OPS = {"system": "system", "developer": "system", "user": "user"}


def text_of(value: Any) -> str:
    """Return a value as JSON text; a `str` is JSON text already and is kept byte for byte."""
    text = value if isinstance(value, str) else dumps(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TractError(f"not valid Unicode: {error}", code="invalid_json") from None
    return text


def dumps(value: Any) -> str:
    """Return compact JSON; NaN, which JSON lacks, is refused."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TractError(f"cannot be written as JSON: {error}", code="bad_value") from None
    return text


def line(message: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """Return the stream operation that adds a message."""
    if not isinstance(message, Mapping):
        raise TractError(
            f"a message is a dict, not {type(message).__name__}",
            code="bad_value",
            notes=['for example {"role": "user", "content": "Do I need a coat?"}'],
        )
    operation = dict(message) if "op" in message else _operation(message)
    operation.update({key: value for key, value in fields.items() if value is not None})
    return dumps(operation)


def _operation(message: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(message)
    role = fields.pop("role", None)
    content = fields.pop("content", None)
    calls = [_call(call) for call in fields.pop("tool_calls", None) or ()]
    if role == "tool":
        operation = {"op": "tool_result", "content": "" if content is None else content}
        if "tool_call_id" in fields:
            operation["call_id"] = fields.pop("tool_call_id")
        return {**operation, **fields}
    if role in _OPS and not calls:
        if isinstance(content, str):
            return {"op": _OPS[role], "text": content, **fields}
        return {"op": "commit", "kind": _OPS[role], "parts": content, **fields}
    if role == "assistant" and (content is None or isinstance(content, str)):
        operation = {"op": "assistant", "text": content or "", **fields}
        return {**operation, "tool_calls": calls} if calls else operation
    if role == "assistant" and isinstance(content, Sequence):
        parts = [*content, *({"type": "tool_call", **call} for call in calls)]
        return {"op": "commit", "kind": "assistant", "parts": parts, **fields}
    raise TractError(
        f"unknown role {role!r}",
        code="bad_content",
        notes=["known are system, developer, user, assistant and tool"],
    )


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise TractError(f"a tool call is a dict, not {type(call).__name__}", code="bad_value")
    function = call.get("function")
    if isinstance(function, Mapping):
        return {"id": call.get("id"), **function}
    return dict(call)
