//! Refs: names that point to objects, and the log of their moves.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use crate::ObjectId;
use crate::id::{BadName, BatchId, BlobId, CommitId, OperationId, is_invisible};

/// The name of a ref: `HEAD`, `heads/<branch>`, `tags/<tag>`, `pending/<id>`, `config/<name>`,
/// `imports/<branch>`, `signatures/<tag>`, `pins/<name>`, `decisions/<id>`, `effects/<message>`,
/// `remotes/<remote>/<branch>`, `leases/<writer>`, `indexes/search`.
///
/// Parts are separated by `/`. A part is not empty, does not start with `.` or `-`, and does not
/// end with `.` or `.lock`. A name does not contain `..`, white space, control or
/// bidirectional-format characters, or any of `~ ^ : ? * [ ] \ # @{`. Maximum length 1,000 bytes;
/// 850 for the name of a new branch or tag ([`check_new`](Self::check_new)).
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

/// Maximum length, in bytes, of the name of a new branch or tag, and of a new remote. Together with
/// `remotes/` and `/` they fit into the 1,000 bytes of a full name.
const MAX_NAME: usize = 850;
const MAX_REMOTE: usize = 140;

/// Prefix of leases.
const LEASES: &str = "leases/";

/// The ref that every write of the search index moves.
const SEARCH_INDEX: &str = "indexes/search";

/// Checks that no character of a new name has a meaning for shells.
fn check_shell_safe(what: &'static str, name: &str) -> Result<(), BadName> {
    let is_special = |c| {
        matches!(c, ';' | '&' | '|' | '<' | '>' | '$' | '`' | '\'' | '"' | '!')
            || matches!(c, '(' | ')' | '{' | '}' | '\u{2018}'..='\u{201f}')
    };
    match name.contains(is_special) {
        true => Err(BadName::new(what, name, "it contains a character that shells interpret")),
        false => Ok(()),
    }
}

impl RefName {
    /// Validates a full name.
    ///
    /// # Errors
    /// [`BadName`] if it breaks a rule.
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

    /// Returns the ref name of a branch. The name is normalized to NFC, the composed form, so that
    /// names which look alike are the same.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// assert_eq!(RefName::branch("cafe\u{301}").unwrap(), RefName::branch("caf\u{e9}").unwrap());
    /// ```
    ///
    /// # Errors
    /// [`BadName`] if it breaks a rule, is `HEAD`, or already starts with `heads/`.
    pub fn branch(name: &str) -> Result<Self, BadName> {
        Self::under("heads/", "branch name", name)
    }

    /// Returns the ref name of a tag, in NFC like that of a branch.
    ///
    /// # Errors
    /// [`BadName`] if it breaks a rule, is `HEAD`, or already starts with `tags/`.
    pub fn tag(name: &str) -> Result<Self, BadName> {
        Self::under("tags/", "tag name", name)
    }

    /// Returns the name of the remote-tracking ref of a branch: the head last seen in another
    /// store.
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
    /// [`BadName`] if a name breaks a rule, or the name of the remote contains a `/`.
    pub fn remote_branch(remote: &str, branch: &str) -> Result<Self, BadName> {
        if remote.contains('/') {
            return Err(BadName::new("remote name", remote, "a remote's name has no \"/\""));
        }
        Self::branch(branch)?;
        Self::new(format!("remotes/{remote}/{branch}"))
    }

    /// Checks the length of the name of a new branch or tag, so that the names derived from it fit
    /// too, such as `remotes/<remote>/<branch>` in other stores. Longer names from earlier versions
    /// remain valid.
    ///
    /// # Errors
    /// [`BadName`] if it is longer than 850 bytes.
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
    /// [`BadName`] if it contains a `/` or a character that shells interpret, breaks a rule, or is
    /// longer than 140 bytes.
    pub fn check_new_remote(remote: &str) -> Result<(), BadName> {
        if remote.len() > MAX_REMOTE {
            return Err(BadName::new("remote name", remote, "it is longer than 140 bytes"));
        }
        check_shell_safe("remote name", remote)?;
        Self::remote_branch(remote, "main").map(drop)
    }

    /// Adds the prefix of a kind of ref to a name. Rejects `HEAD` and names that already have the
    /// prefix.
    fn under(folder: &'static str, what: &'static str, name: &str) -> Result<Self, BadName> {
        let why = match name {
            "HEAD" => "HEAD names the branch that is checked out",
            _ if name.starts_with(folder) => "it has its folder already: leave that out",
            _ if name.is_ascii() => return Self::new(format!("{folder}{name}")),
            _ => return Self::new(folder.chars().chain(name.nfc()).collect::<String>()),
        };
        Err(BadName::new(what, name, why))
    }

