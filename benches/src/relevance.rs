//! How often search finds the message that answers a question: ours, and plain BM25 in the same run.
//!
//! The questions are about the recorded conversations of `trajectories/`. Some are written by hand,
//! with the message that answers them (`benches/data/relevance.jsonl`: the number of the
//! conversation in the file, and of the message in it, from 0). The others are made here of rare
//! words of a message, in another form where the recordings have one. With `LOCOMO=FILE`, the
//! questions of the public set LoCoMo are asked, too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde_json::Value;
use tract::engine::{Repo, SearchOptions};
use tract::store::WriteMode;
use tract::{CommitId, Draft, RefName, block_on};
use tract_core::BlobId;
use tract_core::words::{Language, each_word};
use tract_testkit::data;

use crate::messages;
use crate::table::Table;

/// Number of questions about the recordings.
const QUESTIONS: usize = 200;
/// Ranks that count as a hit.
const AT: [usize; 3] = [1, 5, 10];
const FILES: [&str; 4] = ["tau_airline_gpt4o", "swe_agent", "openhands", "cassette_conversations"];

/// Conversations of one repository that are searched together.
struct Corpus {
    heads: Vec<CommitId>,
    /// Each content once, in the order of the conversations.
    texts: Vec<(BlobId, String)>,
}

struct Question {
    text: String,
    answer: BlobId,
}

pub(crate) fn run(table: &mut Table, _quick: bool) {
    let Some(folder) = data::full("trajectories") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let tract = messages::open(scratch.path(), WriteMode::InPlace);
    let mut contents: HashMap<(String, usize, usize), BlobId> = HashMap::new();
    let mut corpus = Corpus { heads: Vec::new(), texts: Vec::new() };
    for file in FILES {
        let lines = std::fs::read_to_string(folder.join(format!("{file}.jsonl"))).unwrap();
        for (number, line) in lines.lines().enumerate() {
            let texts = recorded(&serde_json::from_str(line).unwrap());
            let ids = corpus.add(tract.repo(), &format!("{file}-{number}"), texts);
            contents.extend(ids.into_iter().map(|(at, id)| ((file.to_owned(), number, at), id)));
        }
    }
    let written = include_str!("../data/relevance.jsonl").lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| line[name].as_u64().unwrap() as usize;
        let file = line["file"].as_str().unwrap().to_owned();
        let answer = contents[&(file, number("conversation"), number("message"))];
        Question { text: line["question"].as_str().unwrap().to_owned(), answer }
    });
    let written: Vec<Question> = written.collect();
    let made = corpus.make_questions(QUESTIONS - written.len());
    let [count_by_hand, count_made] = [written.len(), made.len()];
    eprintln!("  {count_by_hand} questions by hand, {count_made} made");
    let sets = [(corpus, written)];
    report(table, "by hand", tract.repo(), &sets);
    let [(corpus, _)] = sets;
    report(table, "made of rare words", tract.repo(), &[(corpus, made)]);
    if let Some(file) = std::env::var_os("LOCOMO") {
        let sets = locomo(tract.repo(), Path::new(&file));
        report(table, "of LoCoMo", tract.repo(), &sets);
    }
    messages::close(tract);
}

/// Adds a row with the hits of both rankings.
fn report(table: &mut Table, what: &str, repo: &Repo, sets: &[(Corpus, Vec<Question>)]) {
    let (mut ours, mut plain, mut count) = ([0; AT.len()], [0; AT.len()], 0);
    for (corpus, questions) in sets {
        let baseline = PlainBm25::of(&corpus.texts);
        for question in questions {
            count += 1;
            let options = SearchOptions { limit: 10, ..SearchOptions::default() };
            let hits =
                block_on(tract::engine::search(repo, &corpus.heads, &question.text, &options));
            let rank = hits.unwrap().hits.iter().position(|hit| hit.content == question.answer);
            for (counts, rank) in
                [(&mut ours, rank), (&mut plain, baseline.rank(&question.text, question.answer))]
            {
                for (count, at) in counts.iter_mut().zip(AT) {
                    *count += usize::from(rank.is_some_and(|rank| rank < at));
                }
            }
        }
    }
    let percent = |counts: [usize; AT.len()]| {
        counts.map(|hits| format!("{:.1}", hits as f64 * 100.0 / count as f64)).join(" / ")
    };
    table.limit(
        format!("hit@1/5/10 of {count} questions {what}"),
        format!("{} %, plain BM25 {} %", percent(ours), percent(plain)),
        "more than plain BM25 at 5",
        ours[1] > plain[1],
    );
}

