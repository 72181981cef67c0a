//! Tools with which a model reads and writes files.

use std::borrow::Cow;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tract_core::{Tool, ToolContext, ToolError, ToolResult, ToolTraits};

use super::{Entry, FsError, FsPath};
use crate::dispatch::CallContext;
use crate::registry::RegistryBuilder;
use crate::typed::{Answer, Args};

/// Adds `fs_read`, `fs_list`, `fs_write`, `fs_edit` and `fs_remove`, which use the filesystem that
/// is bound in the turn's resources.
///
/// ```
/// use tract_tools::{Registry, fs::add_fs_tools};
/// let registry = add_fs_tools(Registry::builder()).build()?;
/// let names: Vec<&str> = registry.iter().map(|tool| tool.name()).collect();
/// assert_eq!(names, ["fs_read", "fs_list", "fs_write", "fs_edit", "fs_remove"]);
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
pub fn add_fs_tools(registry: RegistryBuilder) -> RegistryBuilder {
    registry.tool(FsRead).tool(FsList).tool(FsWrite).tool(FsEdit).tool(FsRemove)
}

/// Maximum number of lines that `fs_read` returns.
const MOST_LINES: usize = 2_000;
/// Maximum number of bytes that `fs_read` returns.
const MOST_BYTES: usize = 256 << 10;
/// Maximum number of entries that `fs_list` returns.
const MOST_ENTRIES: usize = 1_000;

/// The arguments of [`FsRead`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Reading {
    /// The file, relative to the root.
    pub path: String,
    /// The first line to read, from 1; the beginning unless said.
    pub first_line: Option<u32>,
    /// How many lines to read at most, from 1; 2000 unless said.
    pub lines: Option<u32>,
}

/// Text of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileText {
    /// The file.
    pub path: String,
    /// The lines that were read.
    pub text: String,
    /// Number of the first of them, from 1.
    pub first_line: usize,
    /// Number of lines in the file.
    pub lines: usize,
    /// Whether the file continues after them.
    pub more: bool,
}

/// `fs_read`: reads text.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsRead;

/// Returns the content of a file as text.
fn text_of(path: &FsPath, bytes: Vec<u8>) -> Result<String, ToolError> {
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        ToolError::other(format!("expected text in {path}, found other bytes from {place} on"))
    })
}

#[async_trait]
impl Tool for FsRead {
    type Params = Args<Reading>;
    type Output = FileText;

    fn name(&self) -> Cow<'_, str> {
        "fs_read".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Reads a text file, all of it or some of its lines.".into()
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::READ_ONLY
    }

    fn render(&self, file: &FileText) -> Option<String> {
        // The lines are joined, so `lines()` would not count an empty one at the end.
        let last = file.first_line + file.text.matches('\n').count();
        Some(if file.more || file.first_line > 1 {
            let (first, lines) = (file.first_line, file.lines);
            format!("{}\n[lines {first} to {last} of {lines}]", file.text)
        } else {
            file.text.clone()
        })
    }

    async fn call(&self, Args(wanted): Args<Reading>, context: &ToolContext) -> Answer<FileText> {
        let path = FsPath::parse(&wanted.path)?;
        let whole = text_of(&path, context.filesystem()?.read(&path)?)?;
        let lines = whole.lines().count();
        let first = usize::try_from(wanted.first_line.unwrap_or(1)).unwrap_or(usize::MAX).max(1);
        let most = wanted.lines.map_or(MOST_LINES, |lines| lines as usize).clamp(1, MOST_LINES);
        if first > lines.max(1) {
            let message = format!("expected a line of the {lines} that {path} has, found {first}");
            return Err(ToolError::validation(message).at("first_line"));
        }
        if first == 1 && lines <= most && whole.len() <= MOST_BYTES {
            let path = path.to_string();
            let file = FileText { path, text: whole, first_line: 1, lines, more: false };
            return Ok(ToolResult::ok(file));
        }
        let mut text = String::new();
        let mut taken = 0;
        for line in whole.lines().skip(first - 1).take(most) {
            if text.len() + line.len() > MOST_BYTES {
                if taken == 0 {
                    let whole = |cut: &usize| line.is_char_boundary(*cut);
                    let cut = (0..=MOST_BYTES).rev().find(whole).unwrap_or(0);
                    text.push_str(line.get(..cut).unwrap_or_default());
                    text.push_str(" [the rest of the line is left out]");
                    taken = 1;
                }
                break;
            }
            if taken > 0 {
                text.push('\n');
            }
            text.push_str(line);
            taken += 1;
        }
        let more = first - 1 + taken < lines;
        let path = path.to_string();
        Ok(ToolResult::ok(FileText { path, text, first_line: first, lines, more }))
    }
}

/// The arguments of [`FsList`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Listing {
    /// The directory, relative to the root; the root unless said.
    pub path: Option<String>,
}

/// The entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entries {
    /// Files and directories, sorted by name.
    pub entries: Vec<Entry>,
    /// Number of entries that were left out.
    pub left_out: usize,
}

/// `fs_list`: lists a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsList;

#[async_trait]
impl Tool for FsList {
    type Params = Args<Listing>;
    type Output = Entries;

