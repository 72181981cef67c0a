//! The older storage of OpenCode: one file per session, message and part.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Session;
use crate::damage::{decode_noting, utf8_of};
use crate::document::{Conversation, MAX_DOCUMENT_BYTES};
use crate::object::Object;
use crate::report::AnomalyKind;

/// Returns whether an object is the file of a session.
pub(crate) fn is_one(members: &Object<'_>) -> bool {
    let id = members.text("id").unwrap_or_default();
    id.starts_with("ses_")
        && members.object("time").is_some_and(|time| time.has("created"))
        && members.has("title")
}

/// Returns whether a file is in a folder where OpenCode stores sessions.
pub(crate) fn is_session_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_named = name.is_some_and(|name| name.starts_with("ses_") && name.ends_with(".json"));
    let folder = path.ancestors().nth(2);
    is_named && folder.is_some_and(|folder| folder.file_name() == Some("session".as_ref()))
}

/// Reads a session with the messages that are stored next to it.
pub(crate) fn read(path: &Path) -> io::Result<Conversation> {
    let mut damage = Vec::new();
    let text = read_text(path, &mut damage)?;
    let Some(info) = Object::parse(&text) else {
        let what = "the file is no session of OpenCode: it is not an object in JSON";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    let mut session = Session::of_text(&text);
    session.conversation().recording.odds(0, std::mem::take(&mut damage));
    let id = info.text("id").unwrap_or_default();
    let Some((messages, parts)) = folders(path, &id) else {
        let what = "the messages of a session are in folders next to it, which are not there";
        session.conversation().recording.unreadable(0, what);
        return Ok(session.finish());
    };
    for path in files(&messages)? {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let folder = name.map(|name| parts.join(name)).filter(|folder| folder.is_dir());
        let mut texts: Vec<String> = Vec::new();
        for path in folder.map(|folder| files(&folder)).transpose()?.unwrap_or_default() {
            texts.push(read_text(&path, &mut damage)?);
        }
        let text = read_text(&path, &mut damage)?;
        session.note_damage(std::mem::take(&mut damage));
        if Object::parse(&text).is_none() {
            let what = format!("{} is not an object in JSON", path.display());
            session.conversation().recording.unreadable(0, what);
            continue;
        }
        session.message_of_texts(None, &text, &texts);
    }
    Ok(session.finish())
}

/// Returns the folders of a session's messages and of their parts.
fn folders(path: &Path, id: &str) -> Option<(PathBuf, PathBuf)> {
    let project = path.parent()?;
    let sessions = project.parent()?;
    // The first layout had everything below `session`.
    let (messages, parts) = match project.file_name() == Some("info".as_ref()) {
        true => (sessions.join("message").join(id), sessions.join("part").join(id)),
        false => (sessions.parent()?.join("message").join(id), sessions.parent()?.join("part")),
    };
    messages.is_dir().then_some((messages, parts))
}

/// Returns the files of a folder. Their names increase with time.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_text(path: &Path, damage: &mut Vec<(AnomalyKind, String)>) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes)?;
    Ok(decode_noting(&utf8_of(bytes), damage))
}
