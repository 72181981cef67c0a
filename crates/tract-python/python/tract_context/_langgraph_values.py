"""Serialized values with their long texts apart, and messages as stream operations."""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from operator import attrgetter, is_
from typing import Any, cast

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from tract_context._langgraph_dictionary import DICTIONARY

TEXT_BYTES = 64
"""Texts of at least this size are stored once, however many values contain them."""


def pack(value: Any) -> bytes:
    packer = zlib.compressobj(level=6, wbits=-15, zdict=DICTIONARY)
    return packer.compress(ormsgpack.packb(value)) + packer.flush()


def unpack(data: bytes) -> Any:
    return ormsgpack.unpackb(zlib.decompressobj(wbits=-15, zdict=DICTIONARY).decompress(data))


def blob_id(data: bytes) -> bytes:
    return hashlib.sha256(b"tract-blob-1\0" + data).digest()


def digits_of(text: str, count: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:count]


def key_of(text: str) -> str:
    """Return the last part of a ref's name for any text; different texts have different names."""
    plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", text)
    if plain and ".." not in text and not text.endswith((".", ".lock")):
        return text
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', text)[:60].strip('-') or 'x'}-{digits_of(text, 16)}"


def frame_of(kind: str, data: bytes, texts: Mapping[bytes, bytes]) -> bytes:
    """Return serialized bytes in which long texts are replaced by the ids of their blobs."""
    name = kind.encode()
    parts = [bytes((len(name),)), name]
    at = 0
    spans = sorted((data.find(text), text) for text in texts)
    for found, text in spans:
        if found >= at:
            literal = data[at:found]
            parts += (len(literal).to_bytes(4, "little"), literal, blob_id(texts[text]))
            at = found + len(text)
    literal = data[at:]
    parts += (len(literal).to_bytes(4, "little"), literal)
    return b"".join(parts)


def whole_value(frame: bytes) -> tuple[str, bytes] | None:
    """Return the value of a frame without texts elsewhere; `None` if it has any."""
    start = 1 + frame[0]
    length = int.from_bytes(frame[start : start + 4], "little")
    if start + 4 + length != len(frame):
        return None
    return frame[1:start].decode(), frame[start + 4 :]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def calls_of(message: BaseMessage) -> list[dict[str, str]]:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [
        {"id": call["id"] or "", "name": call["name"], "arguments": json.dumps(call["args"], default=str)}
        for call in calls
    ]


def _content(message: BaseMessage) -> bytes:
    """Return the content of a message as tract stores it, if it is one text."""
    if isinstance(message, ToolMessage):
        content = {"call_id": message.tool_call_id, "content": message.content}
        if message.name:
            content["name"] = message.name
        if message.status == "error":
            content["is_error"] = cast(Any, True)
        return _canonical(content)
    calls = calls_of(message)
    if calls:
        text = {"type": "text", "text": message.content}
        return _canonical([text, *({"type": "tool_call", **call} for call in calls)])
    return _canonical(message.content)


