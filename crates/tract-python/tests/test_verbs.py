"""Every verb does through Python what it does in Rust."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import tract_context as tract


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"b": 1e2, "a":1}'}}
    ],
}
TOOL = '{"name":"grep", "input_schema":{"type":"object", "properties":{"n":{"maximum":1e2}}}}'


def test_a_commit_is_compiled(t: tract.Tract) -> None:
    assert t.head() is None
    assert t.log() == []
    commit = t.commit(user("Do I need a coat?"), note="first", metadata={"n": 1})
    assert t.head() == commit["id"]
    assert t.show("HEAD") == commit
    assert [entry["id"] for entry in t.log()] == [commit["id"]]
    compiled = t.compile()
    assert (len(compiled), compiled.head, compiled.commit_count) == (1, commit["id"], 1)
    assert compiled.to_openai() == [user("Do I need a coat?")]
    assert compiled.token_count > 0
    assert compiled.token_source


def test_every_form_is_a_request(t: tract.Tract) -> None:
    t.set_tools([TOOL])
    t.commit(user("Do I need a coat?"))
    compiled = t.compile()
    assert compiled.to_openai_params(model="gpt-5.5")["model"] == "gpt-5.5"
    assert compiled.to_anthropic_params(max_tokens=9)["max_tokens"] == 9
    assert compiled.to_anthropic()["messages"]
    assert compiled.to_responses_params()["input"]
    assert compiled.to_ollama_params()["messages"]
    assert compiled.to_gemini_params()["contents"]
    assert compiled.messages[0]["commit"] == t.head()
    with pytest.raises(tract.TractError, match="unknown form") as error:
        compiled.form("telex")
    assert error.value.code == "unknown_form"
    assert error.value.notes


def test_json_texts_are_kept_byte_for_byte(t: tract.Tract) -> None:
    t.set_tools([TOOL])
    assert t.compile().tool_texts == [TOOL]
    assert t.compile().tools == [json.loads(TOOL)]
    assert t.tools()[0]["schema"] == TOOL
    t.commit(CALL)
    call = t.compile().to_openai()[0]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"b": 1e2, "a":1}'
    assert t.open_calls() == [{"id": "c1", "name": "grep"}]
    t.commit({"role": "tool", "tool_call_id": "c1", "content": "3 lines"})
    assert t.open_calls() == []


def test_changes_of_a_history(t: tract.Tract) -> None:
    ids = [t.commit(user(f"message {n}"))["id"] for n in range(4)]
    t.edit(ids[0], "message zero")
    t.annotate(ids[3], "skip")
    assert [m["content"] for m in t.compile().to_openai()] == ["message zero", "message 1", "message 2"]
    t.compress(ids[1], ids[2], "two messages")
    assert "two messages" in str(t.compile().to_openai())
    t.undo()
    assert len(t.compile()) == 3
    t.redo()
    assert len(t.compile()) == 2
    t.undo()
    t.revert("HEAD~1")
    assert t.compile().to_openai()[0]["content"] == "message 0"
    assert t.diff("HEAD~1", "HEAD")["messages"][0]["change"] == "changed"
    assert t.blame()[0]["commits"][0]["action"] == "added"
    t.reset(ids[0])
    assert t.head() == ids[0]
    t.undo()
    assert t.head() != ids[0]


def test_branches_and_tags(t: tract.Tract) -> None:
    first = t.commit(user("one"))["id"]
    side = t.fork("side")
    assert (side.branch, t.branch) == ("side", "main")
    found = side.commit(user("found"))["id"]
    t.commit(user("two"))
    assert t.merge("side")["result"] == "merged"
    assert t.merge("side")["result"] == "nothing"
    assert len(t.compile()) == 3
    other = t.fork("other", first)
    other.commit(user("else"))
    assert other.cherry_pick([found])["commits"] == [other.head()]
    assert [entry["name"] for entry in t.branches()] == ["main", "other", "side"]
    t.rename_branch("other", "third")
    t.delete_branch("third")
    assert t.create_tag("v1") == t.head()
    assert t.resolve("v1") == t.head()
    assert [tag["name"] for tag in t.tags()] == ["v1"]
    t.delete_tags(["v1"])
    assert t.checkout("side").branch == "side"
    assert t.on("new").head() is None


def test_search(t: tract.Tract) -> None:
    question = t.commit(user("Why does the login\ntime out?"))["id"]
    t.commit({"role": "assistant", "content": "The clock of the server is wrong."})
    assert [hit["commit"] for hit in t.search("login timeout")] == [question]
    assert t.grep("time out")[0]["lines"][0]["number"] == 2
    assert t.grep("LOGIN", regex=False, ignore_case=True)[0]["commit"] == question


def test_tools_are_tracked(t: tract.Tract) -> None:
    t.set_tools([{"name": "a", "input_schema": {"type": "object"}}])
    before = t.commit(user("one"))["id"]
    t.set_tools([{"name": "b", "input_schema": {"type": "object"}}])
    assert [tool["name"] for tool in t.tools(before)] == ["a"]
    assert [tool["name"] for tool in t.tools()] == ["b"]
    changes = t.tool_diff(before, "HEAD")["changes"]
    assert [(change["change"], change["name"]) for change in changes] == [("removed", "a"), ("added", "b")]
    assert len(t.tool_history("a")) == 1
    assert [tool["name"] for tool in t.own_tools(before)] == ["a"]


def test_hooks_decide_about_tool_results(t: tract.Tract) -> None:
    answers: list[Any] = [("edit", "a card number"), ("defer", "needs a person"), "approve"]
    events: list[dict[str, Any]] = []

    def ask(event: dict[str, Any]) -> Any:
        events.append(event)
        return answers[len(events) - 1]

    hooked = t.with_tool_result_hook(ask)
    hooked.commit(CALL)
    hooked.commit({"role": "tool", "tool_call_id": "c1", "content": "4111 1111 1111 1111"})
    assert events[0]["text"] == "4111 1111 1111 1111"
    assert t.compile().to_openai()[-1]["content"] == "a card number"
    hooked.commit(CALL)
    with pytest.raises(tract.TractError) as error:
        hooked.commit({"role": "tool", "tool_call_id": "c1", "content": "secret"})
    assert error.value.code == "deferred"
    waiting = t.pending()
    assert waiting[0]["reason"] == "needs a person"
    t.edit_pending(waiting[0]["id"], "nothing")
    assert t.compile().to_openai()[-1]["content"] == "nothing"
    with pytest.raises(tract.TractError) as error:
        t.approve(waiting[0]["id"])
    assert error.value.code == "already_decided"


def test_a_hook_that_raises_rejects(t: tract.Tract) -> None:
    def ask(event: dict[str, Any]) -> str:
        raise ValueError("broken")

    hooked = t.with_tool_result_hook(ask)
    hooked.commit(CALL)
    with pytest.raises(tract.TractError, match="broken"):
        hooked.commit({"role": "tool", "tool_call_id": "c1", "content": "x"})


def test_a_hook_may_read_the_store(t: tract.Tract) -> None:
    hooked = t.with_tool_result_hook(lambda event: "approve" if len(t.compile()) == 1 else "reject")
    hooked.commit(CALL)
    hooked.commit({"role": "tool", "tool_call_id": "c1", "content": "x"})
    assert len(t.compile()) == 2


def test_a_hook_with_an_unknown_answer_rejects(t: tract.Tract) -> None:
    hooked = t.with_tool_result_hook(lambda event: "perhaps")
    hooked.commit(CALL)
    with pytest.raises(tract.TractError, match="perhaps"):
        hooked.commit({"role": "tool", "tool_call_id": "c1", "content": "x"})


def test_expect_is_compare_and_swap(t: tract.Tract) -> None:
    first = t.commit(user("one"), expect=None)["id"]
    t.commit(user("two"), expect=first)
    with pytest.raises(tract.ConflictError) as error:
        t.commit(user("late"), expect=first)
    assert error.value.code == "conflict"
    assert len(t.compile()) == 2


def test_one_operation_is_undone_at_once(t: tract.Tract) -> None:
    both = t.one_operation()
    both.commit(user("one"))
    both.commit(user("two"))
    t.undo()
    assert t.head() is None


def test_stores_exchange_history(tmp_path: Path, url: str) -> None:
    with tract.open("memory:") as here, tract.open("memory:") as there:
        here.commit(user("one"))
        for handle in (here, there):
            handle.add_remote("team", url)
        assert here.push("team")["commits"] == 1
        assert there.fetch("team")["commits"] == 1
        there.pull("team")
        assert there.head() == here.head()
        assert [remote["name"] for remote in here.remotes()] == ["team"]
        here.remove_remote("team")
        here.create_bundle(tmp_path / "talk.bundle")
        with tract.open("memory:") as third:
            third.apply_bundle(tmp_path / "talk.bundle")
            assert third.head() == here.head()


def test_import_verify_erase(t: tract.Tract) -> None:
    imported = t.import_conversation({"id": "chat-7", "messages": [user("Hi")]}, name="x")
    assert imported["branches"][0]["branch"] == "chat-7"
    assert t.usage() == []
    leaked = t.commit(user("the door code is 4711-0815-2342"))["id"]
    assert t.verify()["clean"]
    t.erase([leaked], "leaked code")
    assert t.compile().to_openai()[0]["content"] == "[erased: leaked code]"
    with pytest.raises(tract.ErasedError):
        t.compile(leaked)


def test_why_miss(t: tract.Tract) -> None:
    t.commit(user("one"))
    first = t.compile().form("openai-params")
    t.commit(user("two"))
    assert first.why_miss(t.compile().form("openai-params")) is None
    t.edit("HEAD#1", "other")
    miss = first.why_miss(t.compile().form("openai-params"))
    assert miss is not None
    assert miss["same_blocks"] == 0


def test_every_verb_has_an_async_twin() -> None:
    sync_only = {"branch", "on", "one_operation", "with_tool_result_hook"}
    names = {name for name in dir(tract.Tract) if not name.startswith("_")}
    for name in names - sync_only:
        if f"a{name}" in names:
            here, twin = getattr(tract.Tract, name), getattr(tract.Tract, f"a{name}")
            assert inspect.signature(here) == inspect.signature(twin), name
            assert inspect.iscoroutinefunction(twin), name
            assert here.__doc__, name
            assert twin.__doc__, name
        else:
            assert inspect.iscoroutinefunction(getattr(tract.Tract, name)), name
