"""Database files in the shapes that the Python project `tract` wrote, with conversations of our own.

    python3 tests/data/make/python_tract.py     writes tests/data/python_tract/vN.db and vN.expected.json

Three versions of its schema: v6 (edits are `response_to`), v8 (tools) and v13 (tags, data that no
model sees, merges hashed with all parents). Tables and hashes are those that
`crates/tract-store-sqlite/src/python` reads. `compiled` below works a branch out as the original does;
what comes of it is the expected file. Times are fixed, so that the same files come out again.
"""

import hashlib
import json
import pathlib
import sqlite3
from datetime import datetime, timedelta

FOLDER = pathlib.Path(__file__).parent.parent / "python_tract"
PRIORITIES = {"instruction": "PINNED", "reasoning": "SKIP"}

TABLES = """
CREATE TABLE blobs (content_hash VARCHAR(64) NOT NULL PRIMARY KEY, payload_json TEXT NOT NULL, byte_size INTEGER NOT NULL,
  token_count INTEGER NOT NULL, created_at DATETIME NOT NULL);
CREATE TABLE commits (commit_hash VARCHAR(64) NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL, parent_hash VARCHAR(64),
  content_hash VARCHAR(64) NOT NULL REFERENCES blobs, content_type VARCHAR(50) NOT NULL, operation VARCHAR(6) NOT NULL,
  EDIT_TARGET VARCHAR(64), message TEXT, token_count INTEGER NOT NULL, metadata_json JSON, generation_config_json JSON,
  TAGS created_at DATETIME NOT NULL);
CREATE TABLE commit_parents (commit_hash VARCHAR(64) NOT NULL, parent_hash VARCHAR(64) NOT NULL, position INTEGER NOT NULL,
  PRIMARY KEY (commit_hash, parent_hash));
CREATE TABLE refs (tract_id VARCHAR(64) NOT NULL, ref_name VARCHAR(255) NOT NULL, commit_hash VARCHAR(64), symbolic_target VARCHAR(255),
  PRIMARY KEY (tract_id, ref_name));
CREATE TABLE annotations (id INTEGER NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL, target_hash VARCHAR(64) NOT NULL,
  priority VARCHAR(9) NOT NULL, reason TEXT, RETENTION created_at DATETIME NOT NULL);
CREATE TABLE operation_events (event_id VARCHAR(64) NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL, event_type VARCHAR(30) NOT NULL,
  branch_name VARCHAR(255), created_at DATETIME NOT NULL, original_tokens INTEGER NOT NULL, compressed_tokens INTEGER NOT NULL,
  params_json JSON INSTRUCTIONS);
CREATE TABLE operation_commits (event_id VARCHAR(64) NOT NULL, commit_hash VARCHAR(64) NOT NULL, role VARCHAR(10) NOT NULL,
  position INTEGER NOT NULL, PRIMARY KEY (event_id, commit_hash, role));
CREATE TABLE spawn_pointers (id INTEGER NOT NULL PRIMARY KEY, parent_tract_id VARCHAR(64) NOT NULL, parent_commit_hash VARCHAR(64),
  child_tract_id VARCHAR(64) NOT NULL UNIQUE, purpose TEXT NOT NULL, inheritance_mode VARCHAR(20) NOT NULL, display_name VARCHAR(255),
  created_at DATETIME NOT NULL);
CREATE TABLE _trace_meta ("key" VARCHAR(255) NOT NULL PRIMARY KEY, value TEXT NOT NULL);
"""
TOOL_TABLES = """
CREATE TABLE tool_definitions (content_hash VARCHAR(64) NOT NULL PRIMARY KEY, name VARCHAR(255) NOT NULL, schema_json JSON NOT NULL,
  created_at DATETIME NOT NULL);
CREATE TABLE commit_tools (commit_hash VARCHAR(64) NOT NULL, tool_hash VARCHAR(64) NOT NULL, position INTEGER NOT NULL,
  PRIMARY KEY (commit_hash, tool_hash));
"""
TAG_TABLES = """
CREATE TABLE tag_annotations (id INTEGER NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL, target_hash VARCHAR(64) NOT NULL,
  tag VARCHAR(100) NOT NULL, created_at DATETIME NOT NULL);
CREATE TABLE tag_registry (id INTEGER NOT NULL PRIMARY KEY, tract_id VARCHAR(64) NOT NULL, tag_name VARCHAR(100) NOT NULL,
  description TEXT, auto_created INTEGER NOT NULL, created_at DATETIME NOT NULL);
"""
AUTOMATIC_TAGS = ["instruction", "tool_call", "tool_result", "reasoning", "revision", "observation"]


