//! Histories of Aider: a Markdown file with all chats of a folder.
//!
//! A chat starts with a heading that contains its time. Lines with `####` were typed by the user,
//! lines with `>` were printed by Aider, and all other lines are the model's. Aider ends its own lines
//! with two spaces, which tells them from headings and quotes of the model.

use tract_core::{Draft, JsonText, Priority};

use crate::document::{Conversation, Document};
use crate::recording::RecordedNote;
use crate::report::{AnomalyKind, TokenTotals};
use crate::values::{self, Metadata, model_config, recorded};

/// The first characters of a chat's first line.
const CHAT: &str = "# aider chat started at ";
/// Commands that ask the model. All other commands are carried out by Aider.
const ASKING: [&str; 4] = ["/ask", "/code", "/architect", "/context"];

/// Returns whether a text is such a file.
pub(crate) fn is_one(head: &str) -> bool {
    head.lines().map(str::trim).find(|line| !line.is_empty()).is_some_and(|l| l.starts_with(CHAT))
}

/// The end of a line that Aider writes for the user or for itself.
const LINE_END: &str = "  ";

/// The beginning of a line with the tokens of an answer.
const TOKENS: &str = "Tokens: ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    User,
    Printed,
    Said,
}

/// Consecutive lines of one kind.
struct Block {
    kind: BlockKind,
    line: usize,
    text: String,
}

pub(crate) fn read(text: &str) -> Document {
    let lines: Vec<&str> = text.lines().collect();
    let fenced = fenced(&lines);
    // Aider writes whole lines, so an incomplete one is still being written. Its end is not known.
    let is_torn = !text.is_empty() && !text.ends_with('\n');
    let mut all = Document::new();
    let mut chat = Chat::default();
    let mut block: Option<Block> = None;
    let mut has_line_ends = has_line_ends(&lines, &fenced, 0);
    for (n, line) in lines.iter().enumerate() {
        let is_fenced = fenced.get(n).copied().unwrap_or_default();
        if let Some(at) = line.strip_prefix(CHAT).filter(|_| !is_fenced) {
            chat.end_block(block.take());
            all.extend(std::mem::replace(&mut chat, Chat::begin(at.trim())).end());
            has_line_ends = self::has_line_ends(&lines, &fenced, n + 1);
            continue;
        }
        let (is_whole, is_blank) = (!is_torn || n + 1 < lines.len(), line.trim().is_empty());
        let (kind, text) = match () {
            () if is_fenced => (BlockKind::Said, *line),
            () if has_line_ends && is_whole && !line.ends_with(LINE_END) && !is_blank => {
                (BlockKind::Said, *line)
            }
            () if *line == "####" => (BlockKind::User, ""),
            () if line.starts_with("#### ") => (BlockKind::User, line.get(5..).unwrap_or_default()),
            () if *line == ">" => (BlockKind::Printed, ""),
            () if line.starts_with("> ") => (BlockKind::Printed, line.get(2..).unwrap_or_default()),
            () if line.trim().is_empty()
                && block.as_ref().is_none_or(|b| b.kind != BlockKind::Said) =>
            {
                // A blank line ends a block of the user or of Aider.
                chat.end_block(block.take());
                continue;
            }
            () => (BlockKind::Said, *line),
        };
        let is_after_text = n > 0 && lines.get(n - 1).is_some_and(|line| !line.trim().is_empty());
        let is_in_answer = block.as_ref().is_some_and(|block| block.kind == BlockKind::Said);
        if kind == BlockKind::User && !has_line_ends && is_after_text && is_in_answer {
            let what = "a line with #### within an answer, read as typed by the user";
            chat.conversation.recording.unreadable(n + 1, what);
        }
        let text = if kind == BlockKind::Said { text } else { text.trim_end() };
        match &mut block {
            Some(open) if open.kind == kind => {
                open.text.push('\n');
                open.text.push_str(text);
            }
            _ => {
                chat.end_block(block.take());
                block = Some(Block { kind, line: n + 1, text: text.to_owned() });
            }
        }
    }
    match block {
        Some(block) if is_torn => {
            let what = "the file ends within a line; the message is read when it is complete";
            chat.conversation.recording.odd(block.line, AnomalyKind::TornLine, what);
        }
        block => chat.end_block(block),
    }
    all.extend(chat.end());
    all
}

