//! The terminal: raw mode while the pages are shown, restored for an editor and at the end.

use std::io::{self, Stdout, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
#[cfg(unix)]
use signal_hook::consts::{SIGABRT, SIGALRM, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2};

use super::app::App;
use super::draw::{self, Theme};
use crate::ending;
use crate::failure::{Failure, Outcome};

/// Maximum bytes for the clipboard in most terminals. Some accept less, without an error.
const MOST_COPIED: usize = 1 << 20;

/// The terminal. Dropping it restores the previous state.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    theme: Theme,
    /// The signals that ask the process to end and may be sent on purpose.
    signals: ending::Claim,
    /// Whether a signal asked the process to end.
    ended: Arc<AtomicBool>,
    /// Whether a signal asked the process to stop until it is continued.
    stopped: Arc<AtomicBool>,
    /// Whether another program uses the terminal.
    is_away: Arc<AtomicBool>,
}

impl Screen {
    /// Switches the terminal to raw mode.
    ///
    /// # Errors
    /// `terminal` if that fails.
    pub(super) fn start(colors: bool) -> Outcome<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let signals = ending::claim(&[
            ending::SIGINT,
            ending::SIGTERM,
            // Closing a window also ends the programs started in it.
            #[cfg(unix)]
            ending::SIGHUP,
        ]);
        for signal in [
            #[cfg(unix)]
            SIGQUIT,
            // Sent by mistake, they would end the process without restoring the terminal.
            #[cfg(unix)]
            SIGUSR1,
            #[cfg(unix)]
            SIGUSR2,
            #[cfg(unix)]
            SIGALRM,
            #[cfg(unix)]
            SIGABRT,
        ] {
            signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(failed)?;
        }
        let (stopped, is_away) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        #[cfg(unix)]
        {
            use signal_hook::flag::{register, register_conditional_default};
            // While an editor uses the terminal, Ctrl-Z must stop this process too, because the
            // shell waits for the whole group.
            register_conditional_default(SIGTSTP, Arc::clone(&is_away)).map_err(failed)?;
            register(SIGTSTP, Arc::clone(&stopped)).map_err(failed)?;
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Contained panics become errors, which the pages show.
            if !tract::core::is_contained() {
                let _ = leave();
            }
            before(panic);
        }));
        let theme = Theme { colors };
        let screen = Self { terminal: terminal()?, theme, signals, ended, stopped, is_away };
        enter().map_err(failed)?;
        Ok(screen)
    }

    /// Returns whether a signal asked the process to end.
    pub(super) fn is_ended(&self) -> bool {
        if self.signals.arrived().is_some() {
            self.ended.store(true, Ordering::Relaxed);
        }
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits up to `wait` for a key or another event; `None` if none arrived.
    ///
    /// # Errors
    /// `terminal` if it cannot be read, or is gone: a closed window, a lost connection.
    pub(super) fn next_event(&self, wait: Duration) -> Outcome<Option<Event>> {
        // Buffered events are available immediately.
        for wait in [Duration::ZERO, wait] {
            wait_for_input(wait).map_err(failed)?;
            if event::poll(Duration::ZERO).map_err(failed)? {
                return event::read().map(Some).map_err(failed);
            }
        }
        Ok(None)
    }

    /// Draws the current state.
    ///
    /// # Errors
    /// `terminal` if it cannot be written.
    pub(super) fn draw(&mut self, app: &mut App) -> Outcome<()> {
        self.terminal.draw(|frame| draw::all(frame, app, self.theme)).map_err(failed)?;
        Ok(())
    }

    /// Gives the terminal to another program while `work` runs.
    ///
    /// # Errors
    /// `terminal` if it cannot be released or claimed again.
    pub(super) fn leave_to<T>(&mut self, work: impl FnOnce() -> T) -> Outcome<T> {
        leave().map_err(failed)?;
        self.is_away.store(true, Ordering::Relaxed);
        let done = work();
        self.is_away.store(false, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
        enter().map_err(failed)?;
        // A new terminal does not know the screen, so it draws everything.
        self.terminal = terminal()?;
        Ok(done)
    }

    /// Stops the process if a signal asked for it.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub(super) fn stop_if_told(&mut self) -> Outcome<()> {
        if self.stopped.swap(false, Ordering::Relaxed) { self.stop() } else { Ok(()) }
    }

    /// Returns the terminal to the shell and stops, as Ctrl-Z does elsewhere. Returns when the
    /// process is continued. If no shell would continue it, nothing happens.
    ///
    /// # Errors
    /// As [`leave_to`](Self::leave_to).
    pub(super) fn stop(&mut self) -> Outcome<()> {
        #[cfg(unix)]
        {
            use rustix::process::{Signal, getpid, kill_process};

            if !has_job_control() {
                return Ok(());
            }
            let stopped = self.leave_to(|| kill_process(getpid(), Signal::STOP))?;
            stopped.map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }

    /// Sends a text to the terminal's clipboard (OSC 52), which also works over SSH.
    ///
    /// # Errors
    /// `too_long` if the text exceeds the limit of terminals.
    pub(super) fn copy(&self, text: &str) -> Outcome<()> {
        let encoded = STANDARD.encode(text);
        if encoded.len() > MOST_COPIED {
            let size = crate::render::bytes(text.len() as u64);
            return Err(Failure::no("too_long", format!("{size} is more than terminals copy")));
        }
        let mut stdout = io::stdout();
        write!(stdout, "\u{1b}]52;c;{encoded}\u{7}").and_then(|()| stdout.flush()).map_err(failed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = leave();
    }
}

fn terminal() -> Outcome<Terminal<CrosstermBackend<Stdout>>> {
    Terminal::new(CrosstermBackend::new(io::stdout())).map_err(failed)
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Clear(ClearType::All))
}

fn leave() -> io::Result<()> {
    execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen)?;
    // The cursor is hidden while pages are drawn.
    execute!(io::stdout(), ratatui::crossterm::cursor::Show)?;
    disable_raw_mode()
}

/// Returns whether the parent is a shell that can continue a stopped process: one in the same
/// session and in another group. The system does not stop other processes at Ctrl-Z, either.
#[cfg(unix)]
fn has_job_control() -> bool {
    use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid};

    // In a container, a parent, session or group from outside has the number 0, which is not a
    // process.
    let parent = getppid();
    let (Ok(session), Ok(of_parent), Ok(group)) =
        (getsid(None), getsid(Some(parent)), getpgid(Some(parent)))
    else {
        return false;
    };
    let outside = Pid::from_raw(0);
    parent != outside && session != outside && session == of_parent && group != getpgrp()
}

/// Waits until the terminal has input, or a signal arrives. It is polled here because the event
/// reader would read the end of input forever on a terminal that is gone.
#[cfg(unix)]
fn wait_for_input(wait: Duration) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = io::stdin();
    let mut input = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut input, Timespec::try_from(wait).ok().as_ref()) {
        Ok(_) if input[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is gone"))
        }
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn wait_for_input(wait: Duration) -> io::Result<()> {
    event::poll(wait).map(drop)
}

/// Makes the failure of a terminal.
pub(super) fn failed(error: io::Error) -> Failure {
    Failure::no("terminal", format!("the terminal: {error}"))
}
