"""Writes replies.jsonl: what the vendors' own SDKs make of recorded answers.

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python replies.py CASSETTES tests/data/cassettes

CASSETTES is the folder of all recordings, the other one that of this repository. Each
answer is served to the SDK's own client as it was recorded; streams go through the SDK's own
accumulator (Ollama's SDK has none: there the parts are put together as its documentation does).
A line holds the SHA-256 of the canonical JSON of what came out, and for bundled recordings that
JSON itself.
"""

import hashlib
import json
import pathlib
import sys

import anthropic
import ollama
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

try:  # whichever of the two the SDKs were built on
    import httpx2
except ImportError:
    httpx2 = None
import httpx

STOPS = {
    "openai": {"stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use",
               "length": "max_tokens", "content_filter": "refusal"},
    "anthropic": {"model_context_window_exceeded": "max_tokens"},
}


# What of the present answer was put right after the SDK: see README.md.
CORRECTED = []


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def client(make, kind, body, **options):
    """The SDK's client with a server that gives one answer."""
    errors = []
    for library in filter(None, (httpx, httpx2)):
        content_type = {"json": "application/json", "sse": "text/event-stream",
                        "ndjson": "application/x-ndjson"}[kind]
        answer = lambda request: library.Response(
            200, content=body.encode(), headers={"content-type": content_type})
        try:
            return make(http_client=library.Client(transport=library.MockTransport(answer)),
                        **options)
        except TypeError as error:
            errors.append(error)
    raise errors[-1]


def text_of(content):
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else part.model_dump() for part in content]
        return "".join(part.get("text") or "" for part in parts if part.get("type") == "text")
    return content or ""


def of_openai(kind, body):
    sdk = client(openai.OpenAI, kind, body, api_key="k", base_url="http://h/v1", max_retries=0)
    asked = dict(model="m", messages=[{"role": "user", "content": "q"}])
    if kind == "sse":
        state, known, first, usage = ChatCompletionStreamState(), {}, {}, None
        for chunk in sdk.chat.completions.create(stream=True, **asked):
            for choice in chunk.choices:  # vendors' own lists, which the accumulator refuses
                extra = choice.delta.model_extra or {}
                for key in [key for key, value in extra.items() if isinstance(value, list)]:
                    del extra[key]
                for call in choice.delta.tool_calls or []:  # what was said already, it says twice
                    for holder, key in ((call, "id"), (call.function, "name")):
                        said = known.setdefault((call.index, key), getattr(holder, key, None))
                        if call.index in known and said and getattr(holder, key, None) == said:
                            setattr(holder, key, None)
                            CORRECTED.append(key)
                    known[call.index] = True
            for key in ("id", "model"):
                first[key] = first.get(key) or getattr(chunk, key)
            usage = chunk.usage or usage
            state.handle_chunk(chunk)
        found = state.current_completion_snapshot
        for key in ("id", "model"):  # what a blank first chunk hides from it
            if not getattr(found, key) and first[key]:
                setattr(found, key, first[key])
                CORRECTED.append(key)
        if found.usage is None and usage is not None:  # what a later chunk without it takes away
            found.usage = usage
            CORRECTED.append("usage")
    else:
        found = sdk.chat.completions.create(**asked)
    choice = found.choices[0]
    message = choice.message
    calls = []
    for call in message.tool_calls or []:
        inner = getattr(call, "function", None) or call.custom
        calls.append([call.id, inner.name, getattr(inner, "arguments", None) or getattr(inner, "input", "")])
    if message.function_call and message.function_call.name:
        calls.append(["", message.function_call.name, message.function_call.arguments])
    usage = found.usage
    inside = lambda details, key: getattr(getattr(usage, details, None), key, None)
    text = text_of(message.content) or message.refusal or ""
    return {
        "text": text, "calls": calls,
        "stop": STOPS["openai"].get(choice.finish_reason, choice.finish_reason),
        "input": usage and usage.prompt_tokens, "output": usage and usage.completion_tokens,
        "cached": inside("prompt_tokens_details", "cached_tokens"),
        "reasoning": inside("completion_tokens_details", "reasoning_tokens"),
        "id": found.id, "model": found.model,
    }


