//! The actions of keys, each equal to the verb of its name.

use std::future::Future;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use tract::core::{Summarizer as _, SummaryRequest};
use tract::engine::{NewContent, Rebase, RebaseTarget, Request, Selection};
use tract::forms::{Form, FormOptions, compile_form};
use tract::{Body, CommitId, Content};

use super::app::{App, Overlay};
use super::keys::{self, Action, Pane};
use super::screen::Screen;
use crate::failure::{Failure, Outcome};
use crate::render::{bytes, count};
use crate::summarize::CommandSummarizer;
use crate::verb::edit;

/// The hint about undo after each change.
const BACK: &str = "z undoes it";

impl App {
    /// Checks out the branch at the cursor.
    pub(super) async fn checkout(&mut self) -> Outcome<String> {
        let name = self.shown_branch().to_owned();
        self.tract = self.tract.checkout(&name).await?;
        self.refresh().await?;
        Ok(format!("on {name}"))
    }

    /// Creates a branch at the message at the cursor, or at the head of the branch.
    pub(super) async fn make_branch(&mut self, name: &str) -> Outcome<String> {
        let of_message = self.message().filter(|_| self.focus != Pane::Branches);
        let from = match of_message {
            Some(message) => {
                let slot = message.slot;
                self.tract.repo().position_of(self.shown_head()?, slot).await?
            }
            None => self.head()?,
        };
        let at = self.tract.branches().create(name, from).await?;
        self.refresh().await?;
        self.choose_branch(name);
        Ok(format!("{name} at {}; space checks it out", at.short()))
    }

    fn head(&self) -> Outcome<CommitId> {
        self.branches.chosen().map(|branch| branch.head).ok_or_else(|| {
            Failure::no("no_commits", "the branch has no commits yet")
                .note("`tract commit user TEXT`, or `tract import FILE`")
        })
    }

    /// Returns the commit of the shown context.
    fn shown_head(&self) -> Outcome<CommitId> {
        self.conversation.head.map_or_else(|| self.head(), Ok)
    }

    /// Returns the commit of the message at the cursor.
    fn commit(&self) -> Outcome<CommitId> {
        let message = self.message().map(|message| message.commit);
        message.ok_or_else(|| Failure::no("no_message", "there is no message at the cursor"))
    }

    /// Returns the versions of the marked messages.
    fn marked_commits(&self) -> Outcome<Vec<CommitId>> {
        self.commit()?;
        let slots = self.messages.items.get(self.marked()).unwrap_or_default();
        let messages = slots.iter().filter_map(|slot| self.conversation.message(*slot));
        Ok(messages.map(|message| message.commit).collect())
    }

    /// Opens the text of the message at the cursor in the editor.
    pub(super) async fn edit(&mut self, screen: &mut Screen) -> Outcome<String> {
        let (target, branch) = (self.commit()?, self.shown()?);
        let commit = branch.repo().require_commit(target).await?;
        let content = branch.repo().content(&commit).await?;
        let before = content.map(|content| content.text()).unwrap_or_default();
        let Some(text) = screen.leave_to(|| edit::changed(&before))?? else {
            return Ok("the text is as it was; nothing was changed".to_owned());
        };
        let request =
            Request::Edit { target, content: NewContent::Text(text), details: Default::default() };
        let made = branch.record(request).await?;
        self.refresh().await?;
        Ok(format!("edited, {}; {BACK}", made.id().short()))
    }

    /// Replaces the marked messages by a summary, written by a program or by the user.
    pub(super) async fn summarize(&mut self, screen: &mut Screen) -> Outcome<String> {
        let targets = self.marked_commits()?;
        let branch = self.shown()?;
        let text = self.text_of_marked();
        let summary = match self.summarizer.clone() {
            Some(program) => {
                self.status = Some(Ok(format!("{program:?} writes a summary; esc ends it")));
                let mut request = SummaryRequest::new(text);
                request.what = Some("part of a conversation".to_owned());
                let summarizer = CommandSummarizer::new(program);
                screen.draw(self)?;
                let Some(summary) = until_left(summarizer.summarize(&request), screen)? else {
                    return Ok("left; nothing was changed".to_owned());
                };
                summary.map_err(tract::Error::from)?.text
            }
            None => match screen.leave_to(|| edit::changed(&text))?? {
                Some(text) => text,
                None => return Ok("the text is as it was; nothing was changed".to_owned()),
            },
        };
        let content = Content::Assistant(Body::text(summary));
        let select = Selection::Targets(targets);
        let details = Default::default();
        let request = Request::Compress { select, content, role: None, details };
        let before = self.messages.items.len();
        branch.record(request).await?;
        self.refresh().await?;
        self.load().await;
        // A summary replaces at least one message.
        let gone = (before + 1).saturating_sub(self.messages.items.len());
        Ok(format!("{} summarized; {BACK}", count(gone, "message")))
    }

