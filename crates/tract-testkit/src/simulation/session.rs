//! A verb in progress: its handles, random choices and results.

use tract_core::{CommitId, RefName};
use tract_engine::secrets::Scanner;
use tract_engine::{Error, Repo, log};

use super::random::Random;
use super::world::{BRANCHES, World, branch};

/// The handles and randomness for a verb.
pub(super) struct Session<'a> {
    pub(super) world: &'a World,
    pub(super) store: usize,
    pub(super) repo: Repo,
    pub(super) random: Random,
    /// Commits that were reported to the client, newest last. They may have been deleted since.
    pub(super) commits: Vec<CommitId>,
}

/// The reported results of a verb.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// Commits that were reachable from a branch after the verb.
    pub(super) commits: Vec<CommitId>,
    /// Other commits that the verb reported.
    pub(super) stored: Vec<CommitId>,
}

impl Acknowledged {
    pub(super) fn commits(commits: impl IntoIterator<Item = CommitId>) -> Self {
        Self { commits: commits.into_iter().collect(), stored: Vec::new() }
    }
}

pub(super) type Outcome = Result<Acknowledged, Error>;

/// Words that occur in many messages.
pub(super) const WORDS: [&str; 3] = ["alpha", "beta", "gamma"];

impl Session<'_> {
    /// Chooses a branch, `main` most often. It may not exist.
    pub(super) fn branch(&mut self) -> RefName {
        let at = self.random.below(BRANCHES.len() * 2);
        branch(BRANCHES.get(at).unwrap_or(&BRANCHES[0]))
    }

    /// Makes the text of a message: a common word and a unique one.
    pub(super) fn text(&mut self) -> String {
        let mut own = self.random.next();
        // No hexadecimal digits, so that no id contains the word by chance.
        let letter = |_| {
            own >>= 4;
            char::from(b'g' + (own % 16) as u8)
        };
        let own: String = (0..8).map(letter).collect();
        format!("{} {own}", WORDS[self.random.below(WORDS.len())])
    }

    /// Makes a text, sometimes with a secret, which is also returned.
    pub(super) fn text_with_secret(&mut self) -> (String, Option<String>) {
        let text = self.text();
        if !self.random.chance(20) {
            return (text, None);
        }
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let letter = |_| char::from(*self.random.choose(letters).unwrap_or(&b'A'));
        // In the format of an access key id. One that repeats its letters is not taken for a secret.
        let secret = format!("AKIA{}", (0..16).map(letter).collect::<String>());
        if Scanner::builtin().find(&secret).is_empty() {
            return (text, None);
        }
        (format!("{text} {secret}"), Some(secret))
    }

    pub(super) async fn head(&self, name: &RefName) -> Result<CommitId, Error> {
        match self.repo.head_of(name).await? {
            Some(head) => Ok(head),
            None => {
                let name = name.branch_name().unwrap_or_default().to_owned();
                Err(Error::UnknownBranch { name, nearest: Vec::new() })
            }
        }
    }

    pub(super) async fn heads(&self) -> Result<Vec<CommitId>, Error> {
        Ok(self.repo.branches().await?.into_iter().map(|branch| branch.head).collect())
    }

    /// Selects one of the last commits of a branch.
    pub(super) async fn commit_of(&mut self, name: &RefName) -> Result<CommitId, Error> {
        let head = self.head(name).await?;
        let page = log(&self.repo, head, 8).await?;
        Ok(self.random.choose(&page.commits).map_or(head, tract_core::Commit::id))
    }

    /// Selects a message of a branch's context.
    pub(super) async fn message_of(&mut self, name: &RefName) -> Result<CommitId, Error> {
        let head = self.head(name).await?;
        let compiled = self.repo.compile(Some(head)).await?;
        let ids: Vec<CommitId> = compiled.commit_ids().collect();
        Ok(self.random.choose(&ids).copied().unwrap_or(head))
    }
}
