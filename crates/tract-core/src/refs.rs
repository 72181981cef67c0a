//! Refs: names that move, and the log of their moves.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use crate::ObjectId;
use crate::id::{BadName, BatchId, BlobId, CommitId, OperationId};

/// The name of a ref: `HEAD`, `heads/<branch>`, `tags/<tag>`, `pending/<id>`, `config/<name>`,
/// `imports/<branch>`, `signatures/<tag>`, `pins/<name>`, `decisions/<id>`, `effects/<message>`,
/// `remotes/<remote>/<branch>`, `leases/<writer>`.
///
/// Parts are separated by `/`; none is empty, begins with `.` or `-`, or ends with `.` or
/// `.lock`; there is no `..`, no white space, no control or bidirectional-format character and none of `~ ^ : ? * [ ] \ # @{`.
/// At most 1,000 bytes; 850 for the name of a new branch or tag ([`check_new`](Self::check_new)).
///
/// ```
/// use tract_core::RefName;
/// let main = RefName::branch("main")?;
/// assert_eq!(main.as_str(), "heads/main");
/// assert!(RefName::branch("two words").is_err());
/// # Ok::<(), tract_core::BadName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(String);

/// Bytes of the name of a new branch or tag, and of a new remote: with `remotes/` and `/` they make
/// the 1,000 bytes of a full name.
const MAX_NAME: usize = 850;
const MAX_REMOTE: usize = 140;

/// The folder of leases.
const LEASES: &str = "leases/";

impl RefName {
    /// Checks and wraps a full name.
    ///
    /// # Errors
    /// [`BadName`] when it breaks a rule.
    pub fn new(name: impl Into<String>) -> Result<Self, BadName> {
        let name = name.into();
        match broken_rule(&name) {
            None => Ok(Self(name)),
            Some(why) => Err(BadName::new("ref name", &name, why)),
        }
    }

    /// Returns the name of `HEAD`.
    pub fn head() -> Self {
        Self("HEAD".to_owned())
    }

    /// Returns the name of a branch's ref. Names that look alike are the same name: the text is put into
    /// NFC, the composed form.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// assert_eq!(RefName::branch("cafe\u{301}").unwrap(), RefName::branch("caf\u{e9}").unwrap());
    /// ```
    ///
    /// # Errors
    /// [`BadName`] when it breaks a rule, is `HEAD`, or begins with `heads/` already.
    pub fn branch(name: &str) -> Result<Self, BadName> {
        Self::under("heads/", "branch name", name)
    }

    /// Returns the name of a tag's ref, in NFC as that of a branch.
    ///
    /// # Errors
    /// [`BadName`] when it breaks a rule, is `HEAD`, or begins with `tags/` already.
    pub fn tag(name: &str) -> Result<Self, BadName> {
        Self::under("tags/", "tag name", name)
    }

    /// Returns the name of the ref that says where a branch of another store was last seen.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// let name = RefName::remote_branch("team", "feature/x").unwrap();
    /// assert_eq!(name.as_str(), "remotes/team/feature/x");
    /// assert_eq!(name.remote_branch_name(), Some(("team", "feature/x")));
    /// assert!(RefName::remote_branch("a/b", "main").is_err());
    /// ```
    ///
    /// # Errors
    /// [`BadName`] when a name breaks a rule, or the remote's has a `/`.
    pub fn remote_branch(remote: &str, branch: &str) -> Result<Self, BadName> {
        if remote.contains('/') {
            return Err(BadName::new("remote name", remote, "a remote's name has no \"/\""));
        }
        Self::branch(branch)?;
        Self::new(format!("remotes/{remote}/{branch}"))
    }

