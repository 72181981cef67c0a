"""Sessions of coding agents, written for tract: the shapes of their files, none of their words.

    python3 tests/data/make/sessions.py         writes tests/data/sessions/claude-code/

A folder as Claude Code keeps it: a session with parallel calls, a rewind, a subagent and what no model saw, a session
with a compaction, and a file that holds a title alone.
"""

import json
import pathlib
import uuid

FOLDER = pathlib.Path(__file__).parent.parent / "sessions" / "claude-code" / "projects" / "-home-ada-tide-tables"
MODEL = "claude-sonnet-4-20250514"


class Session:
    """Lines of one file: each has an id and a time of its own, and names its parent."""

    def __init__(self, name, agent=None, session=None):
        self.id = session or str(uuid.uuid5(uuid.NAMESPACE_URL, f"tract/{name}"))
        self.name, self.agent, self.lines, self.tip = name, agent, [], None

    def uuid(self, mark):
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"tract/{self.name}/{mark}"))

    def add(self, kind, mark, parent="", **more):
        n = len(self.lines)
        line = {"parentUuid": self.tip if parent == "" else parent and self.uuid(parent), "isSidechain": self.agent is not None,
                "userType": "external", "cwd": "/home/ada/tide-tables", "sessionId": self.id, "version": "2.1.114",
                "gitBranch": "main", "type": kind, "uuid": self.uuid(mark),
                "timestamp": f"2026-03-14T09:{n // 60:02}:{n % 60:02}.{(n * 137) % 1000:03}Z"}
        if self.agent:
            line["agentId"] = self.agent
        self.lines.append({**line, **more})
        self.tip = line["uuid"]

    def bare(self, **line):
        self.lines.append({**line, "sessionId": self.id})

    def user(self, mark, content, **more):
        self.add("user", mark, message={"role": "user", "content": content}, **more)

    def says(self, mark, message, block, output, parent="", stop=None, cached=0):
        usage = {"input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": cached, "output_tokens": output}
        self.add("assistant", mark, parent, requestId=f"req_{message}",
                 message={"model": MODEL, "id": f"msg_{message}", "type": "message", "role": "assistant", "content": [block],
                          "stop_reason": stop, "stop_sequence": None, "usage": usage})

    def calls(self, mark, message, call, name, arguments, output, **more):
        block = {"type": "tool_use", "id": f"toolu_{call}", "name": name, "input": arguments}
        self.says(mark, message, block, output, **more)

    def result(self, mark, call, content, parent="", error=None, **more):
        block = {"tool_use_id": f"toolu_{call}", "type": "tool_result", "content": content}
        if error is not None:
            block["is_error"] = error
        self.add("user", mark, parent, message={"role": "user", "content": [block]}, **more)

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in self.lines)
        path.write_text(text, encoding="utf-8")


def text(words):
    return {"type": "text", "text": words}


