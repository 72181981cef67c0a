//! Paths that stay below the root of a filesystem.

use std::fmt;

use super::FsError;

/// A path relative to the root of a filesystem, in normal form: no `.`, no `..`, no doubled or
/// trailing slash. The root itself is empty and shown as `.`.
///
/// ```
/// use tract_tools::fs::FsPath;
/// assert_eq!(FsPath::parse("./src//lib/../main.rs")?.as_str(), "src/main.rs");
/// assert_eq!(FsPath::parse(".")?, FsPath::root());
/// for outside in ["../secret", "a/../../b", "/etc/passwd", "C:\\x", "a\0b", "\\\\host\\share"] {
///     assert!(FsPath::parse(outside).is_err(), "{outside:?}");
/// }
/// # Ok::<(), tract_tools::fs::FsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsPath(String);

/// Maximum length of a path in bytes.
const LONGEST: usize = 4096;

impl FsPath {
    /// Returns the root.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path and normalizes it.
    ///
    /// # Errors
    /// [`FsError::Path`] if it is absolute, leads out of the root, or is not portable: backslashes,
    /// control characters, or a colon in its first step.
    pub fn parse(text: &str) -> Result<Self, FsError> {
        let refuse = |why: &'static str| FsError::Path { path: text.to_owned(), why };
        if text.len() > LONGEST {
            let shown: String = text.chars().take(80).collect();
            return Err(FsError::Path { path: shown, why: "longer than 4096 bytes" });
        }
        if text.starts_with('/') || text.starts_with('~') {
            return Err(refuse("absolute"));
        }
        if text.contains('\\') {
            return Err(refuse("written with backslashes"));
        }
        if text.chars().any(char::is_control) {
            return Err(refuse("one with control characters"));
        }
        if text.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(refuse("one with a drive or a scheme"));
        }
        let mut steps: Vec<&str> = Vec::new();
        for step in text.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    steps.pop().ok_or_else(|| refuse("one that leads out of the root"))?;
                }
                step => steps.push(step),
            }
        }
        Ok(Self(steps.join("/")))
    }

    /// Returns the text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the last step; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.0.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// Iterates over the steps.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|step| !step.is_empty())
    }

    /// Returns the parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        self.name()?;
        Some(Self(self.0.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned()))
    }

    /// Returns whether it is a directory or lies within it.
    pub fn is_within(&self, directory: &Self) -> bool {
        let rest = self.0.strip_prefix(&directory.0);
        rest.is_some_and(|rest| directory.is_root() || rest.is_empty() || rest.starts_with('/'))
    }

    /// Checks the size of a file at this path against a limit.
    pub(super) fn check_size(&self, found: u64, limit: u64) -> Result<(), FsError> {
        if found <= limit {
            return Ok(());
        }
        Err(FsError::TooLarge { path: self.to_string(), limit, found })
    }

    pub(super) fn join(&self, name: &str) -> Self {
        if self.is_root() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }
}

impl fmt::Display for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}