    /// Checks that a branch or a tag may be made under this name: the names of all that goes with it
    /// fit too, such as `remotes/<remote>/<branch>` in every other store. One of an older version may
    /// be longer, and stays what it is.
    ///
    /// # Errors
    /// [`BadName`] when it is longer than 850 bytes.
    pub fn check_new(&self) -> Result<(), BadName> {
        let named = self.branch_name().map(|name| ("branch name", name));
        match named.or_else(|| Some(("tag name", self.tag_name()?))) {
            Some((what, name)) if name.len() > MAX_NAME => {
                Err(BadName::new(what, name, "it is longer than 850 bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the name of a new remote.
    ///
    /// # Errors
    /// [`BadName`] when it has a `/`, breaks a rule, or is longer than 140 bytes.
    pub fn check_new_remote(remote: &str) -> Result<(), BadName> {
        if remote.len() > MAX_REMOTE {
            return Err(BadName::new("remote name", remote, "it is longer than 140 bytes"));
        }
        Self::remote_branch(remote, "main").map(drop)
    }

    /// Puts a name into a folder, which distinguishes it from `HEAD` and from a full name.
    fn under(folder: &'static str, what: &'static str, name: &str) -> Result<Self, BadName> {
        let why = match name {
            "HEAD" => "HEAD names the branch that is checked out",
            _ if name.starts_with(folder) => "it has its folder already: leave that out",
            _ if name.is_ascii() => return Self::new(format!("{folder}{name}")),
            _ => return Self::new(folder.chars().chain(name.nfc()).collect::<String>()),
        };
        Err(BadName::new(what, name, why))
    }

    /// Checks the name of a ref that is created here. Names from other stores may break this rule: they
    /// are kept as they are, and quoted where a shell reads them.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// assert!(RefName::branch("fix/login").unwrap().check_shell_safe().is_ok());
    /// assert!(RefName::branch("x;touch").unwrap().check_shell_safe().is_err());
    /// ```
    ///
    /// # Errors
    /// [`BadName`] when it contains a character that shells interpret.
    pub fn check_shell_safe(&self) -> Result<(), BadName> {
        let is_special = |c| {
            matches!(c, ';' | '&' | '|' | '<' | '>' | '$' | '`' | '\'' | '"' | '!')
                || matches!(c, '(' | ')' | '{' | '}' | '\u{2018}'..='\u{201f}')
        };
        if !self.0.contains(is_special) {
            return Ok(());
        }
        let what = if self.tag_name().is_some() { "tag" } else { "branch" };
        let name = self.branch_name().or(self.tag_name()).unwrap_or(&self.0);
        Err(BadName::new(what, name, "it contains a character that shells interpret"))
    }

    /// Returns the full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the branch's name, when this is a branch.
    pub fn branch_name(&self) -> Option<&str> {
        self.0.strip_prefix("heads/")
    }

    /// Returns the tag's name, when this is a tag.
    pub fn tag_name(&self) -> Option<&str> {
        self.0.strip_prefix("tags/")
    }

    /// Returns the remote and the branch, when this says where a branch of another store was last
    /// seen.
    pub fn remote_branch_name(&self) -> Option<(&str, &str)> {
        self.0.strip_prefix("remotes/")?.split_once('/')
    }

    /// Returns whether this says what a repository knows of other stores: their urls, under
    /// `config/remotes`, and where their branches were last seen, under `remotes/`. A url may hold a
    /// password, so this is part of no copy, export or bundle. Neither is what says of this
    /// repository alone: erasures that wait for confirmation, and when it last erased.
    pub fn is_remote_state(&self) -> bool {
        self.0 == "config/remotes"
            || self.0.starts_with("remotes/")
            || self.pending_erasure_blob().is_some()
            || self.0 == crate::store::NEWEST_ERASURE
    }

    /// Returns the name of a ref of a lease: a document that keeps what a writer stored ahead of the
    /// ref that is to lead there.
    pub fn lease(id: &str, number: usize) -> Self {
        let name = format!("{LEASES}{}-{number}", Self::sanitize(id));
        Self::new(name).expect("letters and digits are valid in a name")
    }

    /// Returns the prefix of all refs of leases.
    pub const fn leases() -> &'static str {
        LEASES
    }

    /// Returns whether this is a lease, which says what a writer of this store is about to do.
    pub fn is_lease(&self) -> bool {
        self.0.starts_with(LEASES)
    }

    /// Returns whether this says something of this one store: a [lease](Self::is_lease), or [what it
    /// knows of others](Self::is_remote_state). It is part of no copy, export or bundle.
    pub fn is_local(&self) -> bool {
        self.is_lease() || self.is_remote_state()
    }

    /// Returns the name as a message for people has it: `branch "main"`, `tag "v1"`, `HEAD`.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// assert_eq!(RefName::branch("main").unwrap().describe(), "branch \"main\"");
    /// assert_eq!(RefName::head().describe(), "HEAD");
    /// ```
    pub fn describe(&self) -> String {
        match (self.branch_name(), self.tag_name()) {
            (Some(branch), _) => format!("branch {branch:?}"),
            (_, Some(tag)) => format!("tag {tag:?}"),
            _ if *self == Self::head() => self.0.clone(),
            _ => format!("ref {:?}", self.0),
        }
    }

    /// Returns whether this is the record of a tool's effect, under `effects/`. What a tool did
    /// cannot be undone by moving a ref, so `undo` and `redo` leave these refs as they are.
    pub fn is_effect(&self) -> bool {
        self.0.starts_with("effects/")
    }

    /// Returns the name of the document that goes where this ref goes: what an import keeps of a
    /// branch, the signature of a tag.
    ///
    /// ```
    /// use tract_core::RefName;
    /// let tag = RefName::tag("v1").unwrap();
    /// let signature = RefName::new("signatures/v1").unwrap();
    /// assert_eq!(tag.companion(), Some(signature.clone()));
    /// assert_eq!(signature.companion_of(), Some(tag));
    /// ```
    pub fn companion(&self) -> Option<Self> {
        let import = self.branch_name().map(|name| format!("imports/{name}"));
        let signature = || self.tag_name().map(|name| format!("signatures/{name}"));
        Self::new(import.or_else(signature)?).ok()
    }

    /// Returns the ref that this document goes with; `None` when it is none of these.
    pub fn companion_of(&self) -> Option<Self> {
        let branch = self.0.strip_prefix("imports/").map(|name| format!("heads/{name}"));
        let tag = || self.0.strip_prefix("signatures/").map(|name| format!("tags/{name}"));
        Self::new(branch.or_else(tag)?).ok()
    }

    /// Returns whether this is history: `HEAD`, a branch, a tag, the document of an import, or the
    /// signature of a tag.
    ///
    /// Every other ref says what may run or what was decided (approvals of tools, policies, pending
    /// operations, decisions, claims of effects), so it is not taken from a foreign stream unless
    /// the user asks for it. A kind of ref that is not known here counts as one of these.
    pub fn is_history(&self) -> bool {
        let spaces = ["heads/", "tags/", "imports/", "signatures/"];
        self.0 == "HEAD" || spaces.iter().any(|space| self.0.starts_with(space))
    }

    /// Turns any text into something that is valid as the last part of a ref name, so that
    /// different texts get different names: [`sanitize`](Self::sanitize) and, where that changed
    /// the text, `-` and eight digits of the text's SHA-256.
    ///
    /// ```
    /// use tract_core::RefName;
    /// assert_eq!(RefName::distinct("tau-airline-2"), "tau-airline-2");
    /// assert_eq!(RefName::distinct("tau/airline #2"), "tau-airline-2-f7b67c32");
    /// ```
    pub fn distinct(text: &str) -> String {
        let name = Self::sanitize(text);
        // What is refused as a branch although nothing was cleaned gets a name that is not.
        if name == text && name != "HEAD" && Self::branch(&name).is_ok() {
            name
        } else {
            Self::with_digits(text)
        }
    }

    /// Returns the name that [`distinct`](Self::distinct) gives to a text that needs cleaning,
    /// whether this one does or not.
    pub fn with_digits(text: &str) -> String {
        let digest = Sha256::digest(text.as_bytes());
        let digits: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digits}", Self::sanitize(text))
    }

    /// Turns any text into something that is valid as the last part of a ref name: every run of
    /// characters that are not letters, digits, `.`, `_` or `-` becomes one `-`.
    ///
    /// ```
    /// assert_eq!(tract_core::RefName::sanitize("tau/airline #2"), "tau-airline-2");
    /// ```
    pub fn sanitize(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for character in text.chars().take(200) {
            match character.is_alphanumeric() || matches!(character, '.' | '_') {
                true => {
                    // Two dots in a row are refused in names.
                    if !(character == '.' && (out.ends_with('.') || out.is_empty())) {
                        out.push(character);
                    }
                }
                false if out.ends_with('-') || out.is_empty() => {}
                false => out.push('-'),
            }
        }
        let out = out.trim_end_matches(['-', '.']).trim_start_matches(['-', '.']);
        let out = out.strip_suffix(".lock").unwrap_or(out);
        match out {
            "" => "unnamed".to_owned(),
            // No branch can have this name.
            "HEAD" => "HEAD-1".to_owned(),
            _ => out.to_owned(),
        }
    }
}

/// Returns whether a character has no width, or changes the direction of what follows.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn broken_rule(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > 1000 {
        return Some("it is longer than 1,000 bytes");
    }
    if name.contains("..") {
        return Some("it contains \"..\"");
    }
    if name.contains("@{") {
        return Some("it contains \"@{\"");
    }
    let forbidden = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '~' | '^' | ':' | '?' | '*' | '[' | ']' | '\\' | '#')
            || is_invisible(c)
    };
    if name.chars().any(forbidden) {
        return Some("it holds white space, an invisible character, or one of ~ ^ : ? * [ ] \\ #");
    }
    name.split('/').find_map(|part| {
        if part.is_empty() {
            Some("a part of it is empty")
        } else if part.starts_with(['.', '-']) {
            Some("a part of it begins with \".\" or \"-\"")
        } else if part.ends_with('.') || part.ends_with(".lock") {
            Some("a part of it ends with \".\" or \".lock\"")
        } else {
            None
        }
    })
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RefName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::new(text)
    }
}