def tides():
    """Parallel calls whose results come between them, a rewind, a subagent, and lines that no model saw."""
    s = Session("tides")
    s.bare(type="permission-mode", permissionMode="acceptEdits")
    s.bare(type="file-history-snapshot", messageId=s.uuid("ask"), snapshot={"trackedFileBackups": {}}, isSnapshotUpdate=False)
    s.user("caveat", "Caveat: the messages below were made by the user while running local commands.", isMeta=True)
    s.user("ask", "Which of our two gauges reads too high?")
    s.add("attachment", "hook", attachment={"type": "hook_success", "hookName": "UserPromptSubmit", "stdout": "ok\n", "exitCode": 0})
    s.says("think", "a", {"type": "thinking", "thinking": "Read both gauges, then compare.", "signature": "c2lnbmVkIGJ5IG5vYm9keQ=="}, 4)
    s.says("plan", "a", text("I read both gauges."), 9)
    s.calls("north", "a", "north", "Read", {"file_path": "gauges/north.csv"}, 31)
    s.result("north-read", "north", "day,metres\n1,2.31\n2,2.34\n", toolUseResult={"type": "text", "file": {"numLines": 3}})
    s.calls("south", "a", "south", "Read", {"file_path": "gauges/south.csv"}, 48, parent="north", stop="tool_use")
    s.add("progress", "working", data={"type": "hook_progress", "hookEvent": "PreToolUse"})
    s.result("south-read", "south", [text("day,metres\n1,2.28\n2,2.30\n")], parent="south", error=False)
    s.calls("delegate", "b", "delegate", "Task", {"description": "Check the datum", "prompt": "Which datum does gauges/north.csv use?"},
            22, stop="tool_use", cached=900)
    s.result("delegated", "delegate", [text("It uses the chart datum of 1992.\nagentId: a1b2c3d")],
             toolUseResult={"agentId": "a1b2c3d", "status": "completed", "totalTokens": 420})
    s.says("answer", "c", text("The north gauge reads 3 to 4 cm too high: its datum is of 1992."), 27, stop="end_turn", cached=1200)
    s.add("system", "took", subtype="turn_duration", durationMs=8200, isMeta=False)
    s.user("redo", "Correct the north gauge by hand.")
    s.calls("fix", "d", "fix", "Edit", {"file_path": "gauges/north.csv", "old_string": "2.31", "new_string": "2.28"}, 30, stop="tool_use")
    s.result("fixed", "fix", "File has not been read yet.", error=True)
    s.says("sorry", "e", text("The edit failed; the file has to be read again."), 14, stop="end_turn")
    s.user("instead", "Do not edit it. Write the correction into datum.md.", parent="took")
    s.says("wrote", "f", text("I write it down: subtract 3.5 cm from the north gauge."), 19, stop="end_turn", cached=1300)
    s.add("attachment", "steer", attachment={"type": "queued_command", "prompt": "And mention the year.", "commandMode": "prompt"})
    s.add("assistant", "failed", isApiErrorMessage=True,
          message={"model": "<synthetic>", "id": "x1", "type": "message", "role": "assistant", "content": [text("API Error: 529 overloaded")],
                   "stop_reason": "stop_sequence", "usage": {"input_tokens": 0, "output_tokens": 0}})
    s.says("again", "g", text("It is the datum of 1992."), 11, stop="end_turn", cached=1350)
    s.bare(type="custom-title", customTitle="Which gauge reads too high")
    s.write(FOLDER / f"{s.id}.jsonl")
    a = Session("tides/agent", agent="a1b2c3d", session=s.id)
    a.user("ask", "Which datum does gauges/north.csv use?")
    a.calls("grep", "h", "grep", "Grep", {"pattern": "datum", "path": "gauges"}, 15, stop="tool_use")
    a.result("found", "grep", "gauges/README: north: chart datum of 1992")
    a.says("answer", "i", text("It uses the chart datum of 1992."), 12, stop="end_turn")
    a.write(FOLDER / s.id / "subagents" / "agent-a1b2c3d.jsonl")


def moorings():
    """A conversation that was compacted: a summary, two messages that stay, and what came after."""
    s = Session("moorings")
    s.user("ask", [text("List the moorings that need new chain.")])
    s.calls("list", "a", "list", "Bash", {"command": "cat moorings.csv", "description": "Print the moorings"}, 20, stop="tool_use")
    s.result("listed", "list", "A1 ok\nA2 worn\nB7 worn\n")
    s.says("two", "b", text("A2 and B7."), 6, stop="end_turn")
    s.user("more", "Order chain for both.")
    s.says("order", "c", text("Which length?"), 5, stop="end_turn", cached=700)
    s.add("system", "cut", None, subtype="compact_boundary", logicalParentUuid=s.uuid("order"), content="Conversation compacted", level="info",
          compactMetadata={"trigger": "auto", "preTokens": 150000,
                           "preservedSegment": {"headUuid": s.uuid("more"), "anchorUuid": s.uuid("summary"), "tailUuid": s.uuid("order")},
                           "preservedMessages": {"anchorUuid": s.uuid("summary"), "uuids": [s.uuid("more"), s.uuid("order")]}})
    s.user("summary", [text("This session continues an earlier one. Summary: moorings A2 and B7 need new chain.")],
           isCompactSummary=True, isVisibleInTranscriptOnly=True)
    s.tip = s.uuid("order")
    s.user("length", "Twelve metres each.")
    s.says("done", "d", text("Ordered: 2 × 12 m."), 9, stop="end_turn")
    s.write(FOLDER / f"{s.id}.jsonl")


def title():
    s = Session("title")
    s.lines.append({"type": "summary", "summary": "Gauges and their datum", "leafUuid": s.uuid("elsewhere")})
    s.write(FOLDER / f"{s.id}.jsonl")


tides()
moorings()
title()
