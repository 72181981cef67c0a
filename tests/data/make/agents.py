"""Recordings of agent tools, written for tract: the shapes of their files, none of their words.

    python3 tests/data/make/agents.py         writes tests/data/sessions/{codex,gemini-cli,…}

Each file has what its format is known for: a rollback and two compactions of Codex, a rewind and late results of Gemini
CLI, branches of the Agents SDK, a fork, an edit and a removal of LangGraph, steps of the AI SDK, and so on.
"""

import json
import pathlib
import sqlite3
import struct
import zipfile

FOLDER = pathlib.Path(__file__).parent.parent / "sessions"
ARGUMENTS = '{"boat":"heron"}'


def write(path, text):
    path = FOLDER / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def lines(path, records):
    write(path, "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records))


def document(path, value):
    write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def codex():
    out = []

    def add(kind, payload):
        n = len(out)
        out.append({"timestamp": f"2026-04-02T08:{n // 60:02}:{n % 60:02}.000Z", "ordinal": n, "type": kind, "payload": payload})

    def said(role, text):
        part = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": part, "text": text}]}

    def item(payload):
        add("response_item", payload)

    def call(n, name="exec_command"):
        item({"type": "function_call", "name": name, "arguments": ARGUMENTS, "call_id": f"call_{n}"})

    def result(n, output):
        item({"type": "function_call_output", "call_id": f"call_{n}", "output": output})

    total = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 0}

    def tokens(given, cached, output, again=False):
        last = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": output, "total_tokens": given + output}
        if not again:
            for name, value in last.items():
                total[name] += value
        add("event_msg", {"type": "token_count", "info": {"total_token_usage": dict(total), "last_token_usage": last}})

    meta = {"id": "0a1b2c3d-0000-7000-8000-00000000c0de", "timestamp": "2026-04-02T08:00:00.000Z", "cwd": "/home/ada/boats",
            "originator": "codex_cli_rs", "cli_version": "0.145.0", "source": "cli", "model_provider": "openai",
            "history_mode": "paginated", "base_instructions": {"text": "You keep a boat yard's books."}, "git": {"branch": "main"}}
    add("session_meta", meta)
    item(said("user", "<environment_context>\n  <cwd>/home/ada/boats</cwd>\n</environment_context>"))
    add("turn_context", {"cwd": "/home/ada/boats", "model": "gpt-5.1-codex", "effort": "medium"})
    item(said("user", "Which boats need paint?"))
    add("event_msg", {"type": "user_message", "message": "Which boats need paint?"})
    item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look at the list."}], "content": None, "encrypted_content": "gAAAA-made-up"})
    call(1)
    call(2)
    tokens(1200, 1000, 40)
    result(1, "heron: 3 years")
    result(2, [{"type": "output_text", "text": "tern: 1 year"}])
    tokens(1200, 1000, 40, again=True)
    item(said("assistant", "The heron does."))
    tokens(1300, 1200, 12)
    item(said("user", "Paint it red."))
    item({"type": "custom_tool_call", "status": "completed", "call_id": "call_3", "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch"})
    item({"type": "custom_tool_call_output", "call_id": "call_3", "output": {"output": "Done", "metadata": {"exit_code": 0}}})
    item({"type": "ghost_snapshot", "ghost_commit": {"id": "abc"}})
    add("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    item(said("user", "Paint it blue instead."))
    item({"type": "local_shell_call", "call_id": "call_4", "status": "completed", "action": {"type": "exec", "command": ["paint", "blue"]}})
    result(4, "painted")
    item(said("assistant", "It is blue."))
    kept = [said("user", "Which boats need paint?"), said("user", "Paint it blue instead.")]
    add("compacted", {"message": "", "replacement_history": kept + [said("user", "Summary: the heron is blue now.")]})
    item(said("user", "And the tern?"))
    item(said("assistant", "Next year."))
    add("compacted", {"message": "", "replacement_history": [said("user", "And the tern?"), {"type": "compaction", "encrypted_content": "gAAAA-sealed"}]})
    item(said("user", "Thanks."))
    add("world_state", {"seen": True})
    lines("codex/sessions/2026/04/02/rollout-2026-04-02T08-00-00-0a1b2c3d-0000-7000-8000-00000000c0de.jsonl", out)


def gemini():
    def at(n):
        return f"2026-05-01T10:00:{n:02}.000Z"

    first = {"sessionId": "5eed0000-aaaa-4bbb-8ccc-00000000cafe", "projectHash": "f00d", "startTime": at(0), "lastUpdated": at(0), "kind": "main",
             "directories": ["/home/ada/harbor"]}
    call = {"id": "read_file-1", "name": "read_file", "args": {"path": "berths.csv"}, "status": "success", "timestamp": at(3)}
    answer = {"id": "g1", "timestamp": at(2), "type": "gemini", "content": "I look it up.", "model": "gemini-2.5-pro",
              "thoughts": [{"subject": "Berths", "description": "The list has them.", "timestamp": at(2)}], "toolCalls": [call]}
    response = [{"functionResponse": {"id": "read_file-1", "name": "read_file", "response": {"output": "7 berths, 2 free"}}}]
    whole = {**answer, "toolCalls": [{**call, "result": response}], "tokens": {"input": 900, "output": 20, "cached": 600, "thoughts": 8, "tool": 0, "total": 928}}
    records = [
        first,
        {"id": "u1", "timestamp": at(1), "type": "user", "content": [{"text": "How many berths are free?"}]},
        answer,
        whole,
        {"id": "g2", "timestamp": at(4), "type": "gemini", "content": [{"text": "Two are free."}], "model": "gemini-2.5-pro",
         "tokens": {"input": 950, "output": 5, "cached": 900, "thoughts": 0, "tool": 0, "total": 955}},
        {"id": "i1", "timestamp": at(5), "type": "info", "content": "Checkpoint saved."},
        {"id": "u2", "timestamp": at(6), "type": "user", "content": "Book one."},
        {"$rewindTo": "u2"},
        {"id": "u3", "timestamp": at(8), "type": "user", "content": "Which ones?"},
        {"id": "g3", "timestamp": at(9), "type": "gemini", "content": "Three and five.", "model": "gemini-2.5-flash"},
        {"$set": {"lastUpdated": at(9), "summary": "Free berths"}},
    ]
    lines("gemini-cli/tmp/f00d/chats/session-2026-05-01T10-00-5eed0000.jsonl", records)
    messages = [records[1], whole, records[4]]
    document("gemini-cli/tmp/f00d/chats/session-2025-12-01T10-00-01d00000.json",
             {**first, "sessionId": "01d00000-aaaa-4bbb-8ccc-00000000cafe", "messages": messages})


def agents_sdk():
    path = FOLDER / "openai-agents" / "sessions.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
        CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL, created_at TIMESTAMP);
        CREATE TABLE message_structure (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_id INTEGER NOT NULL,
            branch_id TEXT NOT NULL DEFAULT 'main', message_type TEXT NOT NULL, sequence_number INTEGER NOT NULL,
            user_turn_number INTEGER, branch_turn_number INTEGER, tool_name TEXT, created_at TIMESTAMP);
    """)
    items = [
        {"role": "user", "content": "Is the crane free?"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Ask the calendar."}], "encrypted_content": "gAAAA-made-up"},
        {"type": "function_call", "call_id": "call_1", "name": "calendar", "arguments": '{"day":"monday"}', "id": "fc_1", "status": "completed"},
        {"type": "function_call_output", "call_id": "call_1", "output": "free from ten"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "From ten on.", "annotations": []}]},
        {"role": "user", "content": "Book it."},
        {"role": "user", "content": "Book it for eleven."},
    ]
    base.execute("INSERT INTO agent_sessions VALUES ('crane', '2026-06-01 09:00:00', '2026-06-01 09:00:00')")
    for n, item in enumerate(items):
        base.execute("INSERT INTO agent_messages (session_id, message_data, created_at) VALUES ('crane', ?, ?)", (json.dumps(item), f"2026-06-01 09:00:{n:02}"))
    sequence = 0
    for branch, ids in [("main", [1, 2, 3, 4, 5, 6]), ("later", [1, 2, 3, 4, 5, 7])]:
        for id in ids:
            sequence += 1
            base.execute("INSERT INTO message_structure (session_id, message_id, branch_id, message_type, sequence_number) VALUES ('crane', ?, ?, 'item', ?)", (id, branch, sequence))
    base.commit()
    base.close()


def packed(value):
    """msgpack: what LangGraph's own encoder writes of these values."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack("b", value) if -32 <= value < 128 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(packed, value))
    if isinstance(value, tuple):
        module, name, dump = value
        data = packed([module, name, dump, "model_validate_json"])
        return b"\xc9" + struct.pack(">I", len(data)) + b"\x05" + data
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(packed(k) + packed(v) for k, v in value.items())