/// The target of a ref.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefTarget {
    /// A commit: branches and tags.
    Commit(CommitId),
    /// A blob: documents.
    Blob(BlobId),
    /// Another ref: `HEAD`.
    Ref(RefName),
}

impl RefTarget {
    /// Returns the commit, when it is one.
    pub fn commit(&self) -> Option<CommitId> {
        match self {
            Self::Commit(id) => Some(*id),
            Self::Blob(_) | Self::Ref(_) => None,
        }
    }

    /// Returns the blob, when it is one.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Self::Blob(id) => Some(*id),
            Self::Commit(_) | Self::Ref(_) => None,
        }
    }

    /// Returns the object, when it is one.
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Commit(id) => Some(ObjectId::Commit(*id)),
            Self::Blob(id) => Some(ObjectId::Blob(*id)),
            Self::Ref(_) => None,
        }
    }

    /// Writes the target as bytes. Stores keep them: the tags are part of their formats.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, bytes): (u8, &[u8]) = match self {
            Self::Commit(id) => (1, id.as_bytes()),
            Self::Blob(id) => (2, id.as_bytes()),
            Self::Ref(name) => (3, name.as_str().as_bytes()),
        };
        [&[tag], bytes].concat()
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for any other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match tag {
            1 => rest.try_into().ok().map(|id| Self::Commit(CommitId::from_bytes(id))),
            2 => rest.try_into().ok().map(|id| Self::Blob(BlobId::from_bytes(id))),
            3 => RefName::new(std::str::from_utf8(rest).ok()?).ok().map(Self::Ref),
            _ => None,
        }
    }
}

