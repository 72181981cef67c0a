"""Holds request bodies against the types that the vendors' SDKs publish.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python bodies.py < bodies.jsonl

A line is `{"name","dialect","body"}`; for each, a line with the list of what the types do not
allow comes out. Members that a type does not have are not allowed. JSON schemas within a tool are
not looked into: their words are not the vendor's.
"""

import collections.abc
import enum
import functools
import importlib
import json
import sys
import types
import typing

import pydantic
import typing_extensions
from anthropic.types.beta import message_create_params as anthropic
from google.genai import types as gemini
from ollama import _types as ollama
from openai.types.chat import completion_create_params as openai
from openai.types.responses import response_create_params as responses

# The SDK has no type for the whole body: these are the members that it writes.
GEMINI = pydantic.create_model(
    "GenerateContentRequest",
    contents=(list[gemini.Content], ...),
    systemInstruction=(typing.Optional[gemini.Content], None),
    tools=(typing.Optional[list[gemini.Tool]], None),
    toolConfig=(typing.Optional[gemini.ToolConfig], None),
    safetySettings=(typing.Optional[list[gemini.SafetySetting]], None),
    generationConfig=(typing.Optional[gemini.GenerationConfig], None),
    cachedContent=(typing.Optional[str], None),
)
BODIES = {
    "openai": openai.CompletionCreateParams,
    "responses": responses.ResponseCreateParams,
    "anthropic": anthropic.MessageCreateParams,
    "ollama": ollama.ChatRequest,
    "gemini": GEMINI,
}
# A schema's words are JSON Schema's; Ollama's SDK lists a few of them.
SCHEMAS = {ollama.Tool.Function.Parameters}
REQUIRED = (typing.Required, typing_extensions.Required)
NOT_REQUIRED = (typing.NotRequired, typing_extensions.NotRequired)
# Types that are written in JSON as something else.
WRITTEN = {ollama.Image: str}
SCALARS = {str: str, int: int, float: (int, float), bool: bool, bytes: str, type(None): type(None)}


@functools.cache
def members(kind):
    """The members of a record: by name, type and whether it is required."""
    if issubclass(kind, pydantic.BaseModel):
        return {(field.alias or name): (field.annotation, field.is_required())
                for name, field in kind.model_fields.items()}
    names = vars(importlib.import_module(kind.__module__))
    hints = typing_extensions.get_type_hints(kind, globalns=names, include_extras=True)
    # Annotations are texts, so the class itself has not seen what is marked within them.
    marks = {name: typing.get_origin(hint) for name, hint in hints.items()}
    return {name: (hint, marks[name] in REQUIRED
                   or marks[name] not in NOT_REQUIRED and name in kind.__required_keys__)
            for name, hint in hints.items()}


def is_record(kind):
    return isinstance(kind, type) and (
        typing_extensions.is_typeddict(kind) or issubclass(kind, pydantic.BaseModel))


def check(value, kind, path):
    """Lists what a type does not allow of a value, as (path, why)."""
    kind = WRITTEN.get(kind, kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    named = getattr(origin or kind, "__name__", str(kind))
    if named in ("Required", "NotRequired", "ReadOnly", "Annotated"):
        return check(value, inner[0], path)
    if kind in (typing.Any, object):
        return []
    if origin in (typing.Union, types.UnionType):
        return of_any(value, inner, path)
    if origin in (typing.Literal, typing_extensions.Literal):
        return [] if value in inner else [(path, f"{json.dumps(value)} is none of {list(inner)}")]
    if named in ("list", "List", "Iterable", "Sequence", "SequenceNotStr"):
        if not isinstance(value, list):
            return [(path, f"no list: {json.dumps(value)[:60]}")]
        return [e for n, v in enumerate(value) for e in check(v, inner[0], f"{path}[{n}]")]
    if named in ("dict", "Dict", "Mapping"):
        if not isinstance(value, dict):
            return [(path, f"no object: {json.dumps(value)[:60]}")]
        return [e for k, v in value.items() for e in check(v, inner[1], f"{path}.{k}")]
    if is_record(kind):
        return record(value, kind, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return check(value, typing.Literal[tuple(each.value for each in kind)], path)
    if kind in SCALARS:
        right = isinstance(value, SCALARS[kind]) and (kind is bool or not isinstance(value, bool))
        return [] if right else [(path, f"no {named}: {json.dumps(value)[:60]}")]
    raise TypeError(f"{path}: the type {kind!r} is not known here")


def record(value, kind, path):
    if not isinstance(value, dict):
        return [(path, f"no {kind.__name__}: {json.dumps(value)[:60]}")]
    if kind in SCHEMAS:
        return []
    known, errors = members(kind), []
    for key, inner in value.items():
        if key in known:
            errors += check(inner, known[key][0], f"{path}.{key}")
        else:
            errors.append((f"{path}.{key}", f"{kind.__name__} has no such member"))
    for key, (_, required) in known.items():
        if required and key not in value:
            errors.append((f"{path}.{key}", f"{kind.__name__} requires it"))
    return errors


def of_any(value, kinds, path):
    """What the alternative says that fits best: a list for a list, and the value's own `type`."""
    if any(is_record(kind) and issubclass(kind, pydantic.BaseModel) for kind in kinds):
        # The mapping that a caller may give in a model's place is the same on the wire.
        kinds = [kind for kind in kinds if typing.get_origin(kind) is not collections.abc.Mapping]
    fewest = None
    for kind in kinds:
        errors = check(value, kind, path)
        if not errors:
            return []
        tags = sum(at in (path, f"{path}.type", f"{path}.role") for at, _ in errors)
        if fewest is None or (tags, len(errors)) < fewest[0]:
            fewest = ((tags, len(errors)), errors)
    return fewest[1]


for line in sys.stdin:
    case = json.loads(line)
    errors = check(case["body"], BODIES[case["dialect"]], "body")
    print(json.dumps({"name": case["name"], "errors": [f"{at}: {why}" for at, why in errors]}))
