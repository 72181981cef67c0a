//! Values that can be recorded as a message.

use tract_core::{CommitId, Content, Draft, Reply};

use crate::error::Result;

/// A value that can be recorded as a message: a [`Draft`], a [`Content`], or a model's [`Reply`],
/// which is accepted only on the head that was compiled for it.
pub trait IntoDraft {
    /// Makes the draft.
    ///
    /// # Errors
    /// If a part of it cannot be serialized to JSON.
    fn into_draft(self) -> Result<Draft>;

    /// Returns the head that it answers, if it is a reply.
    fn answers_head(&self) -> Option<CommitId> {
        None
    }
}

impl IntoDraft for Draft {
    fn into_draft(self) -> Result<Draft> {
        Ok(self)
    }
}

/// A step such as [`Draft::metadata`] that may fail need not be unwrapped first.
impl<E: Into<crate::Error>> IntoDraft for Result<Draft, E> {
    fn into_draft(self) -> Result<Draft> {
        self.map_err(Into::into)
    }
}

impl IntoDraft for &Draft {
    fn into_draft(self) -> Result<Draft> {
        Ok(self.clone())
    }
}

impl IntoDraft for Content {
    fn into_draft(self) -> Result<Draft> {
        Ok(Draft::new(self))
    }
}

impl IntoDraft for &Reply {
    fn into_draft(self) -> Result<Draft> {
        Ok(tract_engine::reply_draft(self)?)
    }

    fn answers_head(&self) -> Option<CommitId> {
        self.head
    }
}

impl IntoDraft for Reply {
    fn into_draft(self) -> Result<Draft> {
        (&self).into_draft()
    }

    fn answers_head(&self) -> Option<CommitId> {
        self.head
    }
}

#[cfg(test)]
mod tests {
    use tract_core::AuthorKind;

    use crate::prelude::*;

    #[test]
    fn a_reply_answers_the_head_that_was_compiled() {
        tract_core::block_on(async {
            let tract = crate::open("memory:").await?;
            tract.user("How much did I save?").await?;
            let request = tract.compile().await?.to_openai_params()?.with("model", "gpt-5.5");
            let reply = request.reply(
                r#"{"id":"r1","model":"gpt-5.5-1","choices":[{"index":0,"finish_reason":"stop",
                    "message":{"role":"assistant","content":"$10,519."}}],
                    "usage":{"prompt_tokens":9,"completion_tokens":5}}"#,
            )?;
            let late = tract.fork("late", "HEAD").await?;
            let made = tract.commit(&reply).await?;
            assert_eq!(made.origin.by, AuthorKind::Model);
            assert_eq!(made.origin.id.as_deref(), Some("r1"));
            let error = tract.commit(&reply).await.expect_err("the branch has moved");
            assert_eq!(error.code(), "conflict");
            assert_eq!(late.commit(reply).await?.parents, made.parents);
            Ok::<(), crate::Error>(())
        })
        .expect("it works");
    }
}