/// Returns whether the user's first line in a chat ends as Aider ends its lines. `from` is the first
/// line of the chat after its heading.
fn has_line_ends(lines: &[&str], fenced: &[bool], from: usize) -> bool {
    let lines = lines.iter().zip(fenced).skip(from).filter(|(_, is_fenced)| !**is_fenced);
    let mut lines = lines.map(|(line, _)| line).take_while(|line| !line.starts_with(CHAT));
    let is_typed = |line: &&&str| **line == "####" || line.starts_with("#### ");
    lines.find(is_typed).is_some_and(|line| line.ends_with(LINE_END))
}

/// Marks the lines inside code blocks. As in Markdown, a fence is closed by one that is at least as
/// long, and shorter fences within are text. A fence that is not closed before the next chat, or
/// before the next opening fence of at least its length, is ignored.
fn fenced(lines: &[&str]) -> Vec<bool> {
    // The change of the depth at each line, so that nested blocks are not marked line by line.
    let mut changes = vec![0_isize; lines.len() + 1];
    // The open fences, each shorter than the one before: the line and the length.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        // A fence that a chat leaves open must not be closed by one of the next chat: the heading
        // between them would count as text within a code block.
        if line.starts_with(CHAT) {
            open.clear();
            continue;
        }
        let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
        // A line such as "```text```" is code within a paragraph.
        let is_inline = line.bytes().skip(ticks).any(|byte| byte == b'`');
        if ticks < 3 || is_inline {
            continue;
        }
        let is_bare = line.bytes().skip(ticks).all(|byte| byte.is_ascii_whitespace());
        let mut closed = None;
        while let Some((from, _)) = open.pop_if(|(_, length)| *length <= ticks) {
            closed = Some(from);
        }
        match closed.filter(|_| is_bare) {
            Some(from) => {
                for (at, change) in [(from, 1), (n + 1, -1)] {
                    if let Some(place) = changes.get_mut(at) {
                        *place += change;
                    }
                }
            }
            None => open.push((n, ticks)),
        }
    }
    let mut depth = 0;
    let depths = changes.iter().map(|change| {
        depth += change;
        depth
    });
    depths.map(|depth| depth > 0).collect()
}

/// A chat while its blocks are read.
#[derive(Default)]
struct Chat {
    conversation: Conversation,
    at: Option<i64>,
    model: Option<String>,
    /// A command without an answer so far.
    command: Option<(usize, String)>,
    has_begun: bool,
}

impl Chat {
    fn begin(at: &str) -> Self {
        let mut chat = Self { at: values::time(Some(at)), has_begun: true, ..Self::default() };
        let recording = &mut chat.conversation.recording;
        if chat.at.is_none() {
            recording.odd(0, AnomalyKind::NoTime, "a chat without a readable time");
        }
        chat.conversation.facts.session = Some(at.replacen(' ', "T", 1).replace(':', "-"));
        chat
    }

    fn end(mut self) -> Option<Conversation> {
        self.end_command(true);
        let is_empty = self.conversation.cursor.entries().is_empty();
        let has_more = self.conversation.recording.report.anomalies.count() > 0;
        (self.has_begun || !is_empty || has_more).then_some(self.conversation)
    }

    fn end_block(&mut self, block: Option<Block>) {
        let Some(Block { kind, line, text }) = block else { return };
        let text = text.trim().to_owned();
        if text.is_empty() {
            return;
        }
        self.conversation.recording.report.lines += 1;
        match kind {
            BlockKind::User => {
                self.end_command(true);
                let word = text.split_whitespace().next().unwrap_or_default();
                let is_command = text.starts_with(['/', '!']) && !ASKING.contains(&word);
                if is_command {
                    self.command = Some((line, text));
                } else {
                    self.say(line, Draft::user(text));
                }
            }
            BlockKind::Printed => self.printed(line, text),
            BlockKind::Said => {
                self.end_command(false);
                let recording = &mut self.conversation.recording;
                recording.end_answer(&self.conversation.cursor);
                recording.answer(self.model.as_deref(), None);
                let mut draft = Draft::assistant(text);
                draft.generation_config = model_config(self.model.as_deref());
                self.say(line, draft);
            }
        }
    }