def of_responses(kind, body):
    sdk = client(openai.OpenAI, kind, body, api_key="k", base_url="http://h/v1", max_retries=0)
    if kind == "sse":
        with sdk.responses.stream(model="m", input="q") as stream:
            found = stream.get_final_response()
    else:
        found = sdk.responses.create(model="m", input="q")
    calls = [[item.call_id, item.name, item.arguments]
             for item in found.output if item.type == "function_call"]
    reason = found.incomplete_details and found.incomplete_details.reason
    stop = {"max_output_tokens": "max_tokens"}.get(reason, reason)
    if not reason:
        stop = "tool_use" if calls else "end_turn"
    return {
        "text": found.output_text, "calls": calls, "stop": stop,
        "input": found.usage.input_tokens, "output": found.usage.output_tokens,
        "cached": found.usage.input_tokens_details.cached_tokens,
        "reasoning": found.usage.output_tokens_details.reasoning_tokens,
        "id": found.id, "model": found.model,
    }


def of_anthropic(kind, body):
    sdk = client(anthropic.Anthropic, kind, body, api_key="k", base_url="http://h", max_retries=0)
    asked = dict(model="m", max_tokens=9, messages=[{"role": "user", "content": "q"}])
    if kind == "sse":
        with sdk.messages.stream(**asked) as stream:
            found = stream.get_final_message()
    else:
        found = sdk.messages.create(**asked)
    usage = found.usage
    cached = usage.cache_read_input_tokens
    return {
        "text": "".join(block.text for block in found.content if block.type == "text"),
        "calls": [[block.id, block.name, canonical(block.input)]
                  for block in found.content if block.type == "tool_use"],
        "stop": STOPS["anthropic"].get(found.stop_reason, found.stop_reason),
        "input": usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (cached or 0),
        "output": usage.output_tokens, "cached": cached, "reasoning": None,
        "id": found.id, "model": found.model,
    }


def of_ollama(kind, body):
    content_type = "application/x-ndjson" if kind == "ndjson" else "application/json"
    answer = lambda request: httpx.Response(
        200, content=body.encode(), headers={"content-type": content_type})
    sdk = ollama.Client(host="http://h", transport=httpx.MockTransport(answer))
    asked = dict(model="m", messages=[{"role": "user", "content": "q"}])
    text, calls = "", []
    parts = sdk.chat(stream=True, **asked) if kind == "ndjson" else [sdk.chat(**asked)]
    for part in parts:
        text += part.message.content or ""
        calls += part.message.tool_calls or []
        last = part
    stop = {"stop": "end_turn", "length": "max_tokens"}.get(last.done_reason, last.done_reason)
    return {
        "text": text,
        "calls": [[None, call.function.name, canonical(dict(call.function.arguments))] for call in calls],
        "stop": "tool_use" if calls else stop,
        "input": last.prompt_eval_count, "output": last.eval_count,
        "cached": None, "reasoning": None, "id": None, "model": last.model,
    }


READ = {"openai": of_openai, "openai_compat": of_openai, "responses": of_responses,
        "anthropic": of_anthropic, "anthropic_compat": of_anthropic, "ollama": of_ollama}


def main(folder, bundled):
    within = {path.stem for place in bundled for path in pathlib.Path(place).glob("*/*.json")}
    paths = sorted(pathlib.Path(folder).glob("*/*.json"))
    known = {path.stem for path in paths}
    for place in bundled:
        paths += sorted(path for path in pathlib.Path(place).glob("*/*.json")
                        if path.stem not in known and path.parent.name in READ)
    with open(pathlib.Path(__file__).parent / "replies.jsonl", "w") as out:
        for path in paths:
            exchange = json.loads(path.read_text())
            if exchange["status"] != 200:
                continue
            kind, body = exchange["response_kind"], exchange["response"]
            if kind == "json":
                body = json.dumps(body)
            CORRECTED.clear()
            try:
                found = READ[path.parent.name](kind, body)
            except (openai.APIError, anthropic.APIError, RuntimeError) as error:
                found = {"error": str(error)}
            line = {"file": f"{path.parent.name}/{path.stem}", "kind": kind,
                    "sha256": hashlib.sha256(canonical(found).encode()).hexdigest()[:16]}
            if "error" in found:
                line["failed"] = True
            if CORRECTED:
                line["corrected"] = sorted(set(CORRECTED))
            if path.stem in within:
                line["golden"] = found
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


main(sys.argv[1], sys.argv[2:])
