//! Default prompts of the model summarizer. Every text can be replaced.

use std::fmt::Write as _;

/// For text of any origin.
pub const SUMMARIZE: &str = "\
You shorten texts that other programs will continue to work with. Write down what the text \
establishes, in plain sentences or short lines, in the language of the text. Keep names, numbers, \
identifiers, paths and decisions exactly as they are written. Leave out repetition, politeness and \
formatting. Add nothing that the text does not say. Answer with the shortened text alone.";

/// For a conversation, so that an assistant can take it over.
pub const SUMMARIZE_CONVERSATION: &str = "\
You write the record of a conversation for an assistant that has to carry it on without having \
read it. In this order, each only where there is something to say: what is wanted, what was \
decided and by whom, what was done and with which outcome, what is still open. Keep names, \
numbers, identifiers and promises exactly. Answer with the record alone.";

/// For the result of a tool.
pub const SUMMARIZE_TOOL_RESULT: &str = "\
You shorten the output of a tool for the assistant that called it. Begin with the outcome: what \
was found, changed, or went wrong. Keep paths, line numbers, identifiers, values and the text of \
errors exactly; drop listings, banners and repetition, and say how much was dropped. Answer with \
the shortened output alone.";

/// For several tool results in one request.
pub const SUMMARIZE_TOOL_RESULTS: &str = "\
You shorten the outputs of tools for the assistant that called them. Each output is listed under a \
number. For each, begin with the outcome, keep paths, identifiers, values and the text of errors \
exactly, and drop bulk. Answer with a JSON array and nothing else: exactly one object for every \
number, {\"number\": N, \"summary\": \"...\"}.";

/// For the result of a tool, by a model that gets the conversation too.
pub const SUMMARIZE_RELEVANT: &str = "\
You see a conversation and the output of a tool that was called in it. Write down what of the \
output matters to the conversation from here on: answers to what was asked, facts that later steps \
need, errors. Keep paths, identifiers and values exactly. Where nothing of it matters, say in one \
line what it was and that it has no bearing. Answer with that alone.";

/// The prompts of a [`ModelSummarizer`](crate::ModelSummarizer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts {
    /// For text of any origin.
    pub neutral: String,
    /// For a conversation.
    pub conversation: String,
    /// For the result of a tool.
    pub tool_result: String,
    /// For several tool results in one request. The answer has to be a JSON array.
    pub tool_results: String,
    /// For the result of a tool, with the conversation.
    pub relevant: String,
}

impl Default for Prompts {
    fn default() -> Self {
        Self {
            neutral: SUMMARIZE.to_owned(),
            conversation: SUMMARIZE_CONVERSATION.to_owned(),
            tool_result: SUMMARIZE_TOOL_RESULT.to_owned(),
            tool_results: SUMMARIZE_TOOL_RESULTS.to_owned(),
            relevant: SUMMARIZE_RELEVANT.to_owned(),
        }
    }
}

/// Builds the user message of a summary request: the text, the target length, and the caller's
/// instructions.
///
/// ```
/// use tract_hooks::build_summarize_prompt;
/// let prompt = build_summarize_prompt("[tool:grep]: a.rs:7", Some(50), Some("keep line numbers"));
/// assert!(prompt.starts_with("[tool:grep]: a.rs:7\n"));
/// assert!(prompt.contains("about 50 tokens") && prompt.ends_with("keep line numbers"));
/// ```
pub fn build_summarize_prompt(
    text: &str,
    target_tokens: Option<u64>,
    instructions: Option<&str>,
) -> String {
    let mut prompt = text.to_owned();
    if let Some(tokens) = target_tokens {
        let _ = write!(prompt, "\n\nThe summary should take about {tokens} tokens, not more.");
    }
    if let Some(instructions) = instructions.filter(|text| !text.trim().is_empty()) {
        let _ = write!(prompt, "\n\nBesides: {instructions}");
    }
    prompt
}