    fn name(&self) -> Cow<'_, str> {
        "fs_list".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Lists the files and directories of a directory, with the sizes of files in bytes.".into()
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::READ_ONLY
    }

    fn render(&self, found: &Entries) -> Option<String> {
        let line = |entry: &Entry| {
            if entry.is_directory {
                format!("{}/", entry.path)
            } else {
                format!("{} {}", entry.path, entry.size_bytes)
            }
        };
        let mut lines: Vec<String> = found.entries.iter().map(line).collect();
        if found.left_out > 0 {
            lines.push(format!("[{} more are left out]", found.left_out));
        }
        Some(if lines.is_empty() { "[empty]".to_owned() } else { lines.join("\n") })
    }

    async fn call(&self, Args(wanted): Args<Listing>, context: &ToolContext) -> Answer<Entries> {
        let path = FsPath::parse(wanted.path.as_deref().unwrap_or("."))?;
        let mut entries = context.filesystem()?.list(&path)?;
        let left_out = entries.len().saturating_sub(MOST_ENTRIES);
        entries.truncate(MOST_ENTRIES);
        Ok(ToolResult::ok(Entries { entries, left_out }))
    }
}

/// The arguments of [`FsWrite`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Writing {
    /// The file, relative to the root.
    pub path: String,
    /// All that the file is to hold.
    pub text: String,
}

/// `fs_write`: writes a whole file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsWrite;

#[async_trait]
impl Tool for FsWrite {
    type Params = Args<Writing>;
    type Output = Entry;

    fn name(&self) -> Cow<'_, str> {
        "fs_write".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Writes a text file and the directories that it is in. What the file held is replaced."
            .into()
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: true, ..ToolTraits::default() }
    }

    fn render(&self, written: &Entry) -> Option<String> {
        Some(format!("wrote {} bytes to {}", written.size_bytes, written.path))
    }

    async fn call(&self, Args(wanted): Args<Writing>, context: &ToolContext) -> Answer<Entry> {
        let path = FsPath::parse(&wanted.path)?;
        context.filesystem()?.write(&path, wanted.text.as_bytes())?;
        let size_bytes = wanted.text.len() as u64;
        Ok(ToolResult::ok(Entry { path: path.to_string(), is_directory: false, size_bytes }))
    }
}

/// The arguments of [`FsEdit`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Editing {
    /// The file, relative to the root.
    pub path: String,
    /// The text to replace, exactly as it stands in the file.
    pub find: String,
    /// The text to put in its place.
    pub replace: String,
    /// Whether to replace it everywhere; otherwise it has to stand there once.
    pub everywhere: Option<bool>,
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EditReport {
    /// The file.
    pub path: String,
    /// Number of places that were changed.
    pub places: usize,
}

/// `fs_edit`: replaces text in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsEdit;

#[async_trait]
impl Tool for FsEdit {
    type Params = Args<Editing>;
    type Output = EditReport;

    fn name(&self) -> Cow<'_, str> {
        "fs_edit".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Replaces a piece of text in a file. The piece has to stand there exactly once, unless all \
         of them are to be replaced."
            .into()
    }

    fn render(&self, edited: &EditReport) -> Option<String> {
        Some(match edited.places {
            1 => format!("changed 1 place in {}", edited.path),
            places => format!("changed {places} places in {}", edited.path),
        })
    }

    async fn call(&self, Args(wanted): Args<Editing>, context: &ToolContext) -> Answer<EditReport> {
        let path = FsPath::parse(&wanted.path)?;
        let files = context.filesystem()?;
        let text = text_of(&path, files.read(&path)?)?;
        let unfit = |message: String| ToolError::validation(message).at("find");
        if wanted.find.is_empty() {
            return Err(unfit("expected text to find, found none".to_owned()));
        }
        let places = text.matches(&wanted.find).count();
        if places == 0 {
            return Err(unfit(format!("expected the text in {path}, found it nowhere"))
                .note("read the file again and copy the text exactly"));
        }
        if places > 1 && !wanted.everywhere.unwrap_or(false) {
            return Err(unfit(format!(
                "expected the text once in {path}, found it {places} times"
            ))
            .note("take more of the lines around it, or replace it everywhere"));
        }
        // Checked before the text is built, because it may be much larger than memory.
        let (places_u64, of) = (places as u64, |text: &str| text.len() as u64);
        let kept = of(&text) - places_u64 * of(&wanted.find);
        let found = kept.saturating_add(places_u64.saturating_mul(of(&wanted.replace)));
        path.check_size(found, files.max_file_bytes())?;
        files.write(&path, text.replace(&wanted.find, &wanted.replace).as_bytes())?;
        Ok(ToolResult::ok(EditReport { path: path.to_string(), places }))
    }
}

/// The arguments of [`FsRemove`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Removing {
    /// The file or empty directory, relative to the root.
    pub path: String,
}

/// `fs_remove`: removes a file or an empty directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsRemove;

#[async_trait]
impl Tool for FsRemove {
    type Params = Args<Removing>;
    type Output = String;

    fn name(&self) -> Cow<'_, str> {
        "fs_remove".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Removes a file or an empty directory.".into()
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { destructive: true, ..ToolTraits::default() }
    }

    fn render(&self, path: &String) -> Option<String> {
        Some(format!("removed {path}"))
    }

    async fn call(&self, Args(wanted): Args<Removing>, context: &ToolContext) -> Answer<String> {
        let path = FsPath::parse(&wanted.path)?;
        if path.is_root() {
            return Err(FsError::IsDirectory { path: path.to_string() }.into());
        }
        context.filesystem()?.remove(&path)?;
        Ok(ToolResult::ok(path.to_string()))
    }
}
