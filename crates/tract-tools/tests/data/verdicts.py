#!/usr/bin/env python3
"""Records what Python's jsonschema says of every client-side call in the recorded exchanges.

python3 verdicts.py ALL-CASSETTES tests/data/cassettes > verdicts.jsonl   (jsonschema 4.26, Draft 2020-12)

A line is a call: {"cassette","place","call","streamed","valid","errors"}. `call` is the SHA-256, its
first 16 digits, of name, a line break, and the arguments as canonical JSON or, where they are none, as
they are; of exchanges that this repository contains there are `name` and `arguments` too. `valid` is
null where the arguments are no strict JSON, and absent where the request has no such tool, or the tool
no schema. Streams are put together here.
"""
import glob
import hashlib
import json
import sys

from jsonschema import Draft7Validator, Draft202012Validator


def strict(text):
    def no(constant):
        raise ValueError(constant)
    return json.loads(text, parse_constant=no)


def events(raw):
    for line in raw.splitlines():
        line = line.strip()
        if line.startswith("data:"):
            line = line[5:].strip()
        if line.startswith("{"):
            yield json.loads(line)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def openai(response):
    if isinstance(response, dict):
        choices = response.get("choices") or []
        message = choices[0].get("message") or {} if choices else {}
        for call in message.get("tool_calls") or []:
            function = call.get("function")
            if function:
                given = function.get("arguments")
                yield call.get("id"), function["name"], given if isinstance(given, str) else compact(given or {})
        return
    calls, order = {}, []
    for event in events(response):
        for choice in event.get("choices") or []:
            if choice.get("index", 0) != 0:
                continue
            for delta in (choice.get("delta") or {}).get("tool_calls") or []:
                key = delta.get("index", 0)
                function = delta.get("function") or {}
                if key not in calls or (delta.get("id") and calls[key][0] not in (None, delta["id"])):
                    calls[key] = [None, "", ""]
                    order.append(calls[key])
                call = calls[key]
                call[0] = call[0] or delta.get("id")
                call[1] = call[1] or function.get("name") or ""
                call[2] += function.get("arguments") or ""
    yield from map(tuple, order)


def responses(response):
    if isinstance(response, dict):
        items = response.get("output") or []
    else:
        items = [e["item"] for e in events(response) if e.get("type") == "response.output_item.done"]
    for item in items:
        if item.get("type") == "function_call":
            yield item.get("call_id"), item["name"], item["arguments"]


def anthropic(response):
    if isinstance(response, dict):
        for block in response.get("content") or []:
            if block.get("type") == "tool_use":
                yield block["id"], block["name"], compact(block["input"])
        return
    blocks = {}
    for event in events(response):
        if event.get("type") == "content_block_start" and event["content_block"]["type"] == "tool_use":
            block = event["content_block"]
            blocks[event["index"]] = [block["id"], block["name"], "", block.get("input")]
        if event.get("type") == "content_block_delta" and event["index"] in blocks:
            blocks[event["index"]][2] += event["delta"].get("partial_json") or ""
    for call_id, name, text, given in blocks.values():
        yield call_id, name, text or compact(given or {})


def ollama(response):
    messages = [response] if isinstance(response, dict) else list(events(response))
    for message in messages:
        for call in (message.get("message") or {}).get("tool_calls") or []:
            yield call.get("id"), call["function"]["name"], compact(call["function"]["arguments"])


def schema_of(tools, name):
    found = []
    for tool in tools or []:
        inner = tool.get("function") or tool
        if inner.get("name") == name:
            found.append(inner.get("parameters", inner.get("input_schema")))
    return found[0] if len(found) == 1 else None


def verdict(schema, arguments):
    try:
        value = strict(arguments.strip() or "{}")
    except ValueError:
        return None, ["not strict JSON"]
    draft7 = "draft-07" in str(schema.get("$schema", ""))
    errors = (Draft7Validator if draft7 else Draft202012Validator)(schema).iter_errors(value)
    said = sorted({f"{e.validator}:/{'/'.join(map(str, e.absolute_path))}" for e in errors})
    if not isinstance(value, dict):
        said = said or ["type:/"]
    return not said, said


def hashed(name, arguments):
    text = arguments
    try:
        value = strict(text.strip() or "{}")
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except ValueError:
        pass
    return hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]


ALL, OWN = sys.argv[1:]
for path in sorted(glob.glob(ALL + "/*/*.json")) + sorted(glob.glob(OWN + "/*/*.json")):
    exchange = json.load(open(path))
    if exchange["status"] != 200:
        continue
    if '"type":"response.failed"' in str(exchange["response"]):
        continue  # a stream that failed is no answer
    route = exchange["path"]
    read = {"ollama": ollama, "anthropic": anthropic, "anthropic_compat": anthropic}.get(exchange["provider"], openai)
    if route.endswith("/responses"):
        read = responses
    for place, (call_id, name, arguments) in enumerate(read(exchange["response"])):
        line = {"cassette": path.split("/")[-2] + "/" + path.split("/")[-1], "place": place, "call": hashed(name, arguments),
                "streamed": isinstance(exchange["response"], str)}
        if path.startswith(OWN):
            line.update(name=name, arguments=arguments)
        schema = schema_of(exchange["request"].get("tools"), name)
        if isinstance(schema, dict):
            line["valid"], line["errors"] = verdict(schema, arguments)
        print(json.dumps(line, ensure_ascii=False))