def langgraph():
    path = FOLDER / "langgraph" / "checkpoints.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
            parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
        CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
            idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
    """)

    def message(kind, id, content, **more):
        name = {"human": "HumanMessage", "ai": "AIMessage", "system": "SystemMessage", "tool": "ToolMessage"}[kind]
        return (f"langchain_core.messages.{kind}", name, {"content": content, "type": kind, "id": id, **more})

    calls = [{"name": "tide", "args": {"port": "north"}, "id": "call_1", "type": "tool_call"}, {"name": "tide", "args": {"port": "south"}, "id": "call_2", "type": "tool_call"}]
    usage = {"input_tokens": 50, "output_tokens": 9, "total_tokens": 59, "input_token_details": {"cache_read": 30}}
    system = message("system", "s", "You know the tides.")
    asked = message("human", "h1", "When is high water?")
    called = message("ai", "a1", "", tool_calls=calls, usage_metadata=usage, response_metadata={"model_name": "local-1"})
    results = [message("tool", f"t{n}", f"{n + 5} o'clock", tool_call_id=f"call_{n}", name="tide", status="success") for n in (1, 2)]
    answer = message("ai", "a2", [{"type": "text", "text": "At six and at seven."}], response_metadata={"model_name": "local-1"})
    elsewhere = message("human", "h1", "When is low water?")
    states = [
        ("01", None, []),
        ("02", "01", [system, asked]),
        ("03", "02", [system, asked, called]),
        ("04", "03", [system, asked, called, *results]),
        ("05", "04", [system, asked, called, *results, answer]),
        ("06", "02", [system, elsewhere]),
        ("07", "06", [system, elsewhere, message("ai", "a3", "At noon.")]),
        ("08", "07", [system, elsewhere]),
    ]
    for n, (id, parent, messages) in enumerate(states):
        state = {"v": 4, "ts": f"2026-07-01T12:00:{n:02}+00:00", "id": id, "channel_values": {"messages": messages} if messages else {"__start__": {}}}
        base.execute("INSERT INTO checkpoints VALUES ('tides', '', ?, ?, 'msgpack', ?, '{}')", (id, parent, packed(state)))
    old = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Hello", "type": "human", "id": "h"}}
    state = {"v": 1, "ts": "2024-01-01T00:00:00+00:00", "channel_values": {"messages": [old]}}
    base.execute("INSERT INTO checkpoints VALUES ('old', '', '01', NULL, 'json', ?, '{}')", (json.dumps(state),))
    base.execute("INSERT INTO checkpoints VALUES ('pickled', '', '01', NULL, 'pickle', ?, '{}')", (b"\x80\x04.",))
    base.commit()
    base.close()


def ai_sdk():
    document("ai-sdk/chat.json", {"id": "chat-dock", "messages": [
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Is dock two open?"}]},
        {"id": "a1", "role": "assistant", "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Ask the gate.", "providerMetadata": {"anthropic": {"signature": "c2lnbmVk"}}, "state": "done"},
            {"type": "tool-gate", "toolCallId": "c1", "state": "output-available", "input": {"dock": 2}, "output": {"open": True}},
            {"type": "dynamic-tool", "toolName": "lamp", "toolCallId": "c2", "state": "output-error", "input": {"dock": 2}, "errorText": "no lamp"},
            {"type": "tool-gate", "toolCallId": "c3", "state": "input-streaming", "input": {}},
            {"type": "step-start"},
            {"type": "source-url", "sourceId": "s1", "url": "https://example.com/docks"},
            {"type": "text", "text": "It is open, and dark.", "state": "done"}]}]})


def atif():
    tool = {"type": "function", "function": {"name": "gauge", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
    inner = {"schema_version": "ATIF-v1.7", "trajectory_id": "helper", "agent": {"name": "helper", "version": "1"},
             "steps": [{"step_id": 1, "source": "user", "message": "Read the old log."}, {"step_id": 2, "source": "agent", "message": "It says nothing."}]}
    document("atif/run.json", {
        "schema_version": "ATIF-v1.7", "session_id": "atif-gauge", "agent": {"name": "tender", "version": "2", "model_name": "local-2", "tool_definitions": [tool]},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You read gauges.", "timestamp": "2026-08-01T07:00:00Z"},
            {"step_id": 2, "source": "user", "message": "How high is the water?", "timestamp": "2026-08-01T07:00:01Z"},
            {"step_id": 3, "source": "agent", "message": "", "reasoning_content": "Two gauges.", "timestamp": "2026-08-01T07:00:02Z",
             "tool_calls": [{"tool_call_id": "c1", "function_name": "gauge", "arguments": {"at": "north"}}, {"tool_call_id": "c2", "function_name": "gauge", "arguments": {"at": "south"}}],
             "observation": {"results": [{"source_call_id": "c1", "content": "2.3 m"}, {"source_call_id": "c2", "content": "2.2 m"}]},
             "metrics": {"prompt_tokens": 80, "completion_tokens": 14, "cached_tokens": 60}},
            {"step_id": 4, "source": "agent", "message": "About 2.3 m.", "timestamp": "2026-08-01T07:00:03Z"}],
        "subagent_trajectories": [inner]})


def swe_agent():
    call = {"type": "function", "id": "c1", "function": {"name": "open", "arguments": '{"path":"hull.py"}'}}
    document("swe-agent/hull.traj", {"environment": "main", "trajectory": [], "info": {}, "history": [
        {"role": "system", "content": "You mend code.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "The hull leaks.", "agent": "main", "message_type": "observation"},
        {"role": "assistant", "content": "I open it.", "thought": "I open it.", "action": "open hull.py", "agent": "main", "tool_calls": [call], "message_type": "action"},
        {"role": "tool", "content": [{"type": "text", "text": "def hull(): pass"}], "agent": "main", "message_type": "observation", "tool_call_ids": ["c1"]}]})


def openhands():
    def response(id, text, calls):
        tools = [{"id": c, "type": "function", "function": {"name": n, "arguments": ARGUMENTS}} for c, n in calls]
        return {"id": id, "model": "local-3", "choices": [{"message": {"role": "assistant", "content": text, "tool_calls": tools}}],
                "usage": {"prompt_tokens": 70, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 20}}}

    both = response("r1", "I look at both.", [("c1", "look"), ("c2", "look")])
    meta = [{"function_name": "look", "tool_call_id": c, "model_response": both} for c in ("c1", "c2")]
    at = "2026-09-01T06:00:{:02}.000000"
    document("openhands/v0.json", [
        {"id": 0, "timestamp": at.format(0), "source": "user", "action": "message", "args": {"content": "Which buoy is adrift?"}},
        {"id": 1, "timestamp": at.format(1), "source": "agent", "action": "read", "tool_call_metadata": meta[0]},
        {"id": 2, "timestamp": at.format(2), "source": "agent", "cause": 1, "observation": "read", "content": "at its place", "tool_call_metadata": meta[0]},
        {"id": 3, "timestamp": at.format(3), "source": "agent", "action": "read", "tool_call_metadata": meta[1]},
        {"id": 4, "timestamp": at.format(4), "source": "agent", "cause": 3, "observation": "read", "content": "gone"},
        {"id": 5, "timestamp": at.format(5), "source": "environment", "observation": "agent_state_changed", "content": ""},
        {"id": 6, "timestamp": at.format(6), "source": "agent", "action": "message", "args": {"content": "The second."}}])

    def event(n, kind, parent, **more):
        return {"id": f"e{n}", "timestamp": at.format(n), "kind": kind, "parent_id": parent and f"e{parent}", **more}

    def action(n, parent, call):
        return event(n, "ActionEvent", parent, source="agent", thought=[{"type": "text", "text": "Look."}] if call == "c1" else [], reasoning_content=None, thinking_blocks=[],
                     tool_name="look", tool_call_id=call, tool_call={"id": call, "name": "look", "arguments": ARGUMENTS}, llm_response_id="r1")

    def observed(n, parent, call):
        return event(n, "ObservationEvent", parent, source="environment", tool_name="look", tool_call_id=call, action_id="x",
                     observation={"content": [{"type": "text", "text": f"seen {call}"}], "is_error": False})

    def says(n, parent, source, text):
        role = "user" if source == "user" else "assistant"
        return event(n, "MessageEvent", parent, source=source, llm_message={"role": role, "content": [{"type": "text", "text": text}]})

    events = [
        event(1, "SystemPromptEvent", None, source="agent", system_prompt={"type": "text", "text": "You watch buoys."},
              tools=[{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]),
        says(2, 1, "user", "Look at both."), action(3, 2, "c1"), action(4, 3, "c2"), observed(5, 4, "c1"), observed(6, 5, "c2"),
        says(7, 6, "agent", "Both are there."),
        event(8, "Condensation", 7, source="environment", forgotten_event_ids=["e3", "e4", "e5", "e6"], summary="Both buoys were seen.", summary_offset=1),
        says(9, 8, "user", "And at night?"), says(10, 7, "user", "Look again."),
    ]
    lines("openhands/v1.jsonl", events)
    for n, one in enumerate(events):
        document(f"openhands/conversations/watch/events/event-{n:05}-{one['id']}.json", one)
    document("openhands/conversations/watch/base_state.json", {"id": "watch-of-buoys"})


def inspect():
    path = FOLDER / "inspect" / "knots.eval"
    path.parent.mkdir(parents=True, exist_ok=True)
    user = {"id": "m1", "role": "user", "content": "attachment://q1"}
    called = {"id": "m2", "role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": "rope", "arguments": {"knot": "bowline"}, "type": "function"}]}
    result = {"id": "m3", "role": "tool", "content": "it holds", "tool_call_id": "c1", "function": "rope"}
    done = {"id": "m4", "role": "assistant", "content": [{"type": "text", "text": "A bowline."}]}
    tools = [{"name": "rope", "description": "Ties.", "parameters": {"type": "object", "properties": {"knot": {"type": "string"}}}}]

    def model(n, refs, message):
        usage = {"input_tokens": 10, "output_tokens": 4, "input_tokens_cache_read": 6}
        return {"event": "model", "timestamp": f"2026-10-01T05:00:{n:02}+00:00", "model": "local/4", "input": [], "input_refs": refs, "tools": tools,
                "output": {"choices": [{"message": message}], "usage": usage}}

    judge = {"event": "model", "timestamp": "2026-10-01T05:00:09+00:00", "model": "local/judge", "input": [{"id": "j1", "role": "user", "content": "Is it right?"}], "tools": [],
             "output": {"choices": [{"message": {"id": "j2", "role": "assistant", "content": "Yes."}}]}}
    sample = {"id": 1, "epoch": 1, "messages": [user, called, result, done], "message_pool": [user, called, result], "attachments": {"q1": "Which knot?"},
              "events": [{"event": "step"}, model(1, [[0, 1]], called), model(2, [[0, 3]], done), judge]}
    stamp = (2026, 1, 1, 0, 0, 0)
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in [("header.json", {"eval": {"run_id": "knots-run", "task": "knots"}}), ("samples/1_epoch_1.json", sample)]:
            info = zipfile.ZipInfo(name, stamp)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, json.dumps(value))


def chatgpt():
    def message(id, role, content, at, recipient="all", name=None, **facts):
        return {"id": id, "author": {"role": role, "name": name, "metadata": {}}, "create_time": at, "update_time": None, "content": content,
                "status": "finished_successfully", "end_turn": None, "weight": 1.0, "metadata": facts, "recipient": recipient, "channel": None}

    def text(*parts):
        return {"content_type": "text", "parts": list(parts)}

    base = 1767258000.25
    messages = [
        ("root", None, None),
        ("sys", "root", message("sys", "system", text(""), None, is_visually_hidden_from_conversation=True)),
        ("u1", "sys", message("u1", "user", text("How deep is the lock?"), base)),
        ("t1", "u1", message("t1", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "The lock", "content": "Look it up."}]}, base + 1, model_slug="gpt-5")),
        ("a1", "t1", message("a1", "assistant", {"content_type": "code", "language": "unknown", "text": '{"query":"lock depth"}'}, base + 2, "search", model_slug="gpt-5")),
        ("r1", "a1", message("r1", "tool", text("4.2 m at the sill"), base + 3, name="search")),
        ("a2", "r1", message("a2", "assistant", text("It is 4.2 m deep."), base + 4, model_slug="gpt-5")),
        ("u2", "a2", message("u2", "user", text("And the weir?"), base + 5)),
        ("a3", "u2", message("a3", "assistant", text("I do not know."), base + 6, model_slug="gpt-5")),
        ("u3", "a2", message("u3", "user", {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-weir"}, "And this weir?"]}, base + 7)),
        ("a4", "u3", message("a4", "assistant", text("About 1 m."), base + 8, model_slug="gpt-5")),
    ]
    mapping = {id: {"id": id, "message": one, "parent": parent, "children": [child for child, of, _ in messages if of == id]} for id, parent, one in messages}
    tree = {"title": "Depth of the lock", "create_time": base, "update_time": base + 8, "mapping": mapping, "moderation_results": [], "current_node": "a4",
            "conversation_id": "lock-0001", "id": "lock-0001", "default_model_slug": "gpt-5", "is_archived": False}
    document("chatgpt/conversations.json", [tree])


def claude_ai():
    def message(id, sender, content, second, parent, **more):
        at = f"2026-02-01T08:00:{second:02}.000000Z"
        words = " ".join(block.get("text", "") for block in content).strip()
        return {"uuid": id, "text": words, "content": content, "sender": sender, "created_at": at, "updated_at": at, "attachments": [], "files": [],
                "parent_message_uuid": parent, **more}

    def text(words):
        return {"type": "text", "text": words, "citations": []}

    attached = [{"file_name": "buoys.csv", "file_size": 12, "file_type": "csv", "extracted_content": "1,red\n2,green"}]
    messages = [
        message("m1", "human", [text("Which buoy is green?")], 0, "00000000-0000-4000-8000-000000000000", attachments=attached),
        message("m2", "assistant", [{"type": "thinking", "thinking": "Look at the list."}, {"type": "tool_use", "id": None, "name": "table", "input": {"row": 2}},
                                    {"type": "tool_result", "tool_use_id": None, "name": "table", "content": [text("2,green")], "is_error": False}, text("The second.")], 1, "m1"),
        message("m3", "human", [text("Where is it?")], 2, "m2"),
        message("m4", "assistant", [text("At the north pier.")], 3, "m3"),
        message("m5", "human", [text("Is it lit?")], 4, "m2"),
        message("m6", "assistant", [text("At night.")], 5, "m5"),
    ]
    document("claude-ai/conversations.json", [{"uuid": "buoys-0001", "name": "Green buoys", "created_at": "2026-02-01T08:00:00Z", "updated_at": "2026-02-01T08:00:05Z",
                                               "account": {"uuid": "nobody"}, "chat_messages": messages}])


def pydantic_ai():
    at = "2026-02-02T08:00:{:02}Z"
    call = {"tool_name": "depth", "args": '{"lock":1}', "tool_call_id": "c1", "id": None, "part_kind": "tool-call"}
    usage = {"input_tokens": 60, "cache_write_tokens": 10, "cache_read_tokens": 20, "output_tokens": 7, "details": {}}
    document("pydantic-ai/history.json", [
        {"parts": [{"content": "You tend locks.", "timestamp": at.format(0), "dynamic_ref": None, "part_kind": "system-prompt"},
                   {"content": ["How deep is it?", {"kind": "image-url", "url": "https://example.com/lock.png", "media_type": "image/png"}], "timestamp": at.format(0), "part_kind": "user-prompt"}],
         "instructions": "Be brief.", "kind": "request"},
        {"parts": [{"content": "Ask the gauge.", "id": None, "signature": "c2lnbmVk", "part_kind": "thinking"}, call], "usage": usage, "model_name": "local-1", "timestamp": at.format(1), "kind": "response"},
        {"parts": [{"tool_name": "depth", "content": {"metres": 4.2}, "tool_call_id": "c1", "timestamp": at.format(2), "part_kind": "tool-return"}], "instructions": "Be brief.", "kind": "request"},
        {"parts": [{"content": "4.2 m.", "id": None, "part_kind": "text"}], "usage": usage, "model_name": "local-1", "timestamp": at.format(3), "kind": "response"}])


def langchain():
    human = {"type": "human", "data": {"content": "Is the ferry late?", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": None, "id": "h1"}}
    call = {"name": "clock", "args": {"pier": "east"}, "id": "c1", "type": "tool_call"}
    called = {"type": "ai", "data": {"content": "", "additional_kwargs": {}, "response_metadata": {"model_name": "local-2"}, "type": "ai", "id": "a1", "tool_calls": [call],
                                     "usage_metadata": {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}}}
    result = {"type": "tool", "data": {"content": "ten past", "type": "tool", "name": "clock", "tool_call_id": "c1", "status": "success", "id": "t1"}}
    answer = {"type": "ai", "data": {"content": "Ten minutes.", "response_metadata": {"model_name": "local-2"}, "type": "ai", "id": "a2"}}
    document("langchain/ferry.json", [human, called, result, answer])


def dataset():
    tool = {"name": "tide", "description": "Tides.", "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}}
    lines("dataset/harbor.jsonl", [
        {"id": "share-1", "system": "You know tides.", "tools": json.dumps([tool]), "conversations": [
            {"from": "human", "value": "High water?"}, {"from": "function_call", "value": '{"name": "tide", "arguments": {"port": "east"}}'},
            {"from": "observation", "value": "at six"}, {"from": "gpt", "value": "At six."}]},
        {"id": 7, "query": "Low water in the west?", "tools": json.dumps([{"name": "tide", "description": "Tides.", "parameters": {"port": {"type": "str", "description": "Where."}, "days": {"type": "int, optional", "default": 1}}}]),
         "answers": json.dumps([{"name": "tide", "arguments": {"port": "west"}}])}])


def opencode():
    def at(second):
        return 1768000000000 + second * 1000

    session = {"id": "ses_1", "title": "Paint the crane", "version": "1.0.0", "projectID": "p1", "directory": "/home/ada/crane", "time": {"created": at(0), "updated": at(9)}}

    def user(n, second):
        return {"id": f"msg_{n}", "sessionID": "ses_1", "role": "user", "time": {"created": at(second)}}

    def assistant(n, second, **more):
        return {"id": f"msg_{n}", "sessionID": "ses_1", "role": "assistant", "time": {"created": at(second)}, "modelID": "local-3", "providerID": "local", "cost": 0.002,
                "tokens": {"input": 40, "output": 6, "reasoning": 2, "cache": {"read": 30, "write": 0}}, **more}

    def part(n, kind, **more):
        return {"id": f"prt_{n:02}", "type": kind, **more}

    tool = part(4, "tool", callID="c1", tool="bash", state={"status": "completed", "input": {"command": "ls"}, "output": "crane.txt", "title": "ls", "metadata": {}, "time": {"start": at(2), "end": at(3)}})
    messages = [
        (user(1, 0), [part(1, "text", text="What is here?"), part(2, "text", text="The folder is /home/ada/crane.", synthetic=True)]),
        (assistant(2, 1), [part(3, "step-start"), tool, part(5, "step-finish", reason="tool-calls")]),
        (assistant(3, 4), [part(6, "reasoning", text="One file."), part(7, "text", text="crane.txt is.")]),
        (user(4, 5), [part(8, "compaction", auto=False)]),
        (assistant(5, 6, summary=True), [part(9, "text", text="The folder has crane.txt.")]),
        (user(6, 7), [part(10, "text", text="Paint it.")]),
        (assistant(7, 8), [part(11, "text", text="It is red now.")]),
    ]
    document("opencode/export.json", {"info": {**session, "id": "ses_0"}, "messages": [{"info": info, "parts": parts} for info, parts in messages[:3]]})
    document("opencode/storage/session/p1/ses_1.json", session)
    for info, parts in messages:
        document(f"opencode/storage/message/ses_1/{info['id']}.json", info)
        for one in parts:
            document(f"opencode/storage/part/{info['id']}/{one['id']}.json", one)
    path = FOLDER / "opencode" / "opencode.db"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT, slug TEXT NOT NULL, directory TEXT NOT NULL, title TEXT NOT NULL,
            version TEXT NOT NULL, revert TEXT, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
    """)
    base.execute("INSERT INTO session VALUES ('ses_2', 'p1', NULL, 'crane', '/home/ada/crane', 'Paint the crane', '1.1.0', ?, ?, ?)", (json.dumps({"messageID": "msg_6"}), at(0), at(9)))
    for info, parts in messages:
        data = {name: value for name, value in info.items() if name not in ("id", "sessionID")}
        base.execute("INSERT INTO message VALUES (?, 'ses_2', ?, ?, ?)", (info["id"], at(0), at(0), json.dumps(data)))
        for one in parts:
            data = {name: value for name, value in one.items() if name != "id"}
            base.execute("INSERT INTO part VALUES (?, ?, 'ses_2', ?, ?, ?)", (one["id"], info["id"], at(0), at(0), json.dumps(data)))
    base.commit()
    base.close()


