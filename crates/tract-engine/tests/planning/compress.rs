use tract_core::{Content, Draft, Priority, ToolSchema, block_on};
use tract_engine::plan::{Request, Selection};
use tract_engine::{Error, Refusal};
use tract_hooks::{BeforeCompress, CompressAction, Hooks};

use crate::fixture::{Fixture, all, tool};

#[test]
fn a_range_leaves_what_follows_it() {
    let desk = Fixture::new();
    desk.system("be brief");
    let first = desk.user("one");
    let last = desk.says("two");
    desk.user("three");
    let range = Selection::Range { from: Some(first), to: Some(last) };
    desk.go(Request::compress(range, "one, two"));
    assert_eq!(desk.shown(), ["system: be brief", "assistant: one, two", "user: three"]);
}

#[test]
fn compress_splitting_a_unit_is_widened() {
    let desk = Fixture::new();
    desk.user("look");
    let thought = desk.go(Draft::reasoning("hm"));
    let call = desk.go(Draft::assistant("").call("a", "f", "{}").call("b", "g", "{}"));
    let one = desk.result("a", "1");
    let two = desk.result("b", "2");
    desk.user("thanks");
    for (n, member) in [call, one, two, thought].into_iter().enumerate() {
        let summary = desk.compress(&[member], "looked");
        let rows = desk.history().view().len();
        assert_eq!(rows, 3, "the unit goes as a whole, from member {n}");
        assert_eq!(desk.shown(), ["user: look", "assistant: looked", "user: thanks"]);
        desk.revert(&[summary]);
        assert_eq!(desk.history().view().len(), 6);
    }
}

#[test]
fn open_calls_and_pins_stay_out() {
    let desk = Fixture::new();
    let system = desk.system("be brief");
    let pinned = desk.user("the key is under the mat");
    desk.mark(pinned, Priority::Pinned);
    let call = desk.call("c1");
    let refusal = desk.refused(Request::compress(all(), "x"));
    assert_eq!(refusal, Refusal::NothingLeft { pinned: 2, open: 1 });
    assert_eq!(refusal.notes().len(), 2);
    desk.result("c1", "found");
    desk.user("thanks");
    desk.go(Request::compress(all(), "searched"));
    let slots: Vec<_> = desk.history().view().rows().map(|row| row.slot).collect();
    assert!(slots.contains(&system) && slots.contains(&pinned) && !slots.contains(&call));
    assert_eq!(
        desk.shown(),
        ["system: be brief", "user: the key is under the mat", "assistant: searched"]
    );
}

#[test]
fn a_pinned_result_keeps_its_unit() {
    let desk = Fixture::new();
    desk.call("c1");
    let result = desk.result("c1", "found");
    desk.mark(result, Priority::Pinned);
    assert_eq!(
        desk.refused(Request::compress(all(), "x")),
        Refusal::NothingLeft { pinned: 2, open: 0 }
    );
}

#[test]
fn a_summary_of_summaries_and_what_lies_under_it() {
    let desk = Fixture::new();
    let a = desk.user("a");
    let b = desk.says("b");
    let c = desk.user("c");
    let inner = desk.compress(&[a, b], "ab");
    let outer = desk.compress(&[inner, c], "abc");
    assert_eq!(desk.shown(), ["assistant: abc"]);
    for hidden in [a, b, c, inner] {
        let refusal = desk.refused(Request::edit_text(hidden, "x"));
        assert_eq!(refusal, Refusal::NotVisible { target: hidden, hidden_by: Some(outer) });
    }
    assert_eq!(
        desk.refused(Request::compress(Selection::Targets(vec![a]), "x")).code(),
        "not_visible"
    );
    desk.revert(&[outer]);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c"]);
    let back = desk.revert(&[inner]);
    assert_eq!(desk.shown(), ["user: a", "assistant: b", "user: c"]);
    // Bringing the inner one back while the outer one would not be there is fine; both are not.
    desk.revert(&[back]);
    assert_eq!(desk.shown(), ["assistant: ab", "user: c"]);
}

#[test]
fn the_summary_has_the_kind_that_was_asked_for_and_keeps_the_tools() {
    let desk = Fixture::new();
    let schema: ToolSchema = tool("grep", "finds");
    desk.go(Request::tools([schema]));
    let a = desk.user("a");
    desk.go(Request::Compress {
        select: Selection::Targets(vec![a]),
        content: Content::user("said a"),
        role: None,
        details: Default::default(),
    });
    assert_eq!(desk.shown(), ["user: said a"]);
    assert_eq!(desk.tool_names(), ["grep"]);
}

#[test]
fn a_long_range_is_one_commit_with_its_changes_in_a_blob() {
    let desk = Fixture::new();
    for n in 0..300 {
        desk.user(&n.to_string());
    }
    let summary = desk.go(Request::compress(all(), "counted"));
    assert_eq!(block_on(desk.repo.changes(&desk.commit(summary))).unwrap().len(), 301);
    assert_eq!(desk.shown(), ["assistant: counted"]);
    desk.cold().revert(&[summary]);
    assert_eq!(desk.cold().shown().len(), 300);
}

#[test]
fn a_summary_that_waited_is_of_the_messages_that_it_was_made_of() {
    let desk = Fixture::new();
    let [a, _] = [desk.user("a"), desk.says("b")];
    let hooks = Hooks::new().on("later", |_: &BeforeCompress| CompressAction::Defer("look".into()));
    let asking = desk.repo.with_hooks(hooks);
    let to_the_end = || Selection::Range { from: Some(a), to: None };
    let error = block_on(asking.compress(&desk.branch, to_the_end(), "s")).unwrap_err();
    let Error::Deferred(deferred) = error else { panic!("{error}") };
    desk.user("never seen by the summary");
    block_on(desk.repo.approve(&deferred.id)).unwrap();
    assert_eq!(desk.shown(), ["assistant: s", "user: never seen by the summary"]);
}
