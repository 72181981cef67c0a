//! Tokens of answers whose ids repeat: parts and copies of one answer, and answers of servers that
//! give all of them one id.

mod support;

use serde_json::{Value, json};
use tract_core::block_on;
use tract_engine::{Repo, SessionQuery, sessions as list};
use tract_import::{Source, usage};

use self::support::{import, new_repo, write};

/// Lines of Claude Code, each after the one before it.
struct Lines {
    session: &'static str,
    lines: Vec<String>,
}

impl Lines {
    fn new(session: &'static str) -> Self {
        Self { session, lines: Vec::new() }
    }

    fn line(mut self, kind: &str, message: Value) -> Self {
        let uuid = |n: usize| format!("{}-{n}", self.session);
        let number = self.lines.len();
        let parent = number.checked_sub(1).map(uuid);
        let line = json!({"type": kind, "uuid": uuid(number), "parentUuid": parent, "sessionId": self.session,
            "timestamp": format!("2026-01-01T00:00:{number:02}Z"), "message": message});
        self.lines.push(format!("{line}\n"));
        self
    }

    fn user(self, text: &str) -> Self {
        self.line("user", json!({"role": "user", "content": text}))
    }

    /// A part of the answer with an id, with the tokens of the request and of the answer.
    fn answer(self, id: &str, text: &str, (input, output): (u64, u64)) -> Self {
        let usage = json!({"input_tokens": input, "output_tokens": output});
        self.line(
            "assistant",
            json!({"role": "assistant", "id": id, "model": "m", "usage": usage,
                "content": [{"type": "text", "text": text}]}),
        )
    }

    fn import(&self, repo: &Repo) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!("{}.jsonl", self.session));
        import(repo, &[write(Source::ClaudeCode, path, self.lines.concat())]);
    }
}

/// Checks the number of answers, their input and their output.
#[track_caller]
fn check(sessions: &[Lines], expected: (u64, u64, u64)) {
    let repo = new_repo();
    sessions.iter().for_each(|session| session.import(&repo));
    let answers = block_on(usage(&repo)).expect("it is counted");
    let sum = answers.iter().fold((0, 0, 0), |sum, answer| {
        (sum.0 + answer.requests, sum.1 + answer.tokens.input, sum.2 + answer.tokens.output)
    });
    assert_eq!(sum, expected);
    // A list of conversations counts each one alone.
    if sessions.len() == 1 {
        let listed = block_on(list(&repo, &SessionQuery::default())).expect("they are listed");
        let groups = listed.iter().flat_map(|session| &session.usage);
        let sum = groups.fold((0, 0, 0), |sum, group| {
            (sum.0 + group.requests, sum.1 + group.input, sum.2 + group.output)
        });
        assert_eq!(sum, expected, "in the list");
    }
}

#[test]
fn answers_to_two_prompts_are_two_even_with_one_id() {
    let session = Lines::new("a").user("One?").answer("msg_1", "One.", (10, 1));
    check(&[session.user("Two?").answer("msg_1", "Two.", (20, 2))], (2, 30, 3));
    // The same tokens, too.
    let session = Lines::new("a").user("One?").answer("msg_1", "One.", (10, 1));
    check(&[session.user("Two?").answer("msg_1", "Two.", (10, 1))], (2, 20, 2));
}

#[test]
fn parts_of_an_answer_are_one() {
    let session = Lines::new("a").user("One?").answer("msg_1", "One", (10, 1));
    check(&[session.answer("msg_1", "and one.", (10, 4))], (1, 10, 4));
    // What a tool inserts between them is no prompt.
    let session = Lines::new("a").user("One?").answer("msg_1", "One", (10, 1));
    let reminder = "<system-reminder>Be brief.</system-reminder>";
    check(&[session.user(reminder).answer("msg_1", "and one.", (10, 4))], (1, 10, 4));
}

#[test]
fn a_copy_that_ends_within_an_answer_is_counted_once() {
    let original = Lines::new("a")
        .user("One?")
        .answer("msg_1", "One.", (10, 1))
        .user("Two?")
        .answer("msg_2", "Two and more.", (20, 9));
    let begin = || Lines::new("b").user("One?").answer("msg_1", "One.", (10, 1)).user("Two?");
    let copy = begin().answer("msg_2", "Two", (20, 1));
    check(&[original, copy], (2, 30, 10));
    // Long ids are never given twice, so the first answer may be the one that grows.
    let id = "msg_01XFDUDYJgAACzvnptvVoYEL";
    let original = Lines::new("a").user("One?").answer(id, "One and more.", (10, 8));
    let copy = Lines::new("b").user("One?").answer(id, "One", (10, 1));
    check(&[copy, original], (1, 10, 8));
}

#[test]
fn servers_that_number_their_answers_from_one_have_an_answer_in_each_session() {
    let session = |name, text: &str| Lines::new(name).user("Hi").answer("msg_1", text, (10, 2));
    check(&[session("a", "Hello"), session("b", "Good day")], (2, 20, 4));
}