impl Corpus {
    /// Stores a conversation. Returns the contents of its messages by their number.
    fn add(
        &mut self,
        repo: &Repo,
        branch: &str,
        texts: Vec<(usize, &'static str, String)>,
    ) -> Vec<(usize, BlobId)> {
        let drafts = texts.iter().map(|(_, role, text)| match *role {
            "system" => Draft::system(text),
            "assistant" => Draft::assistant(text),
            _ => Draft::user(text),
        });
        let branch = RefName::branch(branch).unwrap();
        let commits = block_on(repo.append_all(&branch, drafts)).unwrap();
        self.heads.extend(commits.last().map(|commit| commit.id()));
        let mut ids = Vec::new();
        for (commit, (number, _, text)) in commits.iter().zip(texts) {
            let id = commit.content.unwrap();
            ids.push((number, id));
            if !self.texts.iter().any(|(known, _)| *known == id) {
                self.texts.push((id, text));
            }
        }
        ids
    }

    /// Makes questions of three rare words of evenly spread messages.
    fn make_questions(&self, count: usize) -> Vec<Question> {
        let mut with_word: BTreeMap<String, usize> = BTreeMap::new();
        let words_of = |text: &str| {
            let mut words = Vec::new();
            each_word(text, |word| {
                let letters = word.text.chars().all(char::is_alphabetic);
                if letters && word.text.len() >= 4 && !Language::English.is_stop_word(word.text) {
                    words.push(word.text.to_owned());
                }
            });
            words.into_iter().collect::<HashSet<String>>()
        };
        let words: Vec<HashSet<String>> =
            self.texts.iter().map(|(_, text)| words_of(text)).collect();
        for word in words.iter().flatten() {
            *with_word.entry(word.clone()).or_default() += 1;
        }
        let mut by_stem: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for word in with_word.keys() {
            by_stem.entry(Language::English.stem(word).into_owned()).or_default().push(word);
        }
        let mut candidates = Vec::new();
        for ((id, text), words) in self.texts.iter().zip(&words) {
            let mut rare: Vec<&String> = words.iter().filter(|word| with_word[*word] > 1).collect();
            rare.sort_by_key(|word| (with_word[*word], *word));
            if let ([a, b, c, ..], true) = (rare.as_slice(), text.len() < 2_000) {
                // Another form, if there is one.
                let form = |word: &String| -> String {
                    let forms = &by_stem[Language::English.stem(word).as_ref()];
                    let other = forms.iter().find(|form| **form != word);
                    other.map_or_else(|| word.clone(), |form| (*form).clone())
                };
                let text =
                    format!("what did they say about {}, {} and {}", form(a), form(b), form(c));
                candidates.push((text, *id));
            }
        }
        let step = (candidates.len() / count).max(1);
        let spread = candidates.into_iter().step_by(step).take(count);
        spread.map(|(text, answer)| Question { text, answer }).collect()
    }
}

/// Returns the messages of a recorded conversation with text, with their number and role.
fn recorded(conversation: &Value) -> Vec<(usize, &'static str, String)> {
    let messages = conversation["messages"].as_array().unwrap().iter().enumerate();
    let texts = messages.filter_map(|(number, message)| {
        let role = match message["role"].as_str() {
            Some("system" | "developer") => "system",
            Some("assistant") => "assistant",
            _ => "user",
        };
        let text = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        (!text.trim().is_empty()).then_some((number, role, text))
    });
    texts.collect()
}

/// Reads the questions of LoCoMo that one message answers, and stores its conversations.
fn locomo(repo: &Repo, file: &Path) -> Vec<(Corpus, Vec<Question>)> {
    let all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut sets = Vec::new();
    for (number, sample) in all.as_array().unwrap().iter().enumerate() {
        let conversation = &sample["conversation"];
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for session in 1.. {
            let Some(said) = conversation[format!("session_{session}")].as_array() else {
                match session {
                    50.. => break,
                    _ => continue,
                }
            };
            for message in said {
                let text = message["text"].as_str().unwrap_or_default();
                names.push(message["dia_id"].as_str().unwrap_or_default().to_owned());
                texts.push((texts.len(), "user", text.to_owned()));
            }
        }
        let mut corpus = Corpus { heads: Vec::new(), texts: Vec::new() };
        let ids = corpus.add(repo, &format!("locomo-{number}"), texts);
        let mut questions = Vec::new();
        for question in sample["qa"].as_array().unwrap() {
            let Some([evidence]) = question["evidence"].as_array().map(Vec::as_slice) else {
                continue;
            };
            let at = names.iter().position(|name| evidence.as_str() == Some(name));
            if let Some((_, answer)) = at.and_then(|at| ids.get(at)) {
                let text = question["question"].as_str().unwrap().to_owned();
                questions.push(Question { text, answer: *answer });
            }
        }
        sets.push((corpus, questions));
    }
    sets
}

/// BM25 over words as they are, with its usual constants: what search was before.
struct PlainBm25<'a> {
    texts: &'a [(BlobId, String)],
    counts: Vec<HashMap<String, f64>>,
    lengths: Vec<f64>,
    average: f64,
}

impl<'a> PlainBm25<'a> {
    fn of(texts: &'a [(BlobId, String)]) -> Self {
        let mut counts = Vec::new();
        for (_, text) in texts {
            let mut count: HashMap<String, f64> = HashMap::new();
            each_word(text, |word| *count.entry(word.text.to_owned()).or_default() += 1.0);
            counts.push(count);
        }
        let lengths: Vec<f64> = counts.iter().map(|count| count.values().sum()).collect();
        let average = lengths.iter().sum::<f64>() / lengths.len() as f64;
        Self { texts, counts, lengths, average }
    }

    /// Returns the rank of a text; of equally good ones the later is first, as in our search.
    fn rank(&self, query: &str, answer: BlobId) -> Option<usize> {
        let mut words = Vec::new();
        each_word(query, |word| {
            if !words.contains(&word.text.to_owned()) {
                words.push(word.text.to_owned());
            }
        });
        let all = self.counts.len() as f64;
        let mut scores = vec![0.0; self.counts.len()];
        for word in &words {
            let with = self.counts.iter().filter(|count| count.contains_key(word)).count() as f64;
            let rare = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for ((score, count), length) in scores.iter_mut().zip(&self.counts).zip(&self.lengths) {
                let times = count.get(word).copied().unwrap_or_default();
                *score +=
                    rare * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / self.average));
            }
        }
        let place = self.texts.iter().position(|(id, _)| *id == answer)?;
        let own = scores.get(place).copied().filter(|score| *score > 0.0)?;
        let better = scores.iter().filter(|score| **score > own).count();
        let equal = scores.iter().skip(place + 1).filter(|score| **score == own).count();
        Some(better + equal)
    }
}
