//! The state of the screen: the shown data and the cursors.

use std::collections::HashMap;

use ratatui::crossterm::event::KeyEvent;
use tract::engine::Branch;
use tract::{CommitId, Compiled, Message, Tract};

use super::content::ContentPane;
use super::keys::{self, Action, CursorMove, Pane};
use super::list::List;
use super::prompt::{Prompt, Question, Typed};
use super::screen::Screen;
use crate::failure::{Failure, Outcome};
use crate::render::count;
use crate::titles::Titles;

/// The state of the screen: the shown data and the cursors.
pub(super) struct App {
    /// The repository, with the branch that is checked out.
    pub(super) tract: Tract,
    /// The program that writes summaries.
    pub(super) summarizer: Option<String>,
    pub(super) branches: List<Branch>,
    pub(super) titles: Titles,
    pub(super) conversation: Conversation,
    /// The messages of the branch, by number.
    pub(super) messages: List<CommitId>,
    /// The other end of the marked range of messages.
    pub(super) mark: Option<usize>,
    pub(super) content: ContentPane,
    pub(super) focus: Pane,
    pub(super) overlay: Option<Overlay>,
    pub(super) search: Option<(Pane, String)>,
    /// The result of the last key.
    pub(super) status: Option<Outcome<String>>,
    done: bool,
}

/// A dialog that receives the keys until it is closed.
pub(super) enum Overlay {
    Help,
    Prompt(Prompt),
    /// The forms that a request can be copied in, and the chosen one.
    Forms(usize),
}

/// The context of the shown branch.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) branch: String,
    pub(super) head: Option<CommitId>,
    pub(super) compiled: Option<Compiled>,
    /// The position of each message, by its slot.
    pub(super) places: HashMap<CommitId, usize>,
    pub(super) unreadable: usize,
}

impl Conversation {
    /// Returns the message at a position.
    pub(super) fn message(&self, slot: CommitId) -> Option<&Message> {
        self.compiled.as_ref()?.message(slot)
    }
}

