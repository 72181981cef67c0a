//! Summaries written by a model, and the checks that every summary has to pass.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use serde::Deserialize;
use tract_core::telemetry::ModelCall;
use tract_core::{
    ChatModel, Content, JsonText, Message, ModelError, ModelRequest, Reply, Summarizer, Summary,
    SummaryRequest, TokenCounter,
};

use crate::prompts::{Prompts, build_summarize_prompt};
use crate::timer;

/// The value of [`SummaryRequest::what`] for a conversation. Any other value is treated as the
/// result of a tool.
pub const CONVERSATION: &str = "conversation";

/// Summarizes with a model.
pub struct ModelSummarizer {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// The prompts.
    pub prompts: Prompts,
    /// The model and sampling parameters: a JSON object.
    pub parameters: Option<JsonText>,
}

impl ModelSummarizer {
    /// Creates a summarizer with this model and the default prompts.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, prompts: Prompts::default(), parameters: None }
    }

    async fn ask(&self, system: &str, user: String) -> Result<Reply, ModelError> {
        let contents = [Content::system(system), Content::user(user)];
        let mut request = ModelRequest::new(contents.map(Message::unrecorded).to_vec());
        request.parameters = self.parameters.clone();
        let call = ModelCall::begin(&*self.model, &request, false);
        let answered = call.span().instrument(self.model.chat(&request)).await;
        call.end(&answered);
        answered
    }
}

/// Returns the user message: the conversation, the text, and the texts that must be kept.
fn prompt_of(request: &SummaryRequest) -> String {
    let text = match request.what.as_deref() {
        Some(what) if what != CONVERSATION => format!("[{what}]: {}", request.text),
        _ => request.text.clone(),
    };
    let text = match &request.context {
        Some(context) => format!("The conversation:\n{context}\n\nThe output:\n{text}"),
        None => text,
    };
    let mut prompt =
        build_summarize_prompt(&text, request.target_tokens, request.instructions.as_deref());
    if !request.must_keep.is_empty() {
        prompt.push_str("\n\nThe summary must contain these exactly as they are:");
        for text in &request.must_keep {
            let _ = write!(prompt, "\n- {text}");
        }
    }
    prompt
}

#[async_trait]
impl Summarizer for ModelSummarizer {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        let system = match (&request.context, request.what.as_deref()) {
            (Some(_), _) => &self.prompts.relevant,
            (None, Some(CONVERSATION)) => &self.prompts.conversation,
            (None, Some(_)) => &self.prompts.tool_result,
            (None, None) => &self.prompts.neutral,
        };
        let reply = self.ask(system, prompt_of(request)).await?;
        let mut summary = Summary::new(reply.text());
        summary.by = reply.model;
        summary.usage = reply.usage;
        Ok(summary)
    }

    async fn summarize_all(&self, requests: &[SummaryRequest]) -> Result<Vec<Summary>, ModelError> {
        if let [one] = requests {
            return Ok(vec![self.summarize(one).await?]);
        }
        let mut prompt = String::new();
        for (number, request) in (1..).zip(requests) {
            let _ = writeln!(prompt, "# {number}\n{}\n", prompt_of(request));
        }
        let reply = self.ask(&self.prompts.tool_results, prompt).await?;
        let texts = numbered(&reply.text(), requests.len())?;
        let summary = |text| {
            let mut summary = Summary::new(text);
            summary.by = reply.model.clone();
            summary
        };
        let mut summaries: Vec<Summary> = texts.into_iter().map(summary).collect();
        // Only one request was made, so only one summary reports its usage.
        if let Some(first) = summaries.first_mut() {
            first.usage = reply.usage;
        }
        Ok(summaries)
    }
}