def sha256(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class File:
    """A database of one version, with the rows that have been written to it."""

    def __init__(self, version, start):
        self.version, self.now = version, datetime.fromisoformat(start)
        path = FOLDER / f"v{version}.db"
        path.unlink(missing_ok=True)
        self.db = sqlite3.connect(path)
        self.edit_column = "response_to" if version < 8 else "edit_target"
        tables = TABLES.replace("EDIT_TARGET", self.edit_column).replace("TAGS", "tags_json JSON," if version >= 10 else "")
        tables = tables.replace("RETENTION", "retention_json JSON," if version >= 7 else "")
        tables = tables.replace("INSTRUCTIONS", ", original_instructions TEXT, effective_instructions TEXT" if version >= 9 else "")
        self.db.executescript("PRAGMA page_size = 512;" + tables + (TOOL_TABLES if version >= 8 else "") + (TAG_TABLES if version >= 13 else ""))
        self.insert("_trace_meta", key="schema_version", value=str(version))
        self.commits, self.annotated, self.tracts = {}, {}, []

    def insert(self, table, ignore="", **row):
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" for _ in row)
        self.db.execute(f"INSERT {ignore} INTO {table} ({names}) VALUES ({marks})", list(row.values()))

    def tick(self):
        self.now += timedelta(milliseconds=7, microseconds=131)
        return self.now

    def whole_second(self):
        """The next thing happens on a whole second."""
        self.now = (self.now + timedelta(seconds=1)).replace(microsecond=0) - timedelta(milliseconds=7, microseconds=131)

    def stamp(self, at):
        return at.strftime("%Y-%m-%d %H:%M:%S.%f")

    def finish(self):
        self.db.commit()
        self.db.execute("VACUUM")
        self.db.close()
        expected = {"schema_version": self.version, "tracts": [tract.expected() for tract in self.tracts]}
        text = json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"v{self.version}.expected.json").write_text(text, "utf-8")


