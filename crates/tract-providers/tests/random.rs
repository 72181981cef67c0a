//! Pieces of recordings, cut and put together at random, satisfy every provider's rules.

#[allow(dead_code, reason = "the whole walks use the rest")]
#[path = "../../../tests/rules.rs"]
mod rules;
mod support;

use std::sync::LazyLock;

use proptest::prelude::*;
use rules::Accepted;
use serde_json::Value;
use support::{cassettes, compiled_but, trajectories};
use tract_core::{Draft, Part};
use tract_providers::{
    Dialect, Form, FormOptions, Pairing, ProviderConversation, RequestForms, compile_form,
};

static POOL: LazyLock<Vec<Vec<Draft>>> = LazyLock::new(|| {
    let mut pool = Vec::new();
    let lines = trajectories().into_iter().step_by(5);
    let exchanges = cassettes("anthropic").into_iter().chain(cassettes("openai"));
    for (_, text) in lines.chain(exchanges) {
        // Without the answer that was recorded with it: only a request is known to be accepted.
        let members = tract_core::json::split_object(&text).expect("an object");
        let kept = members.iter().filter(|(key, _)| key != "response");
        let kept: Vec<String> = kept.map(|(key, raw)| format!("{key:?}:{raw}")).collect();
        let drafts = ProviderConversation::read(&format!("{{{}}}", kept.join(",")), None)
            .expect("recordings are well formed")
            .imported
            .drafts;
        let has_calls = drafts.iter().any(|draft| draft.content.calls().next().is_some());
        if has_calls || pool.len() % 7 == 0 {
            pool.push(drafts);
        }
    }
    pool.push(vec![
        Draft::user(""),
        Draft::assistant(""),
        Draft::assistant("").call("", "", "").call("", "a b", "[1]"),
        Draft::tool_result("", ""),
        Draft::reasoning("hm"),
        Draft::assistant(" ").call("x", "f", "{}"),
        Draft::system(" "),
        Draft::tool_result("x", " ").is_error(true),
    ]);
    pool
});

fn pieces() -> impl Strategy<Value = (Vec<Draft>, Vec<bool>)> {
    let piece = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..9);
    (prop::collection::vec(piece, 1..6), prop::collection::vec(prop::bool::weighted(0.12), 40))
        .prop_map(|(pieces, skipped)| {
            let mut drafts = Vec::new();
            for (which, from, count) in pieces {
                let conversation = which.get(&POOL);
                let from = from.index(conversation.len());
                drafts.extend(conversation.iter().skip(from).take(count).cloned());
            }
            (drafts, skipped)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_provider_accepts_any_history((drafts, skipped) in pieces()) {
        let context = compiled_but(&drafts, None, |place| skipped.get(place) == Some(&true));
        // Then there is nothing that could be sent.
        let shows_nothing = context.message_count() == 0;
        for dialect in Dialect::ALL {
            let params = context.to_params(dialect).unwrap();
            let body: Value = params.to().unwrap();
            let accepted = if dialect == Dialect::Anthropic { Accepted::Messages } else { Accepted::Nothing };
            let broken = rules::broken(dialect, accepted, &body);
            prop_assert!(shows_nothing || broken.is_empty(), "{dialect} {broken:#?}\n{}", params.to_json());
        }
        for form in Form::all() {
            let keep = FormOptions { pairing: Some(Pairing::Keep), ..FormOptions::default() };
            let params = compile_form(&context, form, &keep).unwrap();
            prop_assert!(tract_core::json::check(&params.to_json()).is_ok());
        }
    }

    #[test]
    fn translated_messages_satisfy_the_strictest_reading((drafts, skipped) in pieces()) {
        let mut drafts = drafts;
        for draft in &mut drafts {
            if draft.form.as_deref().is_some_and(|form| form.starts_with("anthropic")) {
                draft.form = None;
            }
            // Its own blocks go back to it by design; here everything is to be a stranger's.
            if let Some(parts) = draft.content.parts_mut() {
                parts.retain(|part| !matches!(part, Part::Opaque { .. }));
            }
        }
        let context = compiled_but(&drafts, None, |place| skipped.get(place) == Some(&true));
        let shows_nothing = context.message_count() == 0;
        let params = context.to_anthropic_params().unwrap();
        let broken = rules::broken(Dialect::Anthropic, Accepted::Nothing, &params.to().unwrap());
        prop_assert!(shows_nothing || broken.is_empty(), "{broken:#?}\n{}", params.to_json());
    }
}