/// Parses an answer with one summary for each number from 1 to `count`.
fn numbered(text: &str, count: usize) -> Result<Vec<String>, ModelError> {
    #[derive(Deserialize)]
    struct Numbered {
        number: usize,
        summary: String,
    }
    let wrong = |message: String| ModelError::InvalidReply { message, source: None };
    // Models often add a code fence or a sentence around the requested array.
    let inside = match (text.find('['), text.rfind(']')) {
        (Some(from), Some(to)) if from < to => text.get(from..=to).unwrap_or(text),
        _ => text,
    };
    let found: Vec<Numbered> = serde_json::from_str(inside).map_err(|error| {
        wrong(format!("expected a JSON array of numbered summaries, found {error}"))
    })?;
    if found.len() != count {
        return Err(wrong(format!("expected {count} summaries, found {}", found.len())));
    }
    let mut texts: BTreeMap<usize, String> = BTreeMap::new();
    for Numbered { number, summary } in found {
        if number == 0 || number > count {
            return Err(wrong(format!("expected numbers from 1 to {count}, found {number}")));
        }
        if texts.insert(number, summary).is_some() {
            return Err(wrong(format!("number {number} is summarized twice")));
        }
    }
    Ok(texts.into_values().collect())
}

/// Maximum number of attempts to get a summary that passes the checks.
pub const SUMMARY_ATTEMPTS: usize = 3;

/// Error of a summary request. The original text is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// No summarizer is set.
    #[error("there is no summarizer")]
    NoSummarizer,
    /// The content does not contain any text.
    #[error("it has no text to summarize")]
    NoText,
    /// A pattern is not a regular expression.
    #[error("pattern {pattern:?} is not a valid regular expression: {why}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// The error of the regex compiler.
        why: String,
    },
    /// The port failed.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The port panicked.
    #[error("the summarizer panicked: {0}")]
    Panicked(String),
    /// The port did not answer in time.
    #[error("the summarizer did not answer within {0:?}")]
    TimedOut(Duration),
    /// The number of summaries differs from the number of texts.
    #[error("expected {expected} summaries, found {found}")]
    WrongCount {
        /// Number of texts.
        expected: usize,
        /// Number of summaries.
        found: usize,
    },
    /// The summary is empty.
    #[error("the summary is empty")]
    Empty,
    /// The summary is not shorter than the text.
    #[error("the summary takes {found} tokens where the text takes {text}")]
    NotShorter {
        /// Tokens of the text.
        text: u64,
        /// Tokens of the summary.
        found: u64,
    },
    /// The summary lacks a text that it must keep.
    #[error("the summary lacks what it must keep: {}", .missing.join(", "))]
    Misses {
        /// The missing texts.
        missing: Vec<String>,
    },
}

impl SummaryError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSummarizer => "no_summarizer",
            Self::NoText => "no_text",
            Self::BadPattern { .. } => "bad_pattern",
            Self::Model(error) => error.code(),
            Self::Panicked(_) => "summarizer_panicked",
            Self::TimedOut(_) => "summarizer_timeout",
            Self::WrongCount { .. }
            | Self::Empty
            | Self::NotShorter { .. }
            | Self::Misses { .. } => "bad_summary",
        }
    }

    /// Returns advice on how to fix the error, if there is any.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::NoSummarizer => vec!["give the hooks one: Hooks::summarizer".to_owned()],
            Self::Misses { .. } => {
                vec!["ask for more tokens, or for fewer texts to keep".to_owned()]
            }
            Self::Model(error) => error.notes(),
            Self::NoText
            | Self::BadPattern { .. }
            | Self::Panicked(_)
            | Self::TimedOut(_)
            | Self::WrongCount { .. }
            | Self::Empty
            | Self::NotShorter { .. } => Vec::new(),
        }
    }
}

/// Returns the texts that a summary must keep: all distinct matches of the patterns.
///
/// # Errors
/// [`SummaryError::BadPattern`].
pub fn kept_texts(text: &str, patterns: &[String]) -> Result<Vec<String>, SummaryError> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let regex = Regex::new(pattern).map_err(|error| SummaryError::BadPattern {
            pattern: pattern.clone(),
            why: error.to_string(),
        })?;
        let matches = regex.find_iter(text).map(|found| found.as_str());
        found.extend(matches.filter(|text| !text.is_empty()).map(str::to_owned));
    }
    Ok(found.into_iter().collect())
}