class Tract:
    """One conversation of a file, and the branch that it is on."""

    def __init__(self, file, id):
        self.file, self.id, self.branch, self.refs, self.tools = file, id, "main", {}, []
        file.tracts.append(self)

    # What it says

    def content(self, type, **members):
        if type == "instruction" and self.file.version >= 9:
            members.setdefault("name", None)
        if type == "dialogue":
            members.setdefault("name", None)
        if type == "tool_io":
            members.setdefault("status", None)
        return {"content_type": type, **members}

    def commit(self, type, edit=None, meta=None, config=None, tools=None, tags=(), message=None, parents=None, **members):
        content = self.content(type, **members)
        shown = str(content.get("text") or content.get("content") or "")
        at, head = self.file.tick(), self.refs.get(self.branch)
        parents = [head] if parents is None else parents
        blob, payload = sha256(canonical(content)), json.dumps(content, sort_keys=True, ensure_ascii=False)
        size = len(payload.encode("utf-8"))
        iso = at.strftime("%Y-%m-%dT%H:%M:%S") + (at.strftime(".%f") if at.microsecond else "") + "+00:00"
        hashed = {"content_hash": blob, "parent_hash": parents[0], "content_type": type, "operation": "edit" if edit else "append", "timestamp_iso": iso}
        if edit:
            hashed[self.file.edit_column] = edit
        if len(parents) > 1 and self.file.version >= 13:
            hashed["parent_hashes"] = sorted(parents)
        hash = sha256(canonical(hashed))
        time, count = self.file.stamp(at), len(shown) // 4
        self.file.insert("blobs", "OR IGNORE", content_hash=blob, payload_json=payload, byte_size=size, token_count=count, created_at=time)
        flat = " ".join(shown.split())[:500] or type
        row = {"commit_hash": hash, "tract_id": self.id, "parent_hash": parents[0], "content_hash": blob, "content_type": type,
               "operation": "EDIT" if edit else "APPEND", self.file.edit_column: edit, "message": message or flat, "token_count": count,
               "metadata_json": json.dumps(meta), "generation_config_json": json.dumps(config), "created_at": time}
        if self.file.version >= 10:
            row["tags_json"] = json.dumps(list(tags) or None)
        self.file.insert("commits", **row)
        if len(parents) > 1:
            for position, parent in enumerate(parents):
                self.file.insert("commit_parents", commit_hash=hash, parent_hash=parent, position=position)
        linked = self.tools if tools is None else tools
        for position, schema in enumerate(linked):
            id = sha256(json.dumps(schema, sort_keys=True, separators=(",", ":")))
            name = schema.get("function", schema).get("name", "")
            self.file.insert("tool_definitions", "OR IGNORE", content_hash=id, name=name, schema_json=json.dumps(schema), created_at=time)
            self.file.insert("commit_tools", commit_hash=hash, tool_hash=id, position=position)
        self.file.commits[hash] = {"content": content, "parents": [p for p in parents if p], "edit": edit, "meta": meta or {}, "at": at, "tools": linked}
        priority = PRIORITIES.get(type) or ("PINNED" if type == "session" and self.file.version >= 13 else None)
        if priority:
            self.annotate(hash, priority, f"Default priority for {type}", at=at)
        self.refs[self.branch] = hash
        return hash

    def system(self, text, **more):
        return self.commit("instruction", text=text, **more)

    def says(self, role, text, **more):
        return self.commit("dialogue", role=role, text=text, **more)

    def calls(self, *calls, text="", **more):
        made = [{"id": id, "name": name, "arguments": arguments, "type": "function"} for id, name, arguments in calls]
        return self.says("assistant", text, meta={"tool_calls": made}, **more)

    def result(self, id, name, text, meta=None, **more):
        return self.says("tool", text, meta={**(meta or {}), "tool_call_id": id, "name": name}, message=f"tool result: {name}", **more)

    def annotate(self, target, priority, reason=None, retention=None, at=None):
        row = {"tract_id": self.id, "target_hash": target, "priority": priority, "reason": reason, "created_at": self.file.stamp(at or self.file.tick())}
        if self.file.version >= 7:
            row["retention_json"] = json.dumps(retention)
        self.file.insert("annotations", **row)
        self.file.annotated[target] = priority

    # Where it goes

    def switch(self, name, at=None):
        if name not in self.refs:
            self.refs[name] = at or self.refs[self.branch]
        self.branch = name

    def merge(self, name):
        return self.commit("freeform", payload={"message": f"Merged {name} into {self.branch}"}, tools=self.tools if self.file.version < 13 else [],
                           parents=[self.refs[self.branch], self.refs[name]], message=f"Merge branch '{name}' into {self.branch}")

    def copy(self, hash):
        """Commits again what a commit says: without priorities, tags and tools, as the original does."""
        old = self.file.commits[hash]
        content = dict(old["content"])
        return self.commit(content.pop("content_type"), edit=old["edit"], meta=old["meta"] or None, tools=[], **content)

    def event(self, type, sources, results, **params):
        id = sha256(f"{self.id} {type} {sources} {results}")[:32]
        row = {"event_id": id, "tract_id": self.id, "event_type": type, "branch_name": None if type == "import" else self.branch,
               "created_at": self.file.stamp(self.file.tick()), "original_tokens": 0, "compressed_tokens": 0, "params_json": json.dumps(params)}
        self.file.insert("operation_events", **row)
        for role, hashes in (("source", sources), ("result", results)):
            for position, hash in enumerate(hashes):
                self.file.insert("operation_commits", event_id=id, commit_hash=hash, role=role, position=position)

    def pick(self, hash):
        self.event("import", [hash], [self.copy(hash)], original_commit=hash)

    def rebase(self, onto):
        base = set(self.line(self.refs[onto]))
        sources = [hash for hash in self.line(self.refs[self.branch]) if hash not in base]
        self.refs[self.branch] = self.refs[onto]
        self.event("reorganize", sources, [self.copy(hash) for hash in sources], target_branch=onto)

    def compress(self, text):
        """Puts a summary in the place of all that is not pinned."""
        sources = self.line(self.refs[self.branch])
        pinned = [hash for hash in sources if self.priority(hash) == "PINNED" and not self.file.commits[hash]["edit"]]
        self.refs[self.branch] = None
        results = [self.copy(hash) for hash in pinned]
        results.append(self.says("assistant", text, tools=[], message=f"Compressed {len(sources) - len(pinned)} commits"))
        self.event("compress", sources, results, target_tokens=None)

    def line(self, head):
        found = []
        while head:
            found.append(head)
            head = next(iter(self.file.commits[head]["parents"]), None)
        return found[::-1]

    # What the original makes of it

    def priority(self, hash):
        return self.file.annotated.get(hash, "NORMAL")

    def compiled(self, head):
        order = []
        for hash in self.line(head):
            for other in self.file.commits[hash]["parents"][1:]:
                order += [one for one in self.line(other) if one not in order and one not in self.line(hash)]
            order.append(hash)
        commits = {hash: self.file.commits[hash] for hash in order}
        edits, named = {}, {}
        for hash, commit in commits.items():
            if commit["edit"] and (commit["edit"] not in edits or commit["at"] > edits[commit["edit"]]["at"]):
                edits[commit["edit"]] = commit
            if commit["content"]["content_type"] == "instruction" and commit["content"].get("name") and not commit["edit"]:
                named[commit["content"]["name"]] = hash
        kept = [hash for hash, commit in commits.items() if not commit["edit"] and self.priority(hash) != "SKIP"
                and commit["content"]["content_type"] not in ("config", "metadata")
                and named.get(commit["content"].get("name") if commit["content"]["content_type"] == "instruction" else None, hash) == hash]
        return kept, [self.message(edits.get(hash, commits[hash])) for hash in kept]

    def message(self, commit):
        content, meta = commit["content"], commit["meta"]
        type, text = content["content_type"], content.get("text", content.get("content"))
        role = {"instruction": "system", "session": "system", "tool_io": "tool"}.get(type, content.get("role", "assistant"))
        if type == "freeform":
            text = json.dumps(content["payload"], sort_keys=True, indent=2)
        if type == "session":
            text = json.dumps(content, sort_keys=True)
        if type == "tool_io":
            text = self.tool_text(content)
        made = {"role": role, "content": text}
        if type == "dialogue":
            name = meta.get("name") if role == "tool" else content["name"]
            if name:
                made["name"] = name
            if meta.get("tool_calls"):
                made["tool_calls"] = [{"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])}}
                                      for call in meta["tool_calls"]]
            if meta.get("tool_call_id"):
                made["tool_call_id"] = meta["tool_call_id"]
        return made

    def tool_text(self, content):
        name, payload, status = content["tool_name"], content["payload"], content["status"]
        def short(value):
            return json.dumps(value, sort_keys=True, separators=(",", ":"))
        header = f"Tool {content['direction']}: {name}" + (f" ({status})" if status else "")
        if self.file.version < 13:
            return header + "\n" + json.dumps(payload, sort_keys=True, indent=2)
        if content["direction"] == "call":
            return f"{name}(" + ", ".join(f"{key}={value!r}" if isinstance(value, str) else f"{key}={short(value)}" for key, value in sorted(payload.items())) + ")"
        if len(payload) == 1 and next(iter(payload)) in ("result", "error", "text"):
            value = next(iter(payload.values()))
            return f"{name} {'✗' if status == 'error' else '→'} {value if isinstance(value, str) else short(value)}"
        return header + "\n" + short(payload)

    def expected(self):
        branches = []
        for name, head in sorted(self.refs.items()):
            hashes, messages = self.compiled(head)
            linked = [self.file.commits[hash]["tools"] for hash in reversed(self.line(head)) if self.file.commits[hash]["tools"]]
            branch = {"name": name, "head": head, "messages": messages, "message_commits": hashes,
                      "tools": None if self.file.version < 8 else linked[0] if linked else []}
            if self.file.version >= 13:
                branch["priorities"] = [self.priority(hash).lower() for hash in hashes]
            branches.append(branch)
        return {"tract_id": self.id, "branches": branches}

    def close(self, detached=None, **others):
        self.file.insert("refs", tract_id=self.id, ref_name="HEAD", commit_hash=detached,
                         symbolic_target=None if detached else f"refs/heads/{self.branch}")
        for name, head in self.refs.items():
            self.file.insert("refs", tract_id=self.id, ref_name=f"refs/heads/{name}", commit_hash=head)
        for name, hash in others.items():
            self.file.insert("refs", tract_id=self.id, ref_name=name, commit_hash=hash)


def v6():
    """All kinds of content, edits, priorities, a merge, a fast-forward, an import, a rebase, two compressions."""
    file = File(6, "2026-02-20 08:00:15.839262")
    log = Tract(file, "harbor-log")
    log.system("You keep the log of the harbor. Heights in metres, times in 24h. Never book a berth without asking.")
    ask = log.says("user", "Måsen wants a berth for four nights in April.", name="ines")
    log.says("assistant", "Four nights are free at the north pier. Does she draw less than 2.1 m?")
    file.whole_second()
    log.says("user", "This was said on a whole second.")
    wish = log.says("user", "Yes — and near the crane. At most 250 kr a night.", config={"model": "m-1", "temperature": 0.5})
    log.says("user", "Yes — and near the crane. At most 310 kr a night, shore power included ⚓", edit=wish, message="more a night")
    log.commit("tool_io", tool_name="free_berths", direction="call", payload={"from": "2026-04-11", "nights": [4, 5], "max_kr": 310.0})
    log.commit("tool_io", tool_name="free_berths", direction="result", status="success", payload={"berths": [{"id": "C4", "kr": 290}], "more": None, "text": "kaj 1\nkaj 2\t\"q\" \\ \u2028 \u007f å"})
    failed = log.commit("tool_io", tool_name="crane_plan", direction="result", status="error", payload={"error": "no plan for April"})
    note = log.commit("reasoning", text="C4 is cheap but far from the crane; weigh it against B7.")
    fork = log.commit("artifact", artifact_type="plan", content="- Sat: arrive 18:40\n- Sun: crane, 9–11\n", language="markdown")
    log.commit("output", text="| day | what |\n|---|---|\n| Sun | crane |", format="markdown", message="first table")
    log.commit("freeform", payload={"b": "å", "a": 2, "tide": {"big": 12345678901234567890, "six": [19, 21, 18], "step": 1e-07, "zero": -0.0}})
    log.annotate(ask, "PINNED", "the request itself")
    log.annotate(failed, "SKIP")
    log.annotate(note, "SKIP", "internal note")
    log.commit("session", session_type="checkpoint", summary="Berths found, crane open.", decisions=["C4"], failed_approaches=[], next_steps=["crane"])
    log.annotate(failed, "NORMAL")
    log.switch("supplies", fork)
    log.says("user", "What do we load?")
    loaded = log.says("assistant", "Water, diesel, and rope.")
    log.switch("boat")
    log.refs["boat"] = log.refs["main"]
    boat = log.says("user", "Which boat is she?")
    log.says("assistant", "A pilot boat of 1968.")
    log.switch("main")
    log.says("user", "Give me the plan of two days.")
    log.merge("boat")
    log.says("assistant", "Day one: arrive. Day two: the crane.")
    log.switch("ff-only")
    log.says("user", "And the third day?")
    log.switch("main")
    log.refs["main"] = log.refs["ff-only"]
    log.switch("supplies")
    log.pick(boat)
    log.switch("supplies-rebased", loaded)
    log.says("user", "Fenders too?")
    log.rebase("boat")
    log.switch("short", log.refs["boat"])
    log.compress("Summary: Måsen, four nights in April, at most 310 kr, C4.")
    log.says("user", "Thanks, that is short enough.")
    log.compress("Summary: C4 for Måsen in April.")
    log.says("user", "Shorter still.")
    log.switch("undone", log.refs["boat"])
    undone = log.says("user", "This is taken back.")
    log.refs["undone"] = fork
    log.switch("main")
    log.close(ORIG_HEAD=undone, PREV_HEAD=log.refs["undone"])
    second = Tract(file, "second-log")
    second.system("Heights in metres.")
    second.says("user", "Måsen wants a berth for four nights in April.", name="ines")
    second.says("assistant", "Noted.")
    second.close()
    file.finish()


def function(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description,
                                             "parameters": {"type": "object", "properties": properties, "required": list(properties)}}}