    /// Returns the text of the marked messages, for the author of the summary.
    fn text_of_marked(&self) -> String {
        let slots = self.messages.items.get(self.marked()).unwrap_or_default();
        let messages = slots.iter().filter_map(|slot| self.conversation.message(*slot));
        let text = |message: &tract::Message| {
            format!("{}: {}", message.role.as_str(), tract::engine::plain(message))
        };
        messages.map(text).collect::<Vec<_>>().join("\n")
    }

    /// Copies the marked messages to the branch that is checked out.
    pub(super) async fn cherry_pick(&mut self) -> Outcome<String> {
        self.commit()?;
        let head = self.shown_head()?;
        let slots = self.messages.items.get(self.marked()).unwrap_or_default();
        let targets =
            slots.iter().map(|slot| RebaseTarget::Message { slot: *slot, head }).collect();
        let onto = self.tract.branch_name().to_owned();
        if self.shown_branch() == onto {
            return Err(Failure::no("same_branch", format!("{onto} has these messages already"))
                .note("show another branch, then c copies from it onto the current one"));
        }
        let pick = Rebase::Pick { targets, from: None };
        let picked = self.tract.repo().rebase(self.tract.branch(), &pick).await?;
        self.refresh().await?;
        let made = count(picked.made.len(), "commit");
        Ok(format!("{made} copied onto {onto}; z undoes it when {onto} is shown"))
    }

    /// Shows the changes of a commit, or the difference between a branch and the one that is
    /// checked out.
    pub(super) async fn diff(&mut self) -> Outcome<Option<String>> {
        let (before, after, title) = if self.focus == Pane::Branches {
            let (current, shown) = (self.tract.branch_name(), self.shown_branch());
            let title = format!("{current} to {shown}");
            (current.to_owned(), shown.to_owned(), title)
        } else {
            let commit = self.commit()?;
            let title = format!("what {} changed", commit.short());
            (format!("{}~1", commit.to_hex()), commit.to_hex(), title)
        };
        let found = self.tract.diff(before.as_str(), after.as_str()).await?;
        self.content.show_diff(title, &found);
        Ok(None)
    }

    /// Undoes or redoes the last operation on the shown branch.
    pub(super) async fn undo(&mut self, redo: bool) -> Outcome<String> {
        let branch = self.shown()?;
        let done = if redo { branch.redo().await? } else { branch.undo().await? };
        self.refresh().await?;
        let (word, again) =
            if redo { ("redone", "z undoes it") } else { ("undone", "Z redoes it") };
        Ok(format!("{}: {word}; {again}", done.what))
    }

    /// Moves in the list of forms, or copies the request in the selected form.
    pub(super) fn choose_form(
        &mut self,
        chosen: usize,
        key: KeyEvent,
        screen: &Screen,
    ) -> Outcome<Option<String>> {
        let forms: Vec<Form> = Form::all().collect();
        match keys::action(key) {
            Some(Action::CursorMove(to)) => {
                let last = forms.len().saturating_sub(1);
                let chosen = super::list::moved(chosen, to, forms.len(), last);
                self.overlay = Some(Overlay::Forms(chosen));
                Ok(None)
            }
            Some(Action::Focus(_) | Action::Copy) => {
                let form = forms.get(chosen).copied().unwrap_or(Form::Messages);
                self.copy(form, screen).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn copy(&self, form: Form, screen: &Screen) -> Outcome<String> {
        self.head()?;
        let Some(compiled) = &self.conversation.compiled else {
            return Err(Failure::no("unreadable", "the branch cannot be read"));
        };
        if self.conversation.unreadable > 0 {
            let lost = count(self.conversation.unreadable, "message");
            return Err(Failure::no(
                "unreadable",
                format!("{lost} cannot be read, so there is no request"),
            )
            .note("`tract verify` names what is damaged"));
        }
        let request = compile_form(compiled, form, &FormOptions::default())?;
        let text = request.to_json();
        let branch = self.shown_branch();
        screen.copy(&text).map_err(|failure| {
            failure.note(format!("tract compile {branch} --to {form} > request.json"))
        })?;
        let repairs = match request.repairs.len() {
            0 => String::new(),
            repairs => format!(", {}", count(repairs, "repair")),
        };
        Ok(format!(
            "sent to the terminal's clipboard: {form} of {branch}, {}{repairs}",
            bytes(text.len() as u64)
        ))
    }
}

/// Waits for another program; `None` if the user left first, which ends the program.
fn until_left<T>(work: impl Future<Output = T>, screen: &Screen) -> Outcome<Option<T>> {
    let mut work = pin!(work);
    let mut task = TaskContext::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut task) {
            return Ok(Some(done));
        }
        if screen.is_ended() {
            return Ok(None);
        }
        if let Some(Event::Key(key)) = screen.next_event(Duration::from_millis(50))? {
            let control_c =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if key.code == KeyCode::Esc || control_c {
                return Ok(None);
            }
        }
    }
}