def mini_swe_agent():
    def said(content, cost, **more):
        response = {"id": f"r{cost}", "model": "local-4", "usage": {"prompt_tokens": 50, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 30}}}
        return {"role": "assistant", "content": content, "extra": {"cost": cost, "response": response, "timestamp": 1768100000.5}, **more}

    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    document("mini-swe-agent/rope.traj.json", {
        "info": {"model_stats": {"instance_cost": 0.03, "api_calls": 2}, "config": {"model": {"model_name": "local/4"}, "environment": {"cwd": "/rope"}}, "mini_version": "2.0.0", "exit_status": "Submitted", "submission": ""},
        "messages": [{"role": "system", "content": "You mend ropes."}, {"role": "user", "content": "Mend it."}, said("I look.", 0.01, tool_calls=[call]),
                     {"role": "tool", "tool_call_id": "c1", "content": "rope.txt"}, said("```mswea_bash_command\necho done\n```", 0.02), {"role": "user", "content": "<output>done</output>"},
                     {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}}],
        "trajectory_format": "mini-swe-agent-1.1"})


def aider():
    write("aider/.aider.chat.history.md", """
# aider chat started at 2026-02-03 09:00:00

> Aider v0.86.0  
> Main model: local/5 with diff edit format  
> Git repo: .git with 3 files  

#### /add pier.py  
> Added pier.py to the chat  

#### Make it longer.  
#### By two metres.  

I change the length:

```python
#### not a question
> not printed
LENGTH = 12
```

It is 12 m now.

> Tokens: 1.2k sent, 210 received. Cost: $0.0030 message, $0.0030 session.  
> Applied edit to pier.py  

# aider chat started at 2026-02-03 10:00:00

> Main model: local/5 with diff edit format  

#### Thanks.  

You are welcome.

> Tokens: 900 sent, 300 cache write, 400 cache hit, 5 received.  
""")