    /// Ends a command. One without an answer was not sent to the model.
    fn end_command(&mut self, is_skipped: bool) {
        let Some((line, text)) = self.command.take() else { return };
        let draft = Draft::user(text);
        self.say(line, if is_skipped { draft.priority(Priority::Skip) } else { draft });
    }

    fn say(&mut self, line: usize, draft: Draft) {
        self.conversation.say(None, line, recorded(draft, None, self.at));
    }

    fn printed(&mut self, line: usize, text: String) {
        for printed in text.lines() {
            let named = printed.strip_prefix("Main model: ").or(printed.strip_prefix("Model: "));
            let named = named.or(printed.strip_prefix("Models: "));
            if let Some(rest) = named {
                let model = rest.split(" with ").next().unwrap_or(rest);
                self.model = Some(model.trim().to_owned());
            }
        }
        // Aider prints the result of a command after it.
        self.end_command(true);
        let tokens = text.lines().find_map(tokens);
        let is_first = self.conversation.cursor.entries().is_empty();
        let recording = &mut self.conversation.recording;
        if let Some(counts) = text.lines().find(|line| line.starts_with(TOKENS)) {
            match (is_first, &tokens) {
                (true, _) => {
                    let what = "tokens of an answer that is not in the chat";
                    recording.unreadable(line, format!("{what}: {counts:?}"));
                }
                (false, None) => {
                    recording.unreadable(line, format!("unknown counts of tokens: {counts:?}"));
                }
                (false, Some(_)) => {}
            }
        }
        if is_first {
            return recording.skip("printed before the first message");
        }
        let mut metadata = Metadata::default();
        if let Some((usage, cost)) = &tokens {
            recording.report.tokens.add(usage);
            metadata.usage(usage);
            metadata.set_some("cost", *cost);
            metadata.set_some("model", self.model.as_deref());
        }
        let Ok(content) = JsonText::of(&serde_json::json!({ "printed": text })) else { return };
        let message = match tokens {
            Some(_) => "Aider: tokens of the answer",
            None => "Aider: printed",
        };
        let note = RecordedNote {
            message: message.to_owned(),
            content,
            metadata: metadata.json(),
            at: self.at,
        };
        self.conversation.recording.note(&mut self.conversation.cursor, line, note);
    }
}

/// Parses the tokens and the cost of an answer in USD, both rounded, as Aider prints them.
fn tokens(line: &str) -> Option<(TokenTotals, Option<f64>)> {
    let rest = line.strip_prefix(TOKENS)?;
    let (counts, cost) = match rest.split_once(" Cost: ") {
        Some((counts, cost)) => (counts, Some(cost)),
        None => (rest, None),
    };
    let mut usage = TokenTotals::default();
    for part in counts.trim_end_matches('.').split(", ") {
        let (number, what) = part.trim().split_once(' ')?;
        let number = count(number)?;
        match what {
            "sent" => usage.input = number,
            "received" => usage.output = number,
            "cache write" => usage.cache_write = number,
            "cache hit" => usage.cache_read = number,
            _ => {}
        }
    }
    // Aider counts the cached tokens as sent, too.
    usage.input = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
    let cost = cost.and_then(|cost| {
        let first = cost.split(',').next()?;
        first.trim().strip_prefix('$')?.split_whitespace().next()?.parse().ok()
    });
    Some((usage, cost))
}

/// Parses a count such as `950`, `1.2k` or `1.5M`.
fn count(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1e3),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text, 1.0),
        },
    };
    let number: f64 = number.replace(',', "").parse().ok()?;
    let tokens = (number * unit).round();
    (0.0..9e15).contains(&tokens).then_some(tokens as u64)
}