TEXT = {"type": "string"}
SEARCH = function("search", "Search the log", words=TEXT)
BETTER = function("search", "Search the log by an expression: gives pages and lines – “ö” too", words=TEXT, limit={"type": "integer", "maximum": 1e22})
READ = function("read_page", "Read a page", page=TEXT)
PLAIN = {"name": "gauge", "description": "Anthropic's shape", "input_schema": {"type": "object", "properties": {"step": {"type": "number", "default": 1.0, "exclusiveMinimum": 1e-07}}}}
NAMELESS = {"type": "object", "properties": {"x": {"type": "integer", "maximum": 12345678901234567890}}}


def v8():
    """Tools, calls and results with their edits, a turn that failed, hooks' marks, a merge, a compression."""
    file = File(8, "2026-02-25 21:41:34.208322")
    agent = Tract(file, "pilot-agent")
    rules = agent.system("You look after the pilot boat. Read before you write.")
    fault = agent.says("user", "The gauge of the north pier is wrong since yesterday.")
    agent.switch("no-tools-yet")
    agent.says("assistant", "Before any tool was set.")
    agent.switch("main")
    agent.tools = [SEARCH, READ]
    agent.says("user", "Begin with the log.")
    agent.calls(("call_1", "search", {"words": "gauge", "limit": 5, "ratio": 1e22}))
    found = agent.result("call_1", "search", "page 12: gauge north\npage 31: gauge south")
    agent.result("call_1", "search", "page 12 (of 2)", edit=found)
    agent.result("call_1", "search", "page 12: gauge north", edit=found, meta={"trimmed": True})
    agent.tools = [BETTER, READ, PLAIN]
    agent.says("user", "From here on with the better search.")
    agent.calls(("call_2", "search", {"words": "gau[gs]e"}), ("call_3", "read_page", {"page": "12"}))
    agent.result("call_2", "search", "page 12, line 8")
    agent.result("call_3", "read_page", "x" * 40, meta={"summarized_from_length": 900})
    wrong = agent.calls(("call_4", "read_page", {"page": "99"}))
    missing = agent.result("call_4", "read_page", "no such page", meta={"is_error": True})
    agent.annotate(wrong, "SKIP")
    agent.annotate(missing, "SKIP")
    agent.says("assistant", "Once with another tool.", tools=[NAMELESS])
    agent.says("user", "No tools with this one.", tools=[])
    agent.switch("fix")
    agent.says("user", "Try to set it here.")
    agent.calls(("call_5", "gauge", {"step": 3.0, "big": 12345678901234567890}), ("call_6", "read_page", {"page": "13 – åäö"}))
    agent.result("call_5", "gauge", '{"t": 3.0}')
    agent.result("call_6", "read_page", "Set gauge to 200 mm\n")
    agent.switch("main")
    agent.tools = []
    agent.says("user", "Meanwhile on main, without active tools.")
    agent.merge("fix")
    agent.tools = [PLAIN]
    agent.says("assistant", "The gauge is right again.", config={"model": "m-2", "top_p": 0.9})
    agent.annotate(rules, "PINNED", "rules")
    agent.annotate(fault, "IMPORTANT", "the fault", {"instructions": "keep the pier's name", "match_patterns": ["north"]})
    agent.says("user", "Log it.")
    agent.says("assistant", "It is in the log, page 32.")
    agent.switch("compact", agent.refs["no-tools-yet"])
    agent.compress("Summary: the north pier's gauge is wrong.")
    agent.says("user", "Go on from the summary.", tools=[])
    agent.switch("main")
    agent.close(PREV_HEAD=agent.refs["compact"])
    file.finish()