impl fmt::Display for RefTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(id) => write!(f, "commit {id}"),
            Self::Blob(id) => write!(f, "blob {id}"),
            Self::Ref(name) => write!(f, "ref {name}"),
        }
    }
}

/// The expected value of a ref in a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything, or nothing.
    Any,
    /// There must be no such ref.
    Absent,
    /// It must point here.
    Is(RefTarget),
}

impl Expect {
    /// Returns whether what a ref points to is what is expected; `None` when there is no such ref.
    pub fn holds(&self, found: Option<&RefTarget>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Is(target) => found == Some(target),
        }
    }
}

/// Moves, makes or deletes one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// The ref.
    pub name: RefName,
    /// The expected value.
    pub expect: Expect,
    /// The new value; `None` deletes the ref.
    pub to: Option<RefTarget>,
}

/// A ref cannot point there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot point to {to}: {why}")]
pub struct BadTarget {
    /// The ref.
    pub name: RefName,
    /// Where it was to point.
    pub to: RefTarget,
    /// The rule that this breaks.
    pub why: &'static str,
}

impl RefEdit {
    /// Returns the conflict where the ref is not as expected. An edit that changes nothing has none,
    /// regardless of what it expects.
    pub fn conflict(&self, found: Option<&RefTarget>) -> Option<Conflict> {
        let changes = found != self.to.as_ref();
        (changes && !self.expect.holds(found)).then(|| Conflict {
            name: self.name.clone(),
            expected: self.expect.clone(),
            found: found.cloned(),
        })
    }