/// Checks that a summary is not empty, is shorter than the text, and contains all texts that it
/// must keep.
///
/// # Errors
/// The [`SummaryError`] of the first check that fails.
pub fn check_summary(
    request: &SummaryRequest,
    summary: &str,
    counter: &dyn TokenCounter,
) -> Result<(), SummaryError> {
    if summary.trim().is_empty() {
        return Err(SummaryError::Empty);
    }
    let (text, found) = (counter.count(&request.text), counter.count(summary));
    if found >= text {
        return Err(SummaryError::NotShorter { text, found });
    }
    let missing: Vec<String> =
        request.must_keep.iter().filter(|text| !summary.contains(*text)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(SummaryError::Misses { missing }) }
}

/// Requests a summary until one passes the checks, at most [`SUMMARY_ATTEMPTS`] times. `limit`
/// applies to each attempt.
///
/// # Errors
/// The [`SummaryError`] of the last attempt. An error of the port itself is not retried.
pub async fn summarize_checked(
    port: &Arc<dyn Summarizer>,
    request: &SummaryRequest,
    counter: &dyn TokenCounter,
    limit: Option<Duration>,
) -> Result<Summary, SummaryError> {
    if request.text.trim().is_empty() {
        return Err(SummaryError::NoText);
    }
    let mut request = request.clone();
    let instructions = request.instructions.clone().unwrap_or_default();
    let mut attempt = 1;
    loop {
        let summary = guarded(limit, port.summarize(&request)).await??;
        match check_summary(&request, &summary.text, counter) {
            Ok(()) => return Ok(summary),
            Err(error) if attempt >= SUMMARY_ATTEMPTS => return Err(error),
            Err(error) => {
                // Made from the caller's instructions and not from those of the last attempt, so
                // that the model sees only the latest failure.
                request.instructions = Some(
                    format!("{instructions}\nThe last attempt did not do: {error}")
                        .trim()
                        .to_owned(),
                );
            }
        }
        attempt += 1;
    }
}

/// Requests several summaries at once. The caller has to check each of them.
///
/// # Errors
/// [`SummaryError::WrongCount`], or the error of the port.
pub async fn summarize_all_guarded(
    port: &Arc<dyn Summarizer>,
    requests: &[SummaryRequest],
    limit: Option<Duration>,
) -> Result<Vec<Summary>, SummaryError> {
    let found = guarded(limit, port.summarize_all(requests)).await??;
    if found.len() == requests.len() {
        Ok(found)
    } else {
        Err(SummaryError::WrongCount { expected: requests.len(), found: found.len() })
    }
}

async fn guarded<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T> + Send,
) -> Result<T, SummaryError> {
    match timer::within(limit, crate::ask::caught(work)).await {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(panic)) => Err(SummaryError::Panicked(panic)),
        None => Err(SummaryError::TimedOut(limit.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_occurs_exactly_once() {
        let found = |text: &str| numbered(text, 2).map_err(|error| error.to_string());
        let good =
            "```json\n[{\"number\":2,\"summary\":\"b\"},{\"number\":1,\"summary\":\"a\"}]\n```";
        assert_eq!(found(good), Ok(vec!["a".to_owned(), "b".to_owned()]));
        for (wrong, says) in [
            ("", "JSON array"),
            ("[]", "expected 2 summaries, found 0"),
            (r#"[{"number":1,"summary":"a"},{"number":1,"summary":"b"}]"#, "twice"),
            (r#"[{"number":1,"summary":"a"},{"number":3,"summary":"b"}]"#, "found 3"),
            (r#"["a","b"]"#, "JSON array"),
        ] {
            let error = found(wrong).expect_err(wrong);
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_summary_must_keep_all_matches() {
        let patterns = [r"\w+\.rs:\d+".to_owned()];
        let kept = kept_texts("a.rs:7 b a.rs:7 c.rs:12", &patterns).expect("a pattern");
        assert_eq!(kept, ["a.rs:7", "c.rs:12"]);
        assert!(kept_texts("a", &["(".to_owned()]).is_err());
    }
}
