//! A terminal that a program runs on: `script` of util-linux makes it, and what it shows is read as
//! a terminal reads it.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{RunOutput, Workspace, set_as};

/// How long something may take to be shown, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal, and the command on it.
pub(crate) struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    screen: Arc<Mutex<vt100::Parser<Clipboard>>>,
    reader: Option<JoinHandle<()>>,
}

/// What the terminal was asked to copy, in base64.
#[derive(Default)]
pub(crate) struct Clipboard(Option<Vec<u8>>);

impl vt100::Callbacks for Clipboard {
    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.0 = Some(data.to_vec());
    }
}

impl Terminal {
    /// Runs `tract` with these arguments, words of a shell, on a terminal of this size.
    pub(crate) fn run(
        place: &Workspace,
        (rows, columns): (u16, u16),
        environment: &[(&str, &str)],
        arguments: &str,
    ) -> Self {
        Self::run_in(place, (rows, columns), environment, &format!("exec \"$TRACT\" {arguments}"))
    }

    /// Runs a line of a shell, in which `$TRACT` is the binary, on a terminal of this size.
    pub(crate) fn run_in(
        place: &Workspace,
        (rows, columns): (u16, u16),
        environment: &[(&str, &str)],
        line: &str,
    ) -> Self {
        let tract = place.command(&[]);
        let line = format!("stty rows {rows} cols {columns}; {line}");
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        set_as(&mut script, &tract);
        script.env("TRACT", tract.get_program());
        script.env_remove("VISUAL").env_remove("EDITOR").env_remove("COLUMNS");
        script.env("TERM", "xterm-256color").envs(environment.iter().copied());
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("`script` of util-linux");
        let size = |n| NonZeroU16::new(n).expect("a size");
        let parser =
            vt100::Parser::new_with_callbacks(size(rows), size(columns), 0, Clipboard::default());
        let screen = Arc::new(Mutex::new(parser));
        let (shown, mut output) = (Arc::clone(&screen), child.stdout.take().expect("a pipe"));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 1 << 14];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("not poisoned").process(&bytes[..read]);
            }
        });
        let keys = child.stdin.take();
        Self { child, keys, screen, reader: Some(reader) }
    }

    /// Types keys, as a terminal sends them.
    pub(crate) fn press(&mut self, keys: &str) {
        let pipe = self.keys.as_mut().expect("it runs");
        pipe.write_all(keys.as_bytes()).and_then(|()| pipe.flush()).expect("it reads keys");
    }

    /// What is shown now, without spaces at the ends of lines.
    pub(crate) fn text(&self) -> String {
        let screen = self.screen.lock().expect("not poisoned").screen().contents();
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Draws what is shown now.
    pub(crate) fn picture(&self, title: &str) -> String {
        crate::picture::of_screen(title, self.screen.lock().expect("not poisoned").screen())
    }

    /// Waits until the screen is as wanted, and returns it.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if wanted(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{what} was not shown:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a text is shown.
    #[track_caller]
    pub(crate) fn shows(&self, wanted: &str) -> String {
        self.wait_until(wanted, |text| text.contains(wanted))
    }

    /// Presses keys, and waits until a text is shown.
    #[track_caller]
    pub(crate) fn press_for(&mut self, keys: &str, wanted: &str) -> String {
        self.press(keys);
        self.shows(wanted)
    }

    /// What the terminal was asked to copy last, in base64.
    pub(crate) fn clipboard(&self) -> Option<String> {
        let screen = self.screen.lock().expect("not poisoned");
        screen.callbacks().0.clone().map(|data| String::from_utf8(data).expect("base64"))
    }

    /// Waits for the end of the program; returns its exit code, and whether the terminal is as
    /// before.
    pub(crate) fn end(mut self) -> (Option<i32>, bool) {
        let status = self.child.wait().expect("it ends");
        drop(self.keys.take());
        self.reader.take().map(JoinHandle::join).expect("it is read").expect("read to the end");
        let screen = self.screen.lock().expect("not poisoned");
        let screen = screen.screen();
        let is_as_before =
            !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste();
        (status.code(), is_as_before)
    }

    /// Takes the terminal away from the program, and waits for its end.
    #[track_caller]
    pub(crate) fn hang_up(mut self) {
        let program = format!("/proc/{}", self.program());
        self.child.kill().expect("it runs");
        let end = Instant::now() + PATIENCE;
        while std::fs::exists(&program).expect("a path") {
            assert!(Instant::now() < end, "it continues without a terminal");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The program on the terminal.
    pub(crate) fn program(&self) -> u32 {
        let id = self.child.id().to_string();
        let found = RunOutput::after(Command::new("pgrep").args(["-P", &id]));
        found.stdout.trim().parse().expect("one program")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