    /// Checks where the ref is to point: branches and tags to commits, `HEAD` to a branch, every
    /// other ref to an object or to a branch. So no chain of names is longer than one step, and
    /// none leads in a circle.
    ///
    /// # Errors
    /// [`BadTarget`] naming the rule.
    pub fn check(&self) -> Result<(), BadTarget> {
        let Some(to) = &self.to else { return Ok(()) };
        let name = &self.name;
        let holds_commits = name.branch_name().is_some()
            || name.tag_name().is_some()
            || name.remote_branch_name().is_some();
        let why = match to {
            RefTarget::Ref(_) | RefTarget::Blob(_) if holds_commits => {
                "a branch or a tag points to a commit"
            }
            RefTarget::Ref(to) if to.branch_name().is_none() => "a symbolic ref leads to a branch",
            RefTarget::Commit(_) | RefTarget::Blob(_) if self.name.as_str() == "HEAD" => {
                "HEAD leads to a branch"
            }
            RefTarget::Commit(_) | RefTarget::Blob(_) | RefTarget::Ref(_) => return Ok(()),
        };
        Err(BadTarget { name: self.name.clone(), to: to.clone(), why })
    }
}

/// A ref was not as expected; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The ref.
    pub name: RefName,
    /// The expected value.
    pub expected: Expect,
    /// The value that was found.
    pub found: Option<RefTarget>,
}

/// The note of a batch in the ref log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNote {
    /// Shared by the moves of one command.
    pub operation: OperationId,
    /// The verb, such as `commit` or `undo`.
    pub what: String,
    /// Who did it.
    pub who: String,
    /// The reason, where one was given.
    pub why: Option<String>,
    /// The entry that it reverts.
    pub undoes: Option<u64>,
    /// The time in microseconds since 1970, UTC.
    pub at: i64,
}

/// One move of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number in this repository of this store; later moves have higher numbers.
    pub seq: u64,
    /// The ref.
    pub name: RefName,
    /// The old value.
    pub before: Option<RefTarget>,
    /// The new value.
    pub after: Option<RefTarget>,
    /// The write that moved it.
    pub batch: BatchId,
    /// The note of that batch.
    pub note: LogNote,
}