def collect_texts(value: Any, texts: dict[bytes, bytes], depth: int = 4) -> None:
    """Collect the long texts of the messages in a value, with the blobs that contain them."""
    if isinstance(value, BaseMessage):
        if isinstance(value.content, str) and len(value.content) >= TEXT_BYTES:
            try:
                texts[value.content.encode()] = _content(value)
            except (TypeError, ValueError):
                return  # Lone surrogates, for instance; the text stays in the value.
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            collect_texts(item, texts, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            collect_texts(item, texts, depth - 1)


class _Unknown(Exception):
    """A value that may change without a trace."""


def _freeze(value: Any) -> Any:
    """Copy the containers of a value, to notice changes in place."""
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return value
    if type(value) is dict:
        return {key: _freeze(item) for key, item in value.items()} if value else {}
    if type(value) is list:
        return [_freeze(item) for item in value] if value else []
    raise _Unknown


def message_line(message: BaseMessage) -> str:
    """Return the stream operation that records a message on a branch."""
    content = message.content
    metadata: dict[str, Any] = {}
    if message.id:
        metadata["message_id"] = message.id
    if isinstance(message, AIMessage):
        usage = message.usage_metadata
        if usage:
            details = usage.get("input_token_details") or {}
            metadata["usage"] = {
                "input_tokens": usage["input_tokens"],
                "output_tokens": usage["output_tokens"],
                "cached_tokens": details.get("cache_read") or 0,
                "cache_write_tokens": details.get("cache_creation") or 0,
            }
        model = message.response_metadata.get("model_name") or message.response_metadata.get("model")
        if isinstance(model, str):
            metadata["model"] = model
    kind = {"human": "user", "ai": "assistant", "system": "system"}.get(message.type)
    calls = calls_of(message)
    operation: dict[str, Any]
    if isinstance(message, ToolMessage):
        text = content if isinstance(content, str) else json.dumps(content, default=str, ensure_ascii=False)
        operation = {"op": "tool_result", "call_id": message.tool_call_id, "content": text}
        if message.name:
            operation["name"] = message.name
        if message.status == "error":
            operation["is_error"] = True
    elif isinstance(content, str) and kind:
        operation = {"op": kind, "text": content}
        if calls:
            operation["tool_calls"] = calls
    else:
        blocks = [content] if isinstance(content, str) else content
        parts: list[dict[str, Any]] = []
        for block in blocks:
            if isinstance(block, str):
                parts.append({"type": "text", "text": block})
            elif block.get("type") == "text" and isinstance(block.get("text"), str):
                parts.append({"type": "text", "text": block["text"]})
            else:
                text = json.dumps(block, default=str)
                parts.append({"type": "opaque", "dialect": "langchain", "json": text})
        parts += [{"type": "tool_call", **call} for call in calls]
        role = getattr(message, "role", "user")
        kind = kind or ("assistant" if role in ("assistant", "ai") else "user")
        operation = {"op": "commit", "kind": kind, "parts": parts or [{"type": "text", "text": ""}]}
    if metadata:
        operation["metadata"] = metadata
    line = json.dumps(operation, ensure_ascii=False)
    return line.encode("utf-8", "replace").decode()


def frozen(message: BaseMessage) -> Any:
    """Return a copy of what a message contains; `None` if it may change without a trace."""
    if message.__pydantic_extra__:
        return None
    try:
        return _freeze(message.__dict__)
    except _Unknown:
        return None


_CONTENT = attrgetter("__dict__")
_EXTRA = attrgetter("__pydantic_extra__")


class Known:
    """The messages of a list, what they contained, and their items."""

    def __init__(self) -> None:
        self.messages: list[BaseMessage] = []
        self.contents: list[Any] = []
        self.items: list[int] = []
        self._places: dict[int, int] = {}

    def extend(self, messages: list[Any], items: list[int]) -> None:
        """Add messages that follow."""
        start = len(self.messages)
        self.messages += messages
        self.contents += map(frozen, messages)
        self.items += items
        self._places.update((id(message), at) for at, message in enumerate(messages, start))

    def unchanged(self, messages: list[Any]) -> int:
        """Return how many messages at the beginning are known; 0 if one of them was changed in place."""
        count = min(len(messages), len(self.messages))
        if not all(map(is_, messages, self.messages)):
            count = list(map(is_, messages, self.messages)).index(False)
        start = messages[:count]
        # The loops are those of the interpreter, because lists can be long.
        contents = self.contents if count == len(self.contents) else self.contents[:count]
        return 0 if list(map(_CONTENT, start)) != contents or any(map(_EXTRA, start)) else count

    def item_of(self, message: BaseMessage) -> int | None:
        """Return the item of a message that is known and unchanged."""
        place = self._places.get(id(message))
        if place is None or self.messages[place] is not message or message.__pydantic_extra__:
            return None
        return self.items[place] if self.contents[place] == message.__dict__ else None