def v13():
    """Three conversations, one with a detached HEAD, one that was spawned; tags, named instructions, data, merges."""
    file = File(13, "2026-03-19 21:42:48.142845")
    for n, tag in enumerate(AUTOMATIC_TAGS, 1):
        file.insert("tag_registry", id=n, tract_id="river-agent", tag_name=tag, auto_created=1, created_at=file.stamp(file.now))
    agent = Tract(file, "river-agent")
    agent.tools = [SEARCH, READ, PLAIN]
    agent.system("You write short reports of the river.", tags=["instruction"])
    agent.system("At most 300 words.", name="length", tags=["instruction"])
    agent.system("Warm words.", name="tone", tags=["instruction"])
    agent.commit("config", settings={"model": "m-3", "temperature": 0.3, "max_tokens": 800}, message="configure: model, temperature, max_tokens")
    asked = agent.says("user", "How much did the river rise in 2024? Ж水🌊", tags=["source", "числа"])
    agent.commit("reasoning", text="Two gauges disagree; read both.", format="think_tags", tags=["reasoning"])
    shown = agent.commit("reasoning", text="kept visible", format="parsed")
    agent.annotate(shown, "NORMAL")
    agent.calls(("call_1", "search", {"words": "gauge a OR b"}), tags=["tool_call"])
    result = agent.result("call_1", "search", "a: 27.5 cm, b: 27.1 cm", tags=["tool_result"])
    agent.result("call_1", "search", "a: 27.5 cm (2024)", edit=result, tags=["tool_result", "revision"])
    agent.commit("metadata", kind="tree", data={"gauges": ["a", "b"]}, path="tree.json", message="metadata: tree")
    agent.system("Dry, exact words.", name="tone", tags=["instruction"])
    agent.system("At most 200 words.", name="length", tags=["instruction"])
    file.whole_second()
    agent.says("user", "on the whole second")
    agent.commit("tool_io", tool_name="calc", direction="call", payload={"expr": "27.5/10", "args": [1, True, None]}, tags=["tool_call"])
    agent.commit("tool_io", tool_name="calc", direction="result", status="success", payload={"result": "2.75 dm"}, tags=["tool_result"])
    agent.commit("tool_io", tool_name="calc", direction="result", status="error", payload={"error": "division by zero"}, tags=["tool_result"])
    base = agent.commit("artifact", artifact_type="code", content="print(27.5/10)\n", language="python")
    agent.commit("output", text='{"rise_cm": 27.5}', format="json", tags=["draft", "source"])
    agent.commit("freeform", payload={"z": 1, "a": {"y": [], "x": {}}})
    agent.commit("session", session_type="handoff", summary="Rise found.", decisions=["use gauge a"], failed_approaches=[], next_steps=["write"], tags=["observation"])
    agent.annotate(asked, "IMPORTANT", None, {"instructions": "keep the year and the unit", "match_patterns": ["2024"]})
    agent.switch("gauge-b")
    agent.says("user", "And what says gauge b?")
    agent.says("assistant", "27.1 cm.")
    agent.switch("style", base)
    agent.says("user", "How much did the river rise in 2024, in centimetres?", edit=asked)
    agent.says("assistant", "In plain words.")
    agent.switch("main")
    agent.says("user", "Write it.")
    agent.merge("gauge-b")
    agent.merge("style")
    written = agent.says("assistant", "The river rose by 27.5 cm.")
    agent.switch("brief", agent.refs["gauge-b"])
    agent.compress("Summary: the river rose by 27.5 cm in 2024 (gauge a).")
    agent.says("user", "continue from the brief")
    agent.switch("replay", base)
    agent.says("user", "Is it the highest?")
    agent.pick(written)
    lost = agent.says("user", "This is left behind.")
    agent.rebase("gauge-b")
    agent.switch("main")
    for n, (target, tag) in enumerate(((asked, "source"), (result, "числа")), 1):
        file.insert("tag_annotations", id=n, tract_id="river-agent", target_hash=target, tag=tag, created_at=file.stamp(file.tick()))
    agent.close(PREV_HEAD=lost)
    other = Tract(file, "b2")
    other.tools = [PLAIN]
    other.system("You write short reports of the river.")
    middle = other.says("user", "Same file, another conversation.")
    other.says("assistant", "Its own refs, shared blobs.")
    other.says("user", "the last one")
    other.close(detached=middle)
    child = Tract(file, "1598f4e2ca69439ca392f206d0ce8bbb")
    child.system("[system]: You write short reports of the river.\n[user]: How much did it rise?")
    child.says("user", "Hello, gauge office?")
    child.says("assistant", "27.2 cm, revised.")
    child.close()
    file.insert("spawn_pointers", id=1, parent_tract_id="river-agent", parent_commit_hash=written, child_tract_id=child.id,
                purpose="ask the gauge office", inheritance_mode="head_snapshot", created_at=file.stamp(file.tick()))
    file.finish()
    print(*(f"{name} {hash}" for name, hash in (("asked", asked), ("result", result), ("lost", lost), ("middle", middle))), sep="\n")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    v6()
    v8()
    v13()