impl App {
    /// Opens a repository at a branch.
    ///
    /// # Errors
    /// `unknown_branch` if the branch does not exist; if the store cannot be read.
    pub(super) async fn open(
        tract: Tract,
        branch: Option<&str>,
        summarizer: Option<String>,
    ) -> Outcome<Self> {
        let mut app = Self {
            tract,
            summarizer,
            branches: List::default(),
            titles: Titles::default(),
            conversation: Conversation::default(),
            messages: List::default(),
            mark: None,
            content: ContentPane::default(),
            focus: Pane::Messages,
            overlay: None,
            search: None,
            status: None,
            done: false,
        };
        app.branches.items = app.tract.branches().list().await?;
        app.titles = Titles::read(&app.tract).await;
        let name = branch.unwrap_or(app.tract.branch_name()).to_owned();
        if !app.choose_branch(&name) && branch.is_some() {
            return Err(Failure::no("unknown_branch", format!("there is no branch {name:?}"))
                .note("`tract branch` lists the branches"));
        }
        app.read().await?;
        app.messages.step(CursorMove::Last);
        Ok(app)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Moves the cursor to a branch; returns whether it exists.
    pub(super) fn choose_branch(&mut self, name: &str) -> bool {
        let place = self.branches.items.iter().position(|branch| branch.name == name);
        self.branches.cursor = place.unwrap_or(self.branches.cursor);
        place.is_some()
    }

    /// Returns the name of the shown branch; of the one that is checked out if none is shown yet.
    pub(super) fn shown_branch(&self) -> &str {
        match self.branches.chosen() {
            Some(branch) => &branch.name,
            None => self.tract.branch_name(),
        }
    }

    /// Returns a handle on the shown branch.
    pub(super) fn shown(&self) -> Outcome<Tract> {
        Ok(self.tract.on(self.shown_branch())?)
    }

    /// Returns the message at the cursor.
    pub(super) fn message(&self) -> Option<&Message> {
        self.conversation.message(*self.messages.chosen()?)
    }

    /// Returns the positions of the marked messages; of the one at the cursor if none is marked.
    pub(super) fn marked(&self) -> std::ops::RangeInclusive<usize> {
        let cursor = self.messages.cursor;
        let mark = self.mark.unwrap_or(cursor);
        mark.min(cursor)..=mark.max(cursor)
    }

    /// Reads the branch at the cursor, unless it is already shown. An error is shown.
    pub(super) async fn load(&mut self) {
        let chosen = self.branches.chosen();
        let (name, head) = (self.shown_branch(), chosen.map(|branch| branch.head));
        if self.conversation.branch == name && self.conversation.head == head {
            return;
        }
        if let Err(failure) = self.read().await {
            self.status = Some(Err(failure));
            // Data is kept only if it is of this branch; messages of another branch would look like
            // its own.
            if self.conversation.branch != self.shown_branch() {
                self.show(Conversation {
                    branch: self.shown_branch().to_owned(),
                    ..Conversation::default()
                });
            }
        }
    }

    /// Reads the branch at the cursor and shows it.
    async fn read(&mut self) -> Outcome<()> {
        let head = self.branches.chosen().map(|branch| branch.head);
        let mut conversation = Conversation {
            branch: self.shown_branch().to_owned(),
            head,
            ..Conversation::default()
        };
        if let Some(head) = head {
            let repo = self.tract.repo();
            conversation.compiled = Some(match repo.compile(Some(head)).await {
                Ok(compiled) => compiled,
                Err(_) => {
                    let (compiled, left_out) = repo.compile_readable(Some(head)).await?;
                    conversation.unreadable = left_out.len();
                    compiled
                }
            });
        }
        self.show(conversation);
        Ok(())
    }

    /// Shows a conversation. The cursor stays at its message, or at the end if it was there.
    fn show(&mut self, mut conversation: Conversation) {
        let is_another = conversation.branch != self.conversation.branch;
        let follows = self.messages.cursor + 1 >= self.messages.items.len();
        let before = self.messages.chosen().copied().filter(|_| !is_another && !follows);
        let messages = conversation.compiled.iter().flat_map(Compiled::messages);
        self.messages.items = messages.map(|message| message.slot).collect();
        let places = self.messages.items.iter().enumerate().map(|(place, slot)| (*slot, place));
        conversation.places = places.collect();
        match before.and_then(|slot| conversation.places.get(&slot)) {
            Some(place) => self.messages.cursor = *place,
            None => self.messages.step(CursorMove::Last),
        }
        self.mark = None;
        self.conversation = conversation;
        self.content.forget();
    }

    /// Checks for changes by other writers. An error is shown, and the old data stays.
    pub(super) async fn look(&mut self) {
        if let Err(failure) = self.refresh().await {
            self.status = Some(Err(failure));
        }
    }

    /// Reads the branches again; the cursor stays at its branch.
    pub(super) async fn refresh(&mut self) -> Outcome<()> {
        let name = self.shown_branch().to_owned();
        let listed = self.tract.branches().list().await?;
        if let Some(current) = listed.iter().find(|branch| branch.checked_out)
            && current.name != self.tract.branch_name()
        {
            self.tract = self.tract.on(&current.name)?;
        }
        self.branches.items = listed;
        self.titles = Titles::read(&self.tract).await;
        let current = self.tract.branch_name().to_owned();
        if !self.choose_branch(&name) && !self.choose_branch(&current) {
            self.branches.cursor = 0;
        }
        Ok(())
    }

    /// Handles pasted text.
    pub(super) fn paste(&mut self, text: &str) {
        if let Some(Overlay::Prompt(prompt)) = &mut self.overlay {
            prompt.paste(text);
        }
    }

    /// Handles a key.
    pub(super) async fn press(&mut self, key: KeyEvent, screen: &mut Screen) {
        self.status = None;
        let done = match self.overlay.take() {
            Some(Overlay::Prompt(prompt)) => self.type_into(prompt, key).await,
            Some(Overlay::Forms(chosen)) => self.choose_form(chosen, key, screen),
            // Any key closes the help.
            Some(Overlay::Help) => Ok(None),
            None => match keys::action(key) {
                Some(action) => self.act(action, screen).await,
                None => Ok(None),
            },
        };
        self.status = done.transpose();
    }

    async fn type_into(&mut self, mut prompt: Prompt, key: KeyEvent) -> Outcome<Option<String>> {
        match prompt.press(key) {
            Typed::Open => self.overlay = Some(Overlay::Prompt(prompt)),
            Typed::Done if !prompt.text.is_empty() => match prompt.question {
                Question::Branch => return self.make_branch(&prompt.text).await.map(Some),
                Question::Search => {
                    self.search = Some((self.focus, prompt.text));
                    return self.find(true, true).map(Some);
                }
            },
            Typed::Done | Typed::Left => {}
        }
        Ok(None)
    }

    /// Carries out an action, and returns the message for the status line.
    async fn act(&mut self, action: Action, screen: &mut Screen) -> Outcome<Option<String>> {
        let outcome = match action {
            Action::CursorMove(to) => return self.step(to),
            Action::NextPane => return self.focus_on(self.focus.next(1)),
            Action::PreviousPane => return self.focus_on(self.focus.next(2)),
            Action::Focus(pane) => return self.focus_on(pane),
            Action::Mark => {
                self.focus = Pane::Messages;
                self.mark = Some(self.messages.cursor);
                "marked from here to the cursor; esc ends it".to_owned()
            }
            Action::Search => return self.ask(Question::Search),
            // During a search, its key moves to the next hit.
            Action::NewBranch if self.search.is_some() => self.find(true, false)?,
            Action::NewBranch => return self.ask(Question::Branch),
            Action::PreviousHit => self.find(false, false)?,
            Action::Checkout => self.checkout().await?,
            Action::Edit => self.edit(screen).await?,
            Action::Summarize => self.summarize(screen).await?,
            Action::CherryPick => self.cherry_pick().await?,
            Action::Diff => return self.diff().await,
            Action::Undo => self.undo(false).await?,
            Action::Redo => self.undo(true).await?,
            Action::Copy => {
                self.overlay = Some(Overlay::Forms(0));
                return Ok(None);
            }
            Action::Back => {
                self.search = None;
                self.mark = None;
                self.content.forget();
                return Ok(None);
            }
            Action::Help => {
                self.overlay = Some(Overlay::Help);
                return Ok(None);
            }
            Action::Quit => {
                self.done = true;
                return Ok(None);
            }
        };
        Ok(Some(outcome))
    }

    fn step(&mut self, to: CursorMove) -> Outcome<Option<String>> {
        match self.focus {
            Pane::Branches => self.branches.step(to),
            Pane::Messages => {
                self.messages.step(to);
                self.content.forget();
            }
            Pane::Content => self.content.scroll(to),
        }
        Ok(None)
    }

    fn focus_on(&mut self, pane: Pane) -> Outcome<Option<String>> {
        self.focus = pane;
        Ok(None)
    }

    fn ask(&mut self, question: Question) -> Outcome<Option<String>> {
        self.overlay = Some(Overlay::Prompt(Prompt::new(question)));
        Ok(None)
    }

    /// Moves the cursor to the next or previous line that contains the searched words.
    fn find(&mut self, forward: bool, from_here: bool) -> Outcome<String> {
        let Some((pane, words)) = &self.search else {
            return Err(Failure::no("no_search", "nothing is searched").note("/ begins a search"));
        };
        let needle = words.to_lowercase();
        let (length, cursor) = match pane {
            Pane::Branches => (self.branches.items.len(), self.branches.cursor),
            Pane::Messages | Pane::Content => (self.messages.items.len(), self.messages.cursor),
        };
        let fits = |place: usize| match pane {
            Pane::Branches => {
                let name = self.branches.items[place].name.as_str();
                let texts = [name, self.titles.name(name)];
                texts.iter().any(|text| text.to_lowercase().contains(&needle))
            }
            Pane::Messages | Pane::Content => {
                let message = self.conversation.message(self.messages.items[place]);
                let text = message.map(tract::engine::plain).unwrap_or_default();
                text.to_lowercase().contains(&needle)
            }
        };
        let ahead = (usize::from(!from_here)..length + usize::from(!from_here)).map(|step| {
            let step = step % length;
            if forward { (cursor + step) % length } else { (cursor + length - step) % length }
        });
        let found = ahead.into_iter().find(|place| fits(*place));
        let Some(found) = found else {
            return Err(Failure::no("not_found", format!("no line has {words:?}")));
        };
        let wrapped = if forward { found < cursor } else { found > cursor };
        match pane {
            Pane::Branches => self.branches.cursor = found,
            Pane::Messages | Pane::Content => {
                self.messages.cursor = found;
                self.content.forget();
            }
        }
        let around = if wrapped { ", around the end" } else { "" };
        Ok(format!("{} of {}{around}; n N next and previous", found + 1, count(length, "line")))
    }
}
