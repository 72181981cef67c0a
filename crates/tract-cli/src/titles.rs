//! Titles of conversations next to the names of their branches.

use std::collections::HashMap;

use tract::Tract;
use tract::engine::{SessionQuery, TitleSource};

/// Titles by branch.
#[derive(Debug, Default)]
pub(crate) struct Titles(HashMap<String, String>);

impl Titles {
    /// Reads the titles of branches whose names say little: those of imports, named by the id of
    /// their session, and those that got a title. There are none if they cannot be read: the verb that
    /// shows them reads the store too, and reports the failure.
    pub(crate) async fn read(tract: &Tract) -> Self {
        let Ok(sessions) = tract.sessions(&SessionQuery::default()).await else {
            return Self::default();
        };
        let titled = sessions.into_iter().filter_map(|session| {
            let has_title =
                session.tool.is_some() || session.title_source == Some(TitleSource::Set);
            Some((session.branch, session.title.filter(|_| has_title)?))
        });
        Self(titled.collect())
    }

    /// Returns the title of a branch, if it has one that is worth showing.
    pub(crate) fn get(&self, branch: &str) -> Option<&str> {
        self.0.get(branch).map(String::as_str)
    }

    /// Returns the title of a branch, or its name.
    pub(crate) fn name<'a>(&'a self, branch: &'a str) -> &'a str {
        self.get(branch).unwrap_or(branch)
    }
}
