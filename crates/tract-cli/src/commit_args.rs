//! The options of verbs that make a commit.

use std::collections::BTreeMap;

use clap::Args;
use tract::JsonText;
use tract::engine::Details;

use crate::failure::{Failure, Outcome};
use crate::input;

/// The flags of every verb that makes a commit.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// Show this line in the log.
    #[arg(long, short, value_name = "LINE")]
    message: Option<String>,
    /// Store a key and a value of your own; may be given several times.
    #[arg(long, value_name = "KEY=JSON", value_parser = input::key_value)]
    metadata: Vec<(String, JsonText)>,
    /// State the time instead of the clock's; makes the id reproducible.
    #[arg(long, value_name = "TIME", value_parser = input::since)]
    at: Option<i64>,
}

impl CommitArgs {
    pub(crate) fn details(&self) -> Outcome<Details> {
        Ok(Details {
            message: self.message.clone(),
            metadata: object(&self.metadata)?,
            created_at: self.at,
            ..Details::default()
        })
    }
}

/// Makes an object of keys and values; `None` if there are none.
pub(crate) fn object(pairs: &[(String, JsonText)]) -> Outcome<Option<JsonText>> {
    let members: BTreeMap<&String, &JsonText> =
        pairs.iter().map(|(key, json)| (key, json)).collect();
    let object = (!members.is_empty()).then(|| JsonText::of(&members));
    object.transpose().map_err(Failure::json)
}