def copilot_cli():
    out = []

    def add(kind, data):
        out.append({"type": kind, "data": data, "id": f"e{len(out)}", "timestamp": f"2026-02-04T09:00:{len(out):02}.000Z", "parentId": out[-1]["id"] if out else None})

    add("session.start", {"sessionId": "copilot-oar", "version": 1, "producer": "copilot-agent", "copilotVersion": "0.0.400", "startTime": "2026-02-04T09:00:00.000Z",
                          "selectedModel": "local-6", "context": {"cwd": "/home/ada/oars", "branch": "main"}})
    add("user.message", {"content": "How many oars?", "transformedContent": "<current_datetime>now</current_datetime> How many oars?", "attachments": []})
    add("assistant.turn_start", {"turnId": "0"})
    add("assistant.message", {"messageId": "m1", "content": "", "reasoningText": "Count them.", "outputTokens": 12,
                              "toolRequests": [{"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls oars | wc -l"}, "type": "function"}]})
    add("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "ls oars | wc -l"}})
    add("tool.execution_complete", {"toolCallId": "c1", "success": True, "result": {"content": "8"}})
    add("assistant.message", {"messageId": "m2", "content": "Eight.", "toolRequests": [], "outputTokens": 3})
    add("session.compaction_complete", {"success": True, "summaryContent": "There are eight oars."})
    add("user.message", {"content": "And paddles?"})
    add("assistant.message", {"messageId": "m3", "content": "None.", "toolRequests": [], "outputTokens": 2})
    add("session.shutdown", {"shutdownType": "routine", "modelMetrics": {"local-6": {"requests": {"count": 3, "cost": 1}, "usage": {"inputTokens": 300, "outputTokens": 17, "cacheReadTokens": 200, "cacheWriteTokens": 0}}}})
    lines("copilot-cli/session-state/copilot-oar/events.jsonl", out)


def vscode_chat():
    rounds = [{"response": "I look.", "toolCalls": [{"name": "readFile", "arguments": '{"filePath":"sail.txt"}', "id": "c1"}], "id": "r1"}, {"response": "It is torn.", "toolCalls": [], "id": "r2"}]
    first = {"requestId": "q1", "message": {"text": "How is the sail?", "parts": []}, "variableData": {"variables": []}, "response": [{"value": "I look."}, {"kind": "toolInvocationSerialized", "toolCallId": "c1", "toolId": "readFile"}, {"value": "It is torn."}],
             "responseId": "s1", "result": {"metadata": {"toolCallRounds": rounds, "toolCallResults": {"c1": {"$mid": 20, "content": [{"$mid": 21, "value": "torn at the clew"}]}}}}, "isCanceled": False, "timestamp": 1768200000000, "modelId": "copilot/local-7"}
    second = {"requestId": "q2", "message": {"text": "Mend it.", "parts": []}, "response": [{"value": "It is "}, {"value": "mended.", "supportThemeIcons": False}], "responseId": "s2", "result": {"metadata": {}}, "timestamp": 1768200060000, "modelId": "copilot/local-7"}
    chat = {"version": 3, "requesterUsername": "ada", "responderUsername": "GitHub Copilot", "initialLocation": "panel", "sessionId": "sail-chat", "creationDate": 1768200000000, "lastMessageDate": 1768200060000,
            "customTitle": "The sail", "requests": [first, second]}
    document("vscode-chat/chatSessions/sail-chat.json", chat)
    lines("vscode-chat/chatSessions/mast-chat.jsonl", [
        {"kind": 0, "v": {**chat, "sessionId": "mast-chat", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{**second, "response": []}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": second["response"]},
        {"kind": 1, "k": ["customTitle"], "v": "The mast"}])


def goose():
    call = {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}}
    result = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": [{"type": "text", "text": "net.txt"}]}}
    messages = [("user", [{"type": "text", "text": "What is here?"}]), ("assistant", [{"type": "text", "text": "I look."}, call]), ("user", [result]), ("assistant", [{"type": "text", "text": "A net."}])]
    lines("goose/20260205_1.jsonl", [{"working_dir": "/home/ada/nets", "description": "Nets", "message_count": 4, "total_tokens": 90}]
          + [{"id": f"m{n}", "role": role, "created": 1768300000 + n, "content": content} for n, (role, content) in enumerate(messages)])
    path = FOLDER / "goose" / "sessions.db"
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '', working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
            accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, provider_name TEXT, model_config_json TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT);
    """)
    base.execute("INSERT INTO sessions VALUES ('20260205_2', 'More nets', '', '/home/ada/nets', NULL, NULL, 70, 20, 'local', ?)", (json.dumps({"model_name": "local-8"}),))
    for n, (role, content) in enumerate(messages):
        base.execute("INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES (?, '20260205_2', ?, ?, ?, '{}')", (f"m{n}", role, json.dumps(content), 1768300000 + n))
    base.commit()
    base.close()


def qwen_code():
    out = []

    def add(id, parent, kind, parts=None, **more):
        line = {"uuid": id, "parentUuid": parent, "sessionId": "qwen-keel", "timestamp": f"2026-02-06T09:00:{len(out):02}.000Z", "type": kind, "cwd": "/home/ada/keel", "version": "0.9.0", "gitBranch": "main"}
        if parts:
            line["message"] = {"role": "model" if kind == "assistant" else "user", "parts": parts}
        out.append({**line, **more})

    usage = {"promptTokenCount": 80, "candidatesTokenCount": 6, "cachedContentTokenCount": 50, "totalTokenCount": 86}
    add("l1", None, "user", [{"text": "Is the keel straight?"}])
    add("l2", "l1", "assistant", [{"text": "Measure it.", "thought": True}, {"text": "I measure."}, {"functionCall": {"id": "c1", "name": "measure", "args": {"at": "bow"}}}], model="local-9", usageMetadata=usage)
    add("l3", "l2", "tool_result", [{"functionResponse": {"id": "c1", "name": "measure", "response": {"output": "2 mm"}}}], toolCallResult={"callId": "c1", "status": "success"})
    add("l4", "l3", "assistant", [{"text": "Nearly."}], model="local-9", usageMetadata=usage)
    add("l5", "l4", "system", subtype="ui_telemetry", systemPayload={"uiEvent": {}})
    add("l6", "l5", "user", [{"text": "Plane it."}])
    add("l7", "l4", "user", [{"text": "Leave it."}])
    lines("qwen-code/projects/keel/chats/qwen-keel.jsonl", out)


def cursor():
    path = FOLDER / "cursor" / "state.vscdb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
        CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
    """)
    bubbles = [
        {"bubbleId": "b1", "type": 1, "text": "Is the anchor clean?", "createdAt": "2026-02-07T09:00:00.000Z"},
        {"bubbleId": "b2", "type": 2, "text": "", "thinking": {"text": "Look.", "signature": ""}, "createdAt": "2026-02-07T09:00:01.000Z",
         "toolFormerData": {"tool": 5, "toolCallId": "c1", "status": "completed", "name": "read_file", "rawArgs": '{"path":"anchor.txt"}', "result": '{"contents":"rusty"}'}},
        {"bubbleId": "b3", "type": 2, "text": "It is rusty.", "tokenCount": {"inputTokens": 60, "outputTokens": 5}, "createdAt": "2026-02-07T09:00:02.000Z"},
    ]
    headers = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in bubbles] + [{"bubbleId": "b4", "type": 2}]
    chat = {"composerId": "anchor-chat", "name": "The anchor", "createdAt": 1770454800000, "modelConfig": {"modelName": "local-10"}, "fullConversationHeadersOnly": headers}
    rows = [("composerData:anchor-chat", chat), ("composerData:empty-chat", {"composerId": "empty-chat", "fullConversationHeadersOnly": []})]
    rows += [(f"bubbleId:anchor-chat:{one['bubbleId']}", one) for one in bubbles]
    for key, value in rows:
        base.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(value)))
    base.commit()
    base.close()


for make in (codex, gemini, agents_sdk, langgraph, ai_sdk, atif, swe_agent, openhands, inspect, chatgpt, claude_ai, pydantic_ai, langchain, dataset, opencode,
             mini_swe_agent, aider, copilot_cli, vscode_chat, goose, qwen_code, cursor):
    make()
