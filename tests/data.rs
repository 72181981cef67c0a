//! The recordings as the whole walks take them: all of them, or what the repository bundles.

use tract::core::json::split_object;
use tract_testkit::data::{find, lines, texts};

/// The lines of all trajectory files: one conversation each.
pub(crate) fn trajectories() -> Vec<String> {
    lines(&find("trajectories").0)
}

/// The exchanges of a provider without their answers: file stem and text. The walks compare what is
/// sent with the recorded request.
pub(crate) fn cassettes(provider: &str) -> Vec<(String, String)> {
    let exchanges = texts(&find("cassettes").0.join(provider), "json").into_iter();
    exchanges.map(|(name, text)| (name, without_answer(&text))).collect()
}

fn without_answer(text: &str) -> String {
    let Ok(members) = split_object(text) else { return text.to_owned() };
    let kept = members.iter().filter(|(key, _)| key != "response");
    let kept: Vec<String> = kept.map(|(key, raw)| format!("{key:?}:{raw}")).collect();
    format!("{{{}}}", kept.join(","))
}