    /// Checks the name of a ref that is created here. Names from other stores may break this rule;
    /// they are kept, and quoted where a shell reads them.
    ///
    /// ```
    /// # use tract_core::RefName;
    /// assert!(RefName::branch("fix/login").unwrap().check_shell_safe().is_ok());
    /// assert!(RefName::branch("x;touch").unwrap().check_shell_safe().is_err());
    /// ```
    ///
    /// # Errors
    /// [`BadName`] if it contains a character that shells interpret.
    pub fn check_shell_safe(&self) -> Result<(), BadName> {
        let what = if self.tag_name().is_some() { "tag" } else { "branch" };
        let name = self.branch_name().or(self.tag_name()).unwrap_or(&self.0);
        check_shell_safe(what, name)
    }

    /// Returns the full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the branch name if this is a branch.
    pub fn branch_name(&self) -> Option<&str> {
        self.0.strip_prefix("heads/")
    }

    /// Returns the tag name if this is a tag.
    pub fn tag_name(&self) -> Option<&str> {
        self.0.strip_prefix("tags/")
    }

    /// Returns the remote and the branch if this is a remote-tracking ref.
    pub fn remote_branch_name(&self) -> Option<(&str, &str)> {
        self.0.strip_prefix("remotes/")?.split_once('/')
    }

    /// Returns whether this ref describes the relation to other stores: their URLs, under
    /// `config/remotes`, and their last seen branches, under `remotes/`. A URL may contain a
    /// password, so these refs are excluded from copies, exports and bundles. So are refs that
    /// concern this repository only: erasures pending confirmation, and the newest erasure.
    pub fn is_remote_state(&self) -> bool {
        self.0 == "config/remotes"
            || self.0.starts_with("remotes/")
            || self.pending_erasure_blob().is_some()
            || self.0 == crate::store::NEWEST_ERASURE
    }

    /// Returns the name of a lease: a document that protects objects stored ahead of the ref that
    /// will point to them.
    pub fn lease(id: &str, number: usize) -> Self {
        let name = format!("{LEASES}{}-{number}", Self::sanitize(id));
        Self::new(name).expect("letters and digits are valid in a name")
    }

    /// Returns the prefix of all leases.
    pub const fn leases() -> &'static str {
        LEASES
    }

    /// Returns whether this is a lease, which protects the unfinished work of a writer of this
    /// store.
    pub fn is_lease(&self) -> bool {
        self.0.starts_with(LEASES)
    }

    /// Returns the name of the ref that every write of the search index moves. A write requires the
    /// ref to be unchanged since the index was read, so clients do not replace each other's rows.
    pub fn search_index() -> Self {
        Self::new(SEARCH_INDEX).expect("a valid name")
    }

    /// Returns whether this is the ref that every write of the search index moves.
    pub fn is_search_index(&self) -> bool {
        self.0 == SEARCH_INDEX
    }

    /// Returns whether this ref concerns this store only: a [lease](Self::is_lease), the [position
    /// of the search index](Self::search_index), or [remote state](Self::is_remote_state). Local refs
    /// are excluded from copies, exports and bundles.
    pub fn is_local(&self) -> bool {
        self.is_lease() || self.is_search_index() || self.is_remote_state()
    }

    /// Returns the name for messages to people: `branch "main"`, `tag "v1"`, `HEAD`.
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

    /// Returns whether this is the record of a tool's effect, under `effects/`. Moving a ref cannot
    /// undo an effect, so `undo` and `redo` leave these refs unchanged.
    pub fn is_effect(&self) -> bool {
        self.0.starts_with("effects/")
    }

    /// Returns the name of the document that moves with this ref: the import state of a branch, or
    /// the signature of a tag.
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

    /// Returns the ref that this document belongs to; `None` if this is not such a document.
    pub fn companion_of(&self) -> Option<Self> {
        let branch = self.0.strip_prefix("imports/").map(|name| format!("heads/{name}"));
        let tag = || self.0.strip_prefix("signatures/").map(|name| format!("tags/{name}"));
        Self::new(branch.or_else(tag)?).ok()
    }

    /// Returns whether this ref is history: `HEAD`, a branch, a tag, the document of an import, or
    /// the signature of a tag.
    ///
    /// All other refs contain permissions and decisions (approvals of tools, policies, pending
    /// operations, decisions, claims of effects). They are not imported from a foreign stream
    /// unless the user requests it. Unknown kinds of refs count as such.
    pub fn is_history(&self) -> bool {
        let spaces = ["heads/", "tags/", "imports/", "signatures/"];
        self.0 == "HEAD" || spaces.iter().any(|space| self.0.starts_with(space))
    }

    /// Converts any text to a valid last part of a ref name, such that different texts get
    /// different names: [`sanitize`](Self::sanitize), and if that changed the text, `-` and eight
    /// digits of the text's SHA-256.
    ///
    /// ```
    /// use tract_core::RefName;
    /// assert_eq!(RefName::distinct("tau-airline-2"), "tau-airline-2");
    /// assert_eq!(RefName::distinct("tau/airline #2"), "tau-airline-2-f7b67c32");
    /// ```
    pub fn distinct(text: &str) -> String {
        let name = Self::sanitize(text);
        // A text may be rejected as a branch name although `sanitize` did not change it.
        if name == text && name != "HEAD" && Self::branch(&name).is_ok() {
            name
        } else {
            Self::with_digits(text)
        }
    }

    /// Returns the name that [`distinct`](Self::distinct) gives to a text that `sanitize` changes,
    /// even if it does not.
    pub fn with_digits(text: &str) -> String {
        let digest = Sha256::digest(text.as_bytes());
        let digits: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digits}", Self::sanitize(text))
    }

    /// Converts any text to a valid last part of a ref name: every run of characters other than
    /// letters, digits, `.`, `_` and `-` becomes one `-`. Uses at most 200 characters.
    ///
    /// ```
    /// assert_eq!(tract_core::RefName::sanitize("tau/airline #2"), "tau-airline-2");
    /// ```
    pub fn sanitize(text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for character in text.chars().take(200) {
            match character.is_alphanumeric() || matches!(character, '.' | '_') {
                true => {
                    // Names must not contain two adjacent dots.
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
            // `HEAD` is reserved: it is not valid as the name of a branch.
            "HEAD" => "HEAD-1".to_owned(),
            _ => out.to_owned(),
        }
    }
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
    /// A commit, for branches and tags.
    Commit(CommitId),
    /// A blob, for documents.
    Blob(BlobId),
    /// Another ref, for `HEAD`.
    Ref(RefName),
}

impl RefTarget {
    /// Returns the commit if the target is one.
    pub fn commit(&self) -> Option<CommitId> {
        match self {
            Self::Commit(id) => Some(*id),
            Self::Blob(_) | Self::Ref(_) => None,
        }
    }

    /// Returns the blob if the target is one.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Self::Blob(id) => Some(*id),
            Self::Commit(_) | Self::Ref(_) => None,
        }
    }

    /// Returns the object if the target is one.
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Commit(id) => Some(ObjectId::Commit(*id)),
            Self::Blob(id) => Some(ObjectId::Blob(*id)),
            Self::Ref(_) => None,
        }
    }

    /// Encodes the target. The tags are part of the stores' formats.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, bytes): (u8, &[u8]) = match self {
            Self::Commit(id) => (1, id.as_bytes()),
            Self::Blob(id) => (2, id.as_bytes()),
            Self::Ref(name) => (3, name.as_str().as_bytes()),
        };
        [&[tag], bytes].concat()
    }

    /// Decodes bytes written by [`encode`](Self::encode); `None` for any others.
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
    /// Any value, or no ref.
    Any,
    /// The ref must not exist.
    Absent,
    /// The ref must point to this target.
    Is(RefTarget),
}

