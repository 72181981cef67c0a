"""Exchanges with providers, written for tract in the shapes that the providers' wires have.

    python3 tests/data/make/cassettes.py        writes tests/data/cassettes/PROVIDER/NAME.json

A file is {id, provider, host, path, status, response_kind: json|sse|ndjson, request, response}; the
response of a stream is its text as it came over the wire. All of it plays at the harbor of Skarholm,
a place that does not exist. No answers were recorded.
"""

import copy
import json
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "cassettes"
HOSTS = {"openai": ("api.openai.com", "/v1/chat/completions"), "anthropic": ("api.anthropic.com", "/v1/messages"),
         "openai_compat": (None, "/v1/chat/completions"), "anthropic_compat": (None, "/v1/messages"),
         "ollama": ("localhost:11434", "/api/chat"), "responses": ("api.openai.com", "/v1/responses")}

# One transparent pixel.
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")

TOOLS = {
    "find_ferry": ("Find the next ferries to a place.", {
        "type": "object", "additionalProperties": False, "required": ["to"],
        "properties": {"to": {"type": "string", "description": "Where to."},
                       "after": {"type": "string", "description": "Earliest departure, as HH:MM."}}}),
    "tide_at": ("Height of the water at a place and time.", {
        "type": "object", "additionalProperties": False, "required": ["place", "hour"],
        "properties": {"place": {"type": "string"}, "hour": {"type": "integer", "minimum": 0, "maximum": 23}}}),
    "free_berths": ("Berths that are free for a boat of this length.", {
        "type": "object", "additionalProperties": False, "required": ["length_m"],
        "properties": {"length_m": {"type": "number", "exclusiveMinimum": 0},
                       "nights": {"type": "integer", "default": 1},
                       "side": {"type": "string", "enum": ["port", "starboard", "either"]}}}),
    "book_berth": ("Book a berth for a boat.", {
        "type": "object", "required": ["berth", "boat"],
        "properties": {"berth": {"type": "string", "pattern": "^[A-F][0-9]{1,2}$"},
                       "boat": {"$ref": "#/$defs/boat"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "$defs": {"boat": {"type": "object", "required": ["name"],
                           "properties": {"name": {"type": "string"}, "length_m": {"type": "number"}}}}}),
    "harbor_clock": ("The time at the harbor.", {"type": "object", "properties": {}}),
}


def save(provider, name, request, response, kind="json", status=200, host="", path="", **more):
    known_host, known_path = HOSTS[provider]
    exchange = {"id": f"{provider}-{name}", "provider": provider, "host": host or known_host, "path": path or known_path,
                "status": status, "response_kind": kind, **more, "request": request, "response": response}
    folder = FOLDER / provider
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(exchange, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", "utf-8")


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def tool(name, **outer):
    description, parameters = TOOLS[name]
    function = {"name": name, "description": description, "parameters": copy.deepcopy(parameters)}
    return {"type": "function", "function": {**function, **outer.pop("inner", {})}, **outer}


def block_tool(name, **more):
    description, parameters = TOOLS[name]
    return {"name": name, "description": description, "input_schema": copy.deepcopy(parameters), **more}


def flat_tool(name):
    description, parameters = TOOLS[name]
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": False}


def call(id, name, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def system(text):
    return {"role": "system", "content": text}


def user(content):
    return {"role": "user", "content": content}


def calls(*made, content=None, **more):
    return {"role": "assistant", "content": content, **more, "tool_calls": list(made)}


def result(id, content, **more):
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


HARBOR = "You answer for the harbor office of Skarholm. Be brief. Times are local."


# OpenAI: chat completions

def usage(prompt, completion, cached=0, reasoning=0):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0,
                                          "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}


def completion(number, message, finish="stop", model="gpt-5.5-2026-08-01", counts=None, **more):
    message = {"role": "assistant", "content": None, **message, "refusal": message.get("refusal"), "annotations": []}
    return {"id": f"chatcmpl-skarholm{number:04}", "object": "chat.completion", "created": 1790000000 + number,
            "model": model, "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
            "usage": counts or usage(40 + number, 20 + number), "service_tier": "default",
            "system_fingerprint": f"fp_{number:010x}", **more}


def chunks(number, deltas, finish="stop", counts=None, model="gpt-5.5-2026-08-01", done=True, shape=None, **more):
    """A stream: a chunk for each delta, one with the reason it ended, one with what it cost."""
    base = {"id": f"chatcmpl-skarholm{number:04}", "object": "chat.completion.chunk", "created": 1790000000 + number,
            "model": model, "service_tier": "default", "system_fingerprint": f"fp_{number:010x}", **more}
    found = []
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        found.append({**base, "choices": [choice]})
    if finish:
        found.append({**base, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}]})
    if counts:
        found.append({**base, "choices": [], "usage": counts})
    found = [shape(chunk) for chunk in found] if shape else found
    return "".join(f"data: {compact(chunk)}\n\n" for chunk in found) + ("data: [DONE]\n\n" if done else "")


def pieces(text, size=7):
    return [text[at:at + size] for at in range(0, len(text), size)]


def call_deltas(index, id, name, arguments, size=9):
    first = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces(arguments, size)]
    return [{"tool_calls": [one]} for one in [first, *more]]


def openai():
    ask = {"model": "gpt-5.5", "temperature": 0.2}
    question = [system(HARBOR), user("When is the next ferry to Lilla Vik?")]
    save("openai", "plain_answer", {**ask, "messages": [user("Which flag means that a pilot is on board?")]},
         completion(1, {"content": "Flag H: white and red, divided vertically."}))

    two = [call("call_ferry01", "find_ferry", '{"to": "Lilla Vik", "after": "13:00"}'),
           call("call_tide01", "tide_at", '{"place": "Lilla Vik", "hour": 14}')]
    tools = [tool("find_ferry"), tool("tide_at"), tool("harbor_clock")]
    save("openai", "parallel_calls", {**ask, "messages": question, "tools": tools, "parallel_tool_calls": True},
         completion(2, {"tool_calls": two}, "tool_calls"))
    answered = [*question, calls(*two), result("call_ferry01", '{"departs":"14:20","pier":3}'),
                result("call_tide01", "0.42 m")]
    save("openai", "parallel_calls_answered", {**ask, "messages": answered, "tools": tools},
         completion(3, {"content": "At 14:20 from pier 3. The water will be 0.42 m high."}, counts=usage(212, 24, 128)))
    # The same tool again, with the same arguments: ids tell the calls apart.
    clock = [calls(call("call_clock1", "harbor_clock", "{}")), result("call_clock1", "13:58"),
             calls(call("call_clock2", "harbor_clock", "{}"), content="Let me look again."),
             result("call_clock2", "14:03")]
    save("openai", "same_call_twice",
         {**ask, "messages": [*question[:1], user("Tell me when it is two."), *clock], "tools": tools},
         completion(4, {"content": "It is two: 14:03."}))
    failed = [calls(call("call_book1", "book_berth", {"berth": "B7", "boat": {"name": "Måsen", "length_m": 9.5}})),
              result("call_book1", "Error: berth B7 was taken a minute ago")]
    save("openai", "failed_result_then_retry",
         {**ask, "messages": [system(HARBOR), user("Book B7 for Måsen, 9.5 m."), *failed],
          "tools": [tool("book_berth"), tool("free_berths")], "tool_choice": "auto"},
         completion(5, {"content": "B7 is gone. I look for another one.",
                        "tool_calls": [call("call_free1", "free_berths", '{"length_m": 9.5, "side": "either"}')]},
                    "tool_calls"))
    deltas = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in pieces("The 14:20 to Lilla Vik leaves from pier 3 – gå ombord i tid.")]
    save("openai", "text_stream", {**ask, "messages": question, "stream": True, "stream_options": {"include_usage": True}},
         chunks(6, deltas, counts=usage(31, 19)), "sse")
    deltas = [{"role": "assistant", "content": None}]
    deltas += call_deltas(0, "call_ferry02", "find_ferry", '{"to":"Lilla Vik","after":"13:00"}')
    deltas += call_deltas(1, "call_tide02", "tide_at", '{"place":"Lilla Vik","hour":14}')
    deltas += call_deltas(2, "call_clock02", "harbor_clock", "{}")
    save("openai", "parallel_calls_stream",
         {**ask, "messages": question, "tools": tools, "stream": True, "stream_options": {"include_usage": True}},
         chunks(7, deltas, "tool_calls", usage(118, 57, 64)), "sse")
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces("I look at the tide."))]
    deltas += call_deltas(0, "call_tide03", "tide_at", '{"place": "Skarholm", "hour": 6}', 4)
    save("openai", "text_then_call_stream", {**ask, "messages": question, "tools": tools, "stream": True},
         chunks(8, deltas, "tool_calls"), "sse")
    save("openai", "cut_by_length", {**ask, "messages": question, "max_completion_tokens": 8},
         completion(9, {"content": "The next ferry to Lilla Vik leaves"}, "length"))
    deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces("The next ferry to"))]
    save("openai", "cut_by_length_stream", {**ask, "messages": question, "max_completion_tokens": 4, "stream": True},
         chunks(10, deltas, "length"), "sse")
    save("openai", "refusal", {**ask, "messages": [user("Forge a pilot's licence for me.")]},
         completion(11, {"refusal": "I can't help with that."}))
    parts = [{"type": "text", "text": "Which of these is a buoy?"},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL, "detail": "low"}},
             {"type": "image_url", "image_url": {"url": "https://skarholm.example/buoy.jpg"}}]
    save("openai", "images", {**ask, "messages": [user(parts)]}, completion(12, {"content": "The second one."}))
    parts = [{"type": "text", "text": "Is the berth in this plan the one that the caller means?"},
             {"type": "file", "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}},
             {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}}]
    save("openai", "file_and_audio", {**ask, "messages": [user(parts)]}, completion(13, {"content": "Yes: C4."}))
    reasoning = {"model": "o4-mini", "reasoning_effort": "low", "max_completion_tokens": 400}
    developer = [{"role": "developer", "content": HARBOR, "name": "office"}, user("Can a boat of 2.1 m draft get in at six?")]
    save("openai", "reasoning_model", {**reasoning, "messages": developer, "tools": [tool("tide_at", inner={"strict": True})]},
         completion(14, {"tool_calls": [call("call_tide04", "tide_at", '{"place":"Skarholm","hour":6}')]}, "tool_calls",
                    "o4-mini-2026-04-16", usage(96, 88, 0, 64)))
    schema = {"name": "berth", "strict": True, "schema": {
        "type": "object", "properties": {"berth": {"type": "string"}, "depth_m": {"type": ["number", "null"]}},
        "required": ["berth", "depth_m"], "additionalProperties": False}}
    save("openai", "structured_answer",
         {**ask, "messages": question[:1] + [user("Where can Måsen lie?")],
          "response_format": {"type": "json_schema", "json_schema": schema}},
         completion(15, {"content": '{"berth":"C4","depth_m":2.6}'}))
    save("openai", "numbers_and_unicode",
         {**ask, "messages": [user("Read the gauge \"Ö\\1\" – now."),
                              calls(call("call_odd1", "tide_at", '{"place": "\\u00d6 \\"1\\"", "hour": 6.0e0}')),
                              result("call_odd1", '{"height_m": 0.10, "id": 12345678901234567890, "ratio": 1e-07}')],
          "tools": [tool("tide_at")]},
         completion(16, {"content": "0.10 m."}))
    # What a server refuses, as it says it.
    orphan = {**ask, "messages": [user("And?"), result("call_gone", "14:20")]}
    save("openai", "refused_request", orphan,
         {"error": {"message": "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    "type": "invalid_request_error", "param": "messages.[1].role", "code": None}}, status=400)


# Servers that speak like OpenAI, each with an oddity of its own

def openai_compat():
    question = [user("When does the ferry to Lilla Vik leave?")]
    # Groq: reasoning beside the content; then an error as an event of its own, after which nothing comes.
    deltas = [{"role": "assistant", "content": None}] + [{"reasoning": piece, "channel": "analysis"} for piece in pieces("They want a ferry.")]
    text = chunks(20, deltas, None, done=False, model="reef/tide-120b")
    error = {"error": {"message": "Tool choice is required, but model did not call a tool", "type": "invalid_request_error",
                       "code": "tool_use_failed", "failed_generation": "", "status_code": 400}}
    save("openai_compat", "error_event_ends_the_stream",
         {"model": "reef/tide-120b", "messages": question, "tools": [tool("find_ferry")], "tool_choice": "required", "stream": True},
         text + f"event: error\ndata: {compact(error)}\n\n\n", "sse", path="/openai/v1/chat/completions")
    # A router: comments before anything, an error inside a chunk, and more chunks after it.
    deltas = [{"role": "assistant", "content": piece} for piece in ["The ferry", " to Lilla Vik", " leaves at", " 14:20 from"]]
    failing = {"provider": "Northwind"}
    before = chunks(21, deltas, None, model="northwind/tide-2", done=False, **failing)
    broken = {"id": "chatcmpl-skarholm0021", "provider": "Northwind", "model": "northwind/tide-2",
              "object": "chat.completion.chunk", "created": 1790000021,
              "error": {"code": 502, "message": "Provider disconnected", "metadata": {"provider_name": "Northwind"}},
              "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": "error"}]}
    after = chunks(21, [], "error", usage(31, 9), "northwind/tide-2", **failing)
    save("openai_compat", "error_inside_the_stream", {"model": "northwind/tide-2", "messages": question, "stream": True},
         ": PROCESSING\n\n" + before + f"data: {compact(broken)}\n\n" + after, "sse", path="/api/v1/chat/completions")
    # Azure: a first chunk without id, model and choices; filters in every chunk.
    def azure(chunk):
        for choice in chunk["choices"]:
            choice["content_filter_results"] = {"hate": {"filtered": False, "severity": "safe"}}
        return chunk
    first = {"id": "", "object": "", "created": 0, "model": "", "choices": [],
             "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"jailbreak": {"filtered": False, "detected": False}}}]}
    deltas = [{"role": "assistant", "content": "", "refusal": None}, *({"content": p} for p in pieces("At 14:20."))]
    save("openai_compat", "blank_first_chunk", {"messages": question, "stream": True},
         f"data: {compact(first)}\n\n" + chunks(22, deltas, shape=azure), "sse",
         path="/openai/deployments/harbor/chat/completions")
    # Mistral: content as a list of parts, thinking among them; a part of its own for documents.
    document = [{"type": "text", "text": "What does the notice say?"},
                {"type": "document_url", "document_url": "https://skarholm.example/notice.pdf"}]
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "The notice closes pier 2."}]},
                {"type": "text", "text": "Pier 2 is closed until Friday."}]
    answer = completion(23, {"content": thinking, "tool_calls": None}, model="magisterium-small")
    for key in ("refusal", "annotations"):
        del answer["choices"][0]["message"][key]
    save("openai_compat", "content_in_parts", {"model": "magisterium-small", "messages": [user(document)]}, answer)
    seen = [user("Show me the webcam and the plan of pier 2."),
            {"role": "assistant", "content": "", "tool_calls": [{"id": "a1B2c3D4e", "function": {"name": "harbor_clock", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a1B2c3D4e", "name": "harbor_clock",
             "content": [{"type": "text", "text": "13:58, from the webcam:"},
                         {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]}]
    save("openai_compat", "image_in_a_result", {"model": "magisterium-small", "messages": seen, "tools": [tool("harbor_clock")]},
         completion(24, {"content": "It is two minutes to two, and pier 2 is empty."}, model="magisterium-small"))
    # Deepseek: reasoning as a member of its own, in the answer and in the stream.
    answer = completion(25, {"content": "", "reasoning_content": "They want a ferry, so I look for it.",
                             "tool_calls": [{"index": 0, **call("call_00_ferry", "find_ferry", '{"to": "Lilla Vik"}')}]},
                        "tool_calls", "deepwater-chat")
    answer["usage"]["prompt_cache_hit_tokens"] = 0
    save("openai_compat", "reasoning_content", {"model": "deepwater-chat", "messages": question, "tools": [tool("find_ferry")]}, answer)
    deltas = [{"role": "assistant", "content": None, "reasoning_content": ""}]
    deltas += [{"content": None, "reasoning_content": piece} for piece in pieces("A ferry. Look at the timetable.")]
    deltas += [{"content": piece, "reasoning_content": None} for piece in pieces("At 14:20 from pier 3.")]
    save("openai_compat", "reasoning_content_stream", {"model": "deepwater-chat", "messages": question, "stream": True},
         chunks(26, deltas, counts=usage(18, 30, 0, 16), model="deepwater-chat"), "sse")
    # A router's reasoning with a signature, in a list of details.
    details = [{"type": "reasoning.text", "text": "A ferry.", "signature": "c2lnbmF0dXJlLW9mLXNrYXJob2xt", "format": "anthropic-claude-v1", "index": 0}]
    save("openai_compat", "reasoning_details", {"model": "northwind/keel-4", "messages": question, "reasoning": {"max_tokens": 512}},
         completion(27, {"content": "At 14:20.", "reasoning": "A ferry.", "reasoning_details": details}, model="northwind/keel-4",
                    provider="Northwind"))
    # Tools without a type; calls without one, with arguments that have a line break at their end.
    bare = tool("find_ferry")
    del bare["type"]
    made = {"id": "0", "function": {"name": "find_ferry", "arguments": '{\n  "to": "Lilla Vik"\n}\n'}}
    save("openai_compat", "tools_without_type", {"model": "buoy-7b", "messages": question, "tools": [bare]},
         completion(28, {"content": "", "tool_calls": [{"type": "function", **made}]}, "tool_calls", "buoy-7b"))
    # Id and name of a call come again with every piece.
    deltas = [{"role": "assistant", "content": None}]
    for piece in pieces('{"to":"Lilla Vik","after":"13:00"}', 11):
        deltas.append({"tool_calls": [{"index": 0, "id": "chatcmpl-tool-77", "type": "function",
                                       "function": {"name": "find_ferry", "arguments": piece}}]})
    save("openai_compat", "id_in_every_piece",
         {"model": "buoy-7b", "messages": question, "tools": [tool("find_ferry")], "stream": True},
         chunks(29, deltas, "tool_calls", model="buoy-7b"), "sse")
    # The whole call in one chunk, and the usage in every one.
    deltas = [{"role": "assistant", "tool_calls": [{"index": 0, **call("function-call-81", "find_ferry", '{"to":"Lilla Vik"}')}]}]
    def counted(chunk):
        return {**chunk, "usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}}
    save("openai_compat", "whole_call_in_a_chunk",
         {"model": "constellation-flash", "messages": question, "tools": [tool("find_ferry")], "stream": True},
         chunks(30, deltas, "tool_calls", model="constellation-flash", shape=counted), "sse")
    # Arguments that fit no schema, and a tool that was not offered.
    made = [call("call_wrong1", "tide_at", '{"place": "Skarholm", "hour": "six"}'), call("call_wrong2", "tide_at", '{"hour": 31, "unit": "m"}')]
    save("openai_compat", "arguments_that_do_not_fit", {"model": "buoy-7b", "messages": question, "tools": [tool("tide_at")]},
         completion(31, {"tool_calls": made}, "tool_calls", "buoy-7b"))
    made = [call("call_broken", "tide_at", '{"place": "Skarholm", "hour": 6'), call("call_nan", "tide_at", '{"place": "Skarholm", "hour": NaN}')]
    save("openai_compat", "arguments_that_are_no_json", {"model": "buoy-7b", "messages": question, "tools": [tool("tide_at")]},
         completion(32, {"tool_calls": made}, "tool_calls", "buoy-7b"))
    save("openai_compat", "rate_limited", {"model": "buoy-7b", "messages": question},
         {"error": {"message": "Rate limit reached: try again in 2.5s", "type": "requests", "code": "rate_limit_exceeded"}}, status=429)
    save("openai_compat", "error_without_a_shape", {"model": "buoy-7b", "messages": question}, {"detail": "upstream is not ready"}, status=503)


# Anthropic: messages

def message(number, content, stop="end_turn", model="claude-opus-4-7", counts=None, **more):
    counts = {"input_tokens": 30 + number, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
              "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
              "output_tokens": 20 + number, "service_tier": "standard", **(counts or {})}
    return {"model": model, "id": f"msg_skarholm{number:04}", "type": "message", "role": "assistant", "content": content,
            "stop_reason": stop, "stop_sequence": None, "usage": counts, **more}


def events(number, blocks, stop="end_turn", model="claude-opus-4-7", output=25, broken=None):
    """A stream of blocks: (block as it starts, deltas)."""
    start = message(number, [], None, model, {"output_tokens": 1})
    found = [("message_start", {"message": start})]
    for index, (block, deltas) in enumerate(blocks):
        found.append(("content_block_start", {"index": index, "content_block": block}))
        if index == 0:
            found.append(("ping", {}))
        found += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        found.append(("content_block_stop", {"index": index}))
    if broken:
        found = [*found[:-2], ("error", {"error": broken})]
    else:
        found.append(("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": output}}))
        found.append(("message_stop", {}))
    return "".join(f"event: {name}\ndata: {compact({'type': name, **event})}\n\n" for name, event in found)


def text_block(text):
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(text)]


def use_block(id, name, arguments):
    parts = ["", *pieces(arguments, 10)]
    return ({"type": "tool_use", "id": id, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in parts])


def use(id, name, **input):
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def answer(id, content, **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def anthropic():
    ask = {"model": "claude-opus-4-7", "max_tokens": 1024}
    v = {"anthropic_version": "2023-06-01"}
    tools = [block_tool("find_ferry"), block_tool("tide_at"), block_tool("harbor_clock")]
    question = [user("When is the next ferry to Lilla Vik?")]
    save("anthropic", "plain_answer", {**ask, "messages": question, "system": HARBOR},
         message(1, [{"type": "text", "text": "At 14:20, from pier 3."}]), **v)
    save("anthropic", "text_stream", {**ask, "messages": question, "stream": True},
         events(2, [text_block("At 14:20 – från brygga 3.")]), "sse", **v)
    both = [text_block("I look at both."), use_block("toolu_ferry01", "find_ferry", '{"to": "Lilla Vik", "after": "13:00"}'),
            use_block("toolu_clock01", "harbor_clock", "")]
    save("anthropic", "parallel_calls_stream", {**ask, "messages": question, "tools": tools, "stream": True},
         events(3, both, "tool_use"), "sse", **v)
    made = [{"type": "text", "text": "I look at all three."}, use("toolu_ferry02", "find_ferry", to="Lilla Vik"),
            use("toolu_tide02", "tide_at", place="Lilla Vik", hour=14), use("toolu_tide03", "tide_at", place="Lilla Vik", hour=14)]
    save("anthropic", "parallel_calls", {**ask, "messages": question, "tools": tools}, message(4, made, "tool_use"), **v)
    # The answers in another order, one an error, one with a mark, and what the user adds.
    answers = [answer("toolu_tide02", [{"type": "text", "text": "0.42 m"}]),
               answer("toolu_ferry02", '{"departs":"14:20","pier":3}', is_error=False, cache_control={"type": "ephemeral"}),
               answer("toolu_tide03", "the gauge does not answer", is_error=True),
               {"type": "text", "text": "And do I need a coat?"}]
    save("anthropic", "calls_answered_with_an_error",
         {**ask, "messages": [*question, {"role": "assistant", "content": made}, user(answers)], "tools": tools},
         message(5, [{"type": "text", "text": "At 14:20. The tide is 0.42 m. Take a coat."}]), **v)
    thought = [{"type": "thinking", "thinking": "High water is at six, so 2.1 m will do.", "signature": "RXVjaW5lLXNrYXJob2xtLXNpZ25hdHVyZQ=="},
               {"type": "redacted_thinking", "data": "cmVkYWN0ZWQtc2thcmhvbG0="}, {"type": "text", "text": "Yes, at six."}]
    thinking = {**ask, "max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}
    draft = user("Can a boat of 2.1 m draft get in?")
    save("anthropic", "signed_thinking", {**thinking, "messages": [draft]}, message(6, thought), **v)
    save("anthropic", "signed_thinking_goes_back",
         {**thinking, "messages": [draft, {"role": "assistant", "content": [*thought[:2], use("toolu_tide04", "tide_at", place="Skarholm", hour=6)]},
                                   user([answer("toolu_tide04", "2.6 m")])], "tools": tools},
         message(7, [{"type": "text", "text": "Yes: 2.6 m at six."}]), **v)
    streamed = [({"type": "thinking", "thinking": "", "signature": ""},
                 [*({"type": "thinking_delta", "thinking": p} for p in pieces("High water is at six.")),
                  {"type": "signature_delta", "signature": "c2thcmhvbG0tc3RyZWFt"}]), text_block("Yes, at six.")]
    save("anthropic", "signed_thinking_stream", {**thinking, "messages": [draft], "stream": True}, events(8, streamed), "sse", **v)
    mark = {"cache_control": {"type": "ephemeral"}}
    rules = [{"type": "text", "text": HARBOR}, {"type": "text", "text": "Rules of the harbor: " + "No fishing from the piers. " * 12, **mark}]
    marked = [user([{"type": "text", "text": "May I fish from pier 3?", "cache_control": {"type": "ephemeral", "ttl": "1h"}}])]
    save("anthropic", "cache_marks", {**ask, "system": rules, "messages": marked, "tools": [tools[0], {**tools[1], **mark}]},
         message(9, [{"type": "text", "text": "No."}], counts={"cache_creation_input_tokens": 1480, "input_tokens": 4}), **v)
    save("anthropic", "cache_read_stream", {**ask, "system": rules, "messages": marked, "stream": True},
         events(10, [text_block("No, from none of them.")]), "sse", **v)
    png = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    looked = [user([{"type": "text", "text": "Is pier 2 free?"}, {"type": "image", "source": {"type": "url", "url": "https://skarholm.example/pier2.jpg"}}]),
              {"role": "assistant", "content": [use("toolu_cam", "harbor_clock")]},
              user([answer("toolu_cam", [{"type": "text", "text": "Webcam:"}, {"type": "image", "source": png}])])]
    save("anthropic", "image_in_a_result", {**ask, "messages": looked, "tools": tools},
         message(11, [{"type": "text", "text": "It is."}]), **v)
    document = {"type": "document", "title": "Notice", "citations": {"enabled": True},
                "source": {"type": "text", "media_type": "text/plain", "data": "Pier 2 is closed until Friday."}}
    cited = {"type": "text", "text": "Pier 2 is closed until Friday.", "citations": [
        {"type": "char_location", "cited_text": "Pier 2 is closed until Friday.", "document_index": 0, "document_title": "Notice",
         "start_char_index": 0, "end_char_index": 30}]}
    save("anthropic", "document_with_citations", {**ask, "messages": [user([document, {"type": "text", "text": "What is closed?"}])]},
         message(12, [cited]), **v)
    # Blocks that the provider runs itself, and a search over deferred tools.
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    served = [{"type": "text", "text": "I search."}, {"type": "server_tool_use", "id": "srvtoolu_web1", "name": "web_search", "input": {"query": "Skarholm notices"}},
              {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_web1", "content": [
                  {"type": "web_search_result", "url": "https://skarholm.example/notices", "title": "Notices", "encrypted_content": "ZW5jcnlwdGVk", "page_age": None}]},
              {"type": "text", "text": "Pier 2 is closed."}]
    save("anthropic", "search_by_the_provider", {**ask, "messages": [user("What is new at the harbor?")], "tools": [search]},
         message(13, served, counts={"server_tool_use": {"web_search_requests": 1}}), **v)
    finder = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    deferred = [finder, {**tools[0], "defer_loading": True}, {**tools[1], "defer_loading": True}]
    found = [{"type": "server_tool_use", "id": "srvtoolu_find1", "name": "tool_search_tool_bm25", "input": {"query": "ferry"}},
             {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_find1", "content": {
                 "type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "find_ferry"}]}},
             use("toolu_ferry05", "find_ferry", to="Lilla Vik")]
    save("anthropic", "deferred_tools", {**ask, "messages": question, "tools": deferred}, message(14, found, "tool_use"),
         anthropic_beta="advanced-tool-use-2025-11-20", **v)
    save("anthropic", "deferred_tools_answered",
         {**ask, "messages": [*question, {"role": "assistant", "content": found}, user([answer("toolu_ferry05", "14:20, pier 3")])], "tools": deferred},
         message(15, [{"type": "text", "text": "At 14:20 from pier 3."}]), anthropic_beta="advanced-tool-use-2025-11-20", **v)
    # Instructions in the middle of a conversation.
    later = [*question, {"role": "assistant", "content": [use("toolu_ferry06", "find_ferry", to="Lilla Vik")]},
             user([answer("toolu_ferry06", "14:20, pier 3")]), {"role": "system", "content": "From here on answer in Swedish."}]
    save("anthropic", "system_in_the_middle", {**ask, "messages": later, "tools": tools},
         message(16, [{"type": "text", "text": "Klockan 14:20 från brygga 3."}]), anthropic_beta="mid-conversation-system-2026-05-01", **v)
    save("anthropic", "cut_by_max_tokens", {**ask, "max_tokens": 6, "messages": question},
         message(17, [{"type": "text", "text": "The next ferry leaves"}], "max_tokens"), **v)
    save("anthropic", "refusal", {**ask, "messages": [user("Forge a pilot's licence for me.")]},
         message(18, [{"type": "text", "text": "I can't do that."}], "refusal"), **v)
    save("anthropic", "stop_sequence", {**ask, "messages": question, "stop_sequences": ["pier"]},
         {**message(19, [{"type": "text", "text": "At 14:20 from "}], "stop_sequence"), "stop_sequence": "pier"}, **v)
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    save("anthropic", "error_inside_the_stream", {**ask, "messages": question, "stream": True},
         events(20, [text_block("At 14:20 from pier 3, unless")], broken=overloaded), "sse", **v)
    save("anthropic", "overloaded", {**ask, "messages": question}, {"type": "error", "error": overloaded, "request_id": "req_skarholm1"}, status=529, **v)
    save("anthropic", "arguments_that_do_not_fit", {**ask, "messages": question, "tools": tools},
         message(21, [use("toolu_wrong1", "tide_at", place="Skarholm", hour=6.5), use("toolu_wrong2", "find_ferry", until="noon")], "tool_use"), **v)
    # A gateway that speaks like Anthropic, with members of its own and without some of the usage.
    reply = message(22, [{"type": "text", "text": "At 14:20."}], model="claude-via-gateway", gateway={"route": "north", "cost": 0.00012})
    reply["usage"] = {"input_tokens": 12, "output_tokens": 6}
    save("anthropic_compat", "gateway", {**ask, "messages": question}, reply, **v)


# Ollama

def ollama():
    question = [user("When does the ferry to Lilla Vik leave?")]
    def reply(message, n, **more):
        return {"model": "harbor:8b", "created_at": f"2026-11-20T10:00:{n:02}.123456789Z", "message": {"role": "assistant", **message}, **more}
    end = {"done_reason": "stop", "done": True, "total_duration": 512345678, "load_duration": 1234567,
           "prompt_eval_count": 31, "prompt_eval_duration": 200000000, "eval_count": 12, "eval_duration": 300000000}
    save("ollama", "plain_answer", {"model": "harbor:8b", "messages": question, "stream": False, "options": {"temperature": 0, "num_ctx": 4096}},
         reply({"content": "At 14:20."}, 1, **end))
    made = [{"id": "call_x1", "function": {"index": 0, "name": "find_ferry", "arguments": {"to": "Lilla Vik"}}},
            {"id": "call_x2", "function": {"index": 1, "name": "tide_at", "arguments": {"hour": 14, "place": "Lilla Vik"}}}]
    tools = [tool("find_ferry"), tool("tide_at")]
    save("ollama", "parallel_calls", {"model": "harbor:8b", "messages": question, "tools": tools, "stream": False},
         reply({"content": "", "thinking": "Two things to look at.", "tool_calls": made}, 2, **end))
    history = [*question, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find_ferry", "arguments": {"to": "Lilla Vik"}}}]},
               {"role": "tool", "tool_name": "find_ferry", "content": "14:20, pier 3"}]
    save("ollama", "calls_answered", {"model": "harbor:8b", "messages": history, "tools": tools[:1], "stream": False},
         reply({"content": "At 14:20 from pier 3."}, 3, **end))
    lines = [reply({"content": piece}, 4, done=False) for piece in pieces("At 14:20 från brygga 3.")] + [reply({"content": ""}, 5, **end)]
    save("ollama", "text_stream", {"model": "harbor:8b", "messages": question, "stream": True},
         "".join(compact(line) + "\n" for line in lines), "ndjson")
    lines = [reply({"content": "", "tool_calls": [one]}, 6, done=False) for one in made] + [reply({"content": ""}, 7, **end)]
    save("ollama", "parallel_calls_stream", {"model": "harbor:8b", "messages": question, "tools": tools, "stream": True},
         "".join(compact(line) + "\n" for line in lines), "ndjson")
    save("ollama", "image", {"model": "harbor-vision:4b", "messages": [{**user("What is this?"), "images": [PIXEL]}], "stream": False},
         reply({"content": "A buoy."}, 8, **end))
    save("ollama", "unknown_model", {"model": "harbor:90b", "messages": question}, {"error": "model 'harbor:90b' not found"}, status=404)


if __name__ == "__main__":
    openai()
    openai_compat()
    anthropic()
    ollama()
