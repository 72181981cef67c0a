//! The address of a server, and its permissions and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tract_core::hash;

use crate::event::Listener;

/// The variables of our environment that every program gets, with `LC_*`: what it takes to find
/// programs, folders and the language. Proxies are not among them: their urls contain passwords.
const INHERITED: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Windows does not start a program without some of these.
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// The program of a server that speaks on its standard streams.
///
/// It does not inherit our environment, which contains keys. It gets `PATH`, `HOME`, the user's
/// name, the locale, the folders for temporary files, and the variables of [`env`](Self::env) and
/// [`inherited`](Self::inherited).
///
/// ```
/// use tract_mcp::ServerCommand;
/// let files = ServerCommand::new("npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]);
/// ```
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Further variables of its environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Further variables of our environment that are passed on, where they are set.
    pub inherited: BTreeSet<OsString>,
    /// The folder that it runs in.
    pub folder: Option<PathBuf>,
}

impl ServerCommand {
    /// Names the program.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherited: BTreeSet::new(),
            folder: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Returns all variables that the program gets: of ours those that are inherited, then those
    /// that were set.
    pub(crate) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let is_inherited = |name: &OsStr| {
            let text = name.to_str().unwrap_or_default();
            // There `PATH` is spelled `Path`.
            let is_listed = |known: &&str| {
                if cfg!(windows) { known.eq_ignore_ascii_case(text) } else { *known == text }
            };
            INHERITED.iter().any(is_listed)
                || text.starts_with("LC_")
                || self.inherited.contains(name)
        };
        let mut all: BTreeMap<OsString, OsString> =
            std::env::vars_os().filter(|(name, _)| is_inherited(name)).collect();
        all.extend(self.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// Returns what approvals of a server without a label are bound to: the program's name and a
    /// hash of the program as it was given, all arguments and the folder. No variable is part of
    /// it, and arguments, which may contain keys, cannot be read from it.
    ///
    /// ```
    /// use tract_mcp::ServerCommand;
    /// let one = ServerCommand::new("npx").args(["-y", "one"]);
    /// let two = ServerCommand::new("npx").args(["-y", "two"]);
    /// assert!(one.identity().starts_with("npx#"));
    /// assert_ne!(one.identity(), two.identity());
    /// let mut with_key = one.clone();
    /// with_key.env.insert("KEY".into(), "secret".into());
    /// assert_eq!(one.identity(), with_key.identity());
    /// ```
    pub fn identity(&self) -> String {
        let mut words = Vec::new();
        let folder = self.folder.as_ref().map(|folder| folder.as_os_str());
        // No program, folder or argument contains a NUL; an empty one ends the first part.
        let first = [Some(&*self.program), folder, Some(OsStr::new(""))];
        for word in first.into_iter().flatten().chain(self.args.iter().map(|arg| &**arg)) {
            words.extend_from_slice(word.as_encoded_bytes());
            words.push(0);
        }
        format!("{}#{}", self.name(), short_hash(&words))
    }

    /// Returns the program's name, without its folder and extension.
    pub fn name(&self) -> String {
        let stem = Path::new(&self.program).file_stem().unwrap_or(&self.program);
        stem.to_string_lossy().into_owned()
    }
}

/// Returns the first 16 digits of a hash. That is enough: users write these commands themselves,
/// and gain nothing from two that collide.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    hash::blob(bytes).to_hex().chars().take(16).collect()
}

/// The permissions and time limits of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Time limit for the handshake; 30 s by default.
    pub handshake_timeout: Duration,
    /// Time limit for one request, and for all pages of a listing together; 60 s by default. A
    /// call's own deadline may be shorter.
    pub call_timeout: Duration,
    /// Maximum size of one message, and of all pages of a listing together; 16 MiB by default.
    pub max_line_bytes: usize,
    /// Maximum number of restarts without an answer in between; 3 by default.
    pub max_restarts: u32,
    /// Trusts the server's annotations that a tool only reads or may be repeated; off by default.
    /// Without it annotations only restrict: a tool annotated as destructive is treated as such,
    /// and one annotated as harmless is not trusted.
    pub trust_annotations: bool,
    /// The receiver of events. It is called between two messages and must return soon.
    pub listener: Listener,
}

impl Default for ServerOptions {
    /// 30 seconds for the handshake, 60 for a request, 16 MiB for a message, 3 restarts in a row,
    /// annotations not trusted, no listener.
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            max_line_bytes: 16 << 20,
            max_restarts: 3,
            trust_annotations: false,
            listener: Listener::default(),
        }
    }
}

impl ServerOptions {}
