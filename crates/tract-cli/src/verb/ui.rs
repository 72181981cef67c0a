//! `tract ui`

mod actions;
mod app;
mod content;
mod draw;
mod keys;
mod list;
mod prompt;
mod screen;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::app::App;
use self::screen::Screen;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Work on conversations in the terminal.
///
/// Shows branches, messages and content side by side, and what others write meanwhile. A key does
/// what the verb of that name does, on the branch that is shown, and `z` reverts it. `?` lists the
/// keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: j k move, tab next pane, space checkout, n new branch, e edit, v mark, s summarize,
c cherry-pick, d diff, z undo, Z redo, / search, y copy the request, ? help, q quit.
Examples:
  tract ui
  tract ui side                              begin with another branch
  tract ui --summarizer 'llm -s summarize'   s asks this program, not your editor")]
pub(crate) struct Ui {
    /// The branch to show first [default: the current one]
    #[arg(value_name = "BRANCH")]
    branch: Option<String>,
}

/// Interval between reads of the store.
const PAUSE: Duration = Duration::from_millis(400);

pub(crate) async fn run(context: &mut Context<'_>, ui: Ui) -> Outcome<()> {
    if context.out.is_json() || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage("`tract ui` needs a terminal")
            .note("`tract log` and `tract cat` print; with --json, for programs"));
    }
    let tract = context.open_to_serve("ui").await?;
    let summarizer = context.global.summarizer.clone();
    let mut app = App::open(tract, ui.branch.as_deref(), summarizer).await?;
    let mut screen = Screen::start(context.out.shows_colors())?;
    drive(&mut app, &mut screen).await
}

/// Draws, waits for keys, and checks the store for changes.
async fn drive(app: &mut App, screen: &mut Screen) -> Outcome<()> {
    let mut next_look = Instant::now() + PAUSE;
    while !app.is_done() && !screen.is_ended() {
        app.load().await;
        screen.draw(app)?;
        let wait = next_look.saturating_duration_since(Instant::now());
        let mut next = screen.next_event(wait)?;
        screen.stop_if_told()?;
        if next.is_none() {
            let begun = Instant::now();
            app.look().await;
            // A store that answers slowly is checked less often.
            next_look = Instant::now() + PAUSE.max(begun.elapsed() * 10);
        }
        // Keys pressed since then are handled before anything is loaded or drawn.
        while let Some(event) = next {
            match event {
                Event::Key(key) if is_stop(key) => screen.stop()?,
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    app.press(key, screen).await
                }
                Event::Paste(text) => app.paste(&text),
                _ => {}
            }
            next = if app.is_done() { None } else { screen.next_event(Duration::ZERO)? };
        }
    }
    Ok(())
}

/// Returns whether a key is Ctrl-Z. In raw mode the terminal does not turn it into a signal.
fn is_stop(key: KeyEvent) -> bool {
    key.kind == KeyEventKind::Press
        && key.code == KeyCode::Char('z')
        && key.modifiers == KeyModifiers::CONTROL
}
