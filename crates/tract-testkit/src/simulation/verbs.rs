//! Executes the verbs of clients.

mod history;
mod move_data;
mod own;
mod read;
mod upkeep;

pub(super) use self::move_data::imported;
pub use self::own::{OwnError, OwnStep, OwnVerb};
pub(super) use self::read::compare_search;
use super::session::{Outcome, Session};
use super::verb::{Verb, for_each_verb};

macro_rules! steps {
    ($($(#[$meaning:meta])* $verb:ident $name:literal = $run:path;)*) => {
        /// Executes a verb.
        pub(super) async fn run(verb: Verb, session: &mut Session<'_>) -> Outcome {
            match verb {
                $(Verb::$verb => Box::pin($run(session)).await,)*
                Verb::Own(name) => own::run(session, name).await,
            }
        }
    };
}

for_each_verb!(steps);