impl Expect {
    /// Returns whether the current target meets the expectation; `None` if the ref does not exist.
    pub fn holds(&self, found: Option<&RefTarget>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Is(target) => found == Some(target),
        }
    }
}

/// A move, creation or deletion of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// The ref.
    pub name: RefName,
    /// The expected value.
    pub expect: Expect,
    /// The new value; `None` deletes the ref.
    pub to: Option<RefTarget>,
}

/// Error of a ref with a target that is not valid for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot point to {to}: {why}")]
pub struct BadTarget {
    /// The ref.
    pub name: RefName,
    /// The rejected target.
    pub to: RefTarget,
    /// The rule.
    pub why: &'static str,
}

impl RefEdit {
    /// Returns the conflict if the ref does not have the expected value. An edit that changes
    /// nothing never conflicts, regardless of its `expect`.
    pub fn conflict(&self, found: Option<&RefTarget>) -> Option<Conflict> {
        let changes = found != self.to.as_ref();
        (changes && !self.expect.holds(found)).then(|| Conflict {
            name: self.name.clone(),
            expected: self.expect.clone(),
            found: found.cloned(),
        })
    }

    /// Checks the new target: a commit for branches and tags, a branch for `HEAD`, an object or a
    /// branch for all other refs. Symbolic refs therefore have a length of at most one, and no
    /// cycles.
    ///
    /// # Errors
    /// [`BadTarget`] with the rule.
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

/// The error of a ref without the expected value. Nothing was written.
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
    /// The id shared by all moves of one command.
    pub operation: OperationId,
    /// The verb, such as `commit` or `undo`.
    pub what: String,
    /// The author.
    pub who: String,
    /// The reason, if given.
    pub why: Option<String>,
    /// The entry that it reverts.
    pub undoes: Option<u64>,
    /// The time in microseconds since 1970, UTC.
    pub at: i64,
}

/// One move of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The number of the entry, increasing within the repository of this store.
    pub seq: u64,
    /// The ref.
    pub name: RefName,
    /// The old value.
    pub before: Option<RefTarget>,
    /// The new value.
    pub after: Option<RefTarget>,
    /// The batch that moved the ref.
    pub batch: BatchId,
    /// The note of that batch.
    pub note: LogNote,
}
