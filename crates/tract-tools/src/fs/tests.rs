use std::sync::Arc;

use proptest::prelude::*;
use tract_core::{DynTool, ToolContext, block_on};

use super::*;
use crate::snapshot::SavedState;

fn path(text: &str) -> FsPath {
    FsPath::parse(text).unwrap()
}

/// Every file below the root, with what it holds; directories end in a slash.
fn all(files: &dyn Filesystem) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![FsPath::root()];
    while let Some(directory) = open.pop() {
        for entry in files.list(&directory).unwrap() {
            let at = path(&entry.path);
            if entry.is_directory {
                found.push((format!("{at}/"), Vec::new()));
                open.push(at);
            } else {
                found.push((at.to_string(), files.read(&at).unwrap()))
            }
        }
    }
    found.sort();
    found
}

#[test]
fn paths_have_one_spelling_and_stay_inside() {
    for (text, expected) in [
        ("a", "a"),
        ("./a//b/", "a/b"),
        ("a/./b/../c", "a/c"),
        ("a/..", "."),
        ("", "."),
        (" a", " a"),
    ] {
        assert_eq!(path(text).to_string(), expected, "{text:?}");
    }
    let outside = ["..", "a/../..", "/a", "//a", "~/a", "C:/a", "file:///a", "a\\b", "a\nb", "a\0"];
    for text in outside {
        assert_eq!(FsPath::parse(text).unwrap_err().code(), "bad_path", "{text:?}");
    }
    assert_eq!(FsPath::parse(&"a/".repeat(4000)).unwrap_err().code(), "bad_path");
    assert!(path("a/b").is_within(&path("a")) && path("a").is_within(&path("a")));
    assert!(!path("ab").is_within(&path("a")) && path("a").is_within(&FsPath::root()));
}

/// What both forms promise.
fn behaves(files: &dyn Filesystem) {
    assert!(files.list(&FsPath::root()).unwrap().is_empty());
    files.write(&path("src/main.rs"), b"fn main() {}").unwrap();
    files.write(&path("src/a-b"), b"1").unwrap();
    files.write(&path("src.txt"), b"2").unwrap();
    assert_eq!(files.read(&path("src/main.rs")).unwrap(), b"fn main() {}");
    let names = |directory: &str| -> Vec<String> {
        let found = files.list(&path(directory)).unwrap();
        found.into_iter().map(|entry| entry.path).collect()
    };
    assert_eq!(names("."), ["src", "src.txt"]);
    assert_eq!(names("src"), ["src/a-b", "src/main.rs"]);
    assert!(files.entry(&path("src")).unwrap().unwrap().is_directory);
    assert_eq!(files.entry(&path("src.txt")).unwrap().unwrap().size_bytes, 1);
    assert_eq!(files.entry(&path("nothing/here")).unwrap(), None);
    assert_eq!(files.entry(&path("src.txt/below")).unwrap(), None);
    let code = |done: Result<(), FsError>| done.unwrap_err().code();
    assert_eq!(code(files.read(&path("nothing")).map(drop)), "not_found");
    assert_eq!(code(files.read(&path("src")).map(drop)), "is_directory");
    assert_eq!(code(files.read(&FsPath::root()).map(drop)), "is_directory");
    assert_eq!(code(files.write(&path("src"), b"")), "is_directory");
    assert_eq!(code(files.write(&path("src.txt/below"), b"")), "not_a_directory");
    assert_eq!(code(files.list(&path("src.txt")).map(drop)), "not_a_directory");
    assert_eq!(code(files.list(&path("nothing")).map(drop)), "not_found");
    assert_eq!(code(files.remove(&path("nothing"))), "not_found");
    assert_eq!(code(files.remove(&FsPath::root())), "is_directory");

    let before = all(files);
    let saved = files.snapshot().unwrap();
    files.write(&path("src/main.rs"), b"other").unwrap();
    files.write(&path("new/deep/file"), b"3").unwrap();
    files.remove(&path("src.txt")).unwrap();
    files.write(&path("src.txt"), b"again").unwrap();
    files.remove(&path("src.txt")).unwrap();
    assert_ne!(all(files), before);
    files.restore(saved).unwrap();
    assert_eq!(all(files), before);

    // One that is dropped changes nothing, and one inside of another undoes its own part.
    drop(files.snapshot().unwrap());
    let outer = files.snapshot().unwrap();
    files.write(&path("kept"), b"1").unwrap();
    let inner = files.snapshot().unwrap();
    files.write(&path("kept"), b"2").unwrap();
    files.restore(inner).unwrap();
    assert_eq!(files.read(&path("kept")).unwrap(), b"1");
    files.restore(outer).unwrap();
    assert_eq!(all(files), before);
    assert!(files.restore(SavedState::new(7_u8)).is_err(), "the snapshot of something else");
}

#[test]
fn files_in_memory_behave() {
    behaves(&MemoryFs::new());
}

#[test]
fn files_in_a_directory_behave() {
    let directory = tempfile::tempdir().unwrap();
    behaves(&DirectoryFs::open(directory.path()).unwrap());
    assert!(DirectoryFs::open(directory.path().join("nothing")).is_err());
}

#[test]
fn no_link_leads_out_and_none_is_followed() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "key").unwrap();
    let inside = tempfile::tempdir().unwrap();
    let root = inside.path();
    std::fs::write(root.join("real"), "text").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("door")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), root.join("window")).unwrap();
    std::os::unix::fs::symlink("real", root.join("alias")).unwrap();
    let files = DirectoryFs::open(root).unwrap();
    for reading in ["door/secret", "window", "alias"] {
        assert_eq!(files.read(&path(reading)).unwrap_err().code(), "special_file", "{reading}");
    }
    for writing in ["door/new", "window", "alias"] {
        let refused = files.write(&path(writing), b"x").unwrap_err();
        assert_eq!(refused.code(), "special_file", "{writing}");
    }
    for removing in ["door/secret", "window", "door"] {
        assert_eq!(files.remove(&path(removing)).unwrap_err().code(), "special_file", "{removing}");
    }
    assert_eq!(files.list(&path("door")).unwrap_err().code(), "special_file");
    assert_eq!(files.entry(&path("window")).unwrap_err().code(), "special_file");
    let listed = files.list(&FsPath::root()).unwrap();
    assert_eq!(listed.len(), 1, "links are not listed: {listed:?}");
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "key");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1, "nothing was made there");
}

#[test]
fn a_file_keeps_its_mode_and_nothing_is_left_next_to_it() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("run.sh");
    std::fs::write(&script, "echo 1").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o750)).unwrap();
    let mut files = DirectoryFs::open(directory.path()).unwrap();
    files.limit = 64;
    let mode = || std::fs::metadata(&script).unwrap().permissions().mode() & 0o777;
    let saved = files.snapshot().unwrap();
    files.write(&path("run.sh"), b"echo 2").unwrap();
    assert_eq!(mode(), 0o750);
    files.remove(&path("run.sh")).unwrap();
    files.restore(saved).unwrap();
    assert_eq!(std::fs::read_to_string(&script).unwrap(), "echo 1");
    assert_eq!(mode(), 0o750);
    assert_eq!(files.write(&path("big"), &[0; 65]).unwrap_err().code(), "too_large");
    std::fs::write(directory.path().join("big"), [0; 65]).unwrap();
    assert_eq!(files.read(&path("big")).unwrap_err().code(), "too_large");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn undoing_leaves_alone_what_others_did() {
    let directory = tempfile::tempdir().unwrap();
    let files = DirectoryFs::open(directory.path()).unwrap();
    let saved = files.snapshot().unwrap();
    files.write(&path("made/ours"), b"1").unwrap();
    std::fs::write(directory.path().join("made/theirs"), "2").unwrap();
    files.restore(saved).unwrap();
    assert_eq!(
        all(&files),
        [("made/".to_owned(), vec![]), ("made/theirs".to_owned(), b"2".to_vec())]
    );
}

#[test]
fn leftovers_of_a_killed_process_do_not_block_writes() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let left = format!(".tract-{}-{number}", std::process::id());
        std::fs::write(directory.path().join(left), "half of a file").unwrap();
    }
    let files = DirectoryFs::open(directory.path()).unwrap();
    files.write(&path("a"), b"1").unwrap();
    assert_eq!(files.read(&path("a")).unwrap(), b"1");
}

#[test]
fn a_program_that_runs_as_another_user_loses_that_with_its_content() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let mode = || std::fs::metadata(&program).unwrap().permissions().mode() & 0o7777;
    let files = DirectoryFs::open(directory.path()).unwrap();
    for bits in [0o4755, 0o2755, 0o6755] {
        std::fs::write(&program, "1").unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(bits)).unwrap();
        let saved = files.snapshot().unwrap();
        files.write(&path("program"), b"2").unwrap();
        assert_eq!(mode(), 0o755, "{bits:o}");
        files.restore(saved).unwrap();
        assert_eq!(mode(), bits, "with its content it has it again");
    }
}

#[test]
fn files_in_memory_have_limits() {
    let mut files = MemoryFs::new();
    (files.limit, files.total_limit) = (100, 900);
    assert_eq!(files.write(&path("a"), &[0; 101]).unwrap_err().code(), "too_large");
    for name in ["a", "b", "c", "d", "e"] {
        files.write(&path(name), &[0; 100]).unwrap();
    }
    let full = files.write(&path("f"), &[0; 100]).unwrap_err();
    assert_eq!(full.code(), "full", "{full}");
    assert!(full.to_string().contains("limit 900"), "{full}");
    // What makes room is not refused.
    files.write(&path("a"), &[0; 10]).unwrap();
    files.remove(&path("b")).unwrap();
    files.write(&path("f"), &[0; 100]).unwrap();
    let many =
        (0..100).map(|n| files.write(&path(&format!("empty-{n}")), b"")).find_map(Result::err);
    assert_eq!(many.expect("empty files count as well").code(), "full");
    assert_eq!(
        MemoryFs::new().write(&path("a"), &vec![0; 17 << 20]).unwrap_err().code(),
        "too_large"
    );
}

#[test]
fn a_failed_write_does_not_return_when_a_later_one_fails() {
    let files = MemoryFs::of([("a", "before")]).unwrap();
    let (first, second) = (files.view().unwrap(), files.view().unwrap());
    let (of_first, of_second) = (first.snapshot().unwrap(), second.snapshot().unwrap());
    first.write(&path("a"), b"first").unwrap();
    second.write(&path("a"), b"second").unwrap();
    first.restore(of_first).unwrap();
    assert_eq!(files.read(&path("a")).unwrap(), b"second");
    second.restore(of_second).unwrap();
    assert_eq!(files.read(&path("a")).unwrap(), b"before");
    let another = MemoryFs::new();
    assert!(another.restore(files.snapshot().unwrap()).is_err(), "the snapshot of another");
}

#[test]
fn tools_need_a_dispatcher_and_say_so() {
    let error = block_on(FsList.run("{}", &ToolContext::new("c1"))).unwrap_err();
    assert!(error.operator_text().contains("not run by a dispatcher"), "{error:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Write(String, Vec<u8>),
    Remove(String),
    Snapshot,
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop::sample::select(vec!["a", "b", "a/x", "a/y", "a/x/z", "b/c"]);
    let step = prop_oneof![
        4 => (name.clone(), prop::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(name, bytes)| Step::Write(name.to_owned(), bytes)),
        2 => name.prop_map(|name| Step::Remove(name.to_owned())),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A directory goes back to exactly what it was, after any changes, nested snapshots included.
    #[test]
    fn a_directory_goes_back_to_what_it_was(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let files = Arc::new(DirectoryFs::open(directory.path()).unwrap());
        let mut saved = vec![(files.snapshot().unwrap(), all(&*files))];
        for step in steps {
            match step {
                // Some are refused, such as writing where a directory is.
                Step::Write(name, bytes) => drop(files.write(&path(&name), &bytes)),
                Step::Remove(name) => drop(files.remove(&path(&name))),
                Step::Snapshot => saved.push((files.snapshot().unwrap(), all(&*files))),
                Step::Restore => if let Some((snapshot, before)) = saved.pop() {
                    files.restore(snapshot).unwrap();
                    prop_assert_eq!(all(&*files), before);
                },
            }
        }
        while let Some((snapshot, before)) = saved.pop() {
            files.restore(snapshot).unwrap();
            prop_assert_eq!(all(&*files), before);
        }
    }
}

/// Who writes, which file, and what; nothing removes it.
type Turn = (u8, &'static str, Option<u8>);

/// Two views that write in turn, with a person between them; which of them is undone first.
fn writers() -> impl Strategy<Value = (Vec<Turn>, bool)> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let step = (0..5_u8, name, prop::option::of(0..3_u8));
    (prop::collection::vec(step, 1..16), any::<bool>())
}

fn content_of(files: &[(String, Vec<u8>)], name: &str) -> Option<Vec<u8>> {
    files.iter().find(|(at, _)| at == name).map(|(_, bytes)| bytes.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However two views and a person write: what the person wrote last stays, and what only views
    /// wrote is as it was when both are undone, in either order.
    #[test]
    fn views_undo_their_own_changes_alone((steps, second_first) in writers()) {
        let directory = tempfile::tempdir().unwrap();
        let on_disk = DirectoryFs::open(directory.path()).unwrap();
        let in_memory = MemoryFs::new();
        let kinds: [&dyn Filesystem; 2] = [&in_memory, &on_disk];
        for files in kinds {
            files.write(&path("a"), b"before").unwrap();
            let views = [files.view().unwrap(), files.view().unwrap()];
            let mut saved: Vec<_> =
                views.iter().map(|view| (Arc::clone(view), view.snapshot().unwrap())).collect();
            let before = all(files);
            let mut of_a_person: Vec<&str> = Vec::new();
            let mut last_by_a_person: Vec<&str> = Vec::new();
            for (n, (who, name, content)) in steps.iter().enumerate() {
                let writer: &dyn Filesystem = match *who {
                    0 | 1 => &*views[0],
                    2 | 3 => &*views[1],
                    _ => files,
                };
                let done = match content {
                    // What no other step writes, so that each content has one writer.
                    Some(byte) => writer.write(&path(name), &[*byte, u8::try_from(n).unwrap()]),
                    None => writer.remove(&path(name)),
                };
                if done.is_err() {
                    continue;
                }
                last_by_a_person.retain(|other| other != name);
                if *who == 4 {
                    of_a_person.push(name);
                    // That nothing is there does not say who removed it.
                    if content.is_some() {
                        last_by_a_person.push(name);
                    }
                }
            }
            let written = all(files);
            if second_first {
                saved.reverse();
            }
            for (view, saved) in saved {
                view.restore(saved).unwrap();
            }
            let after = all(files);
            for name in ["a", "b", "c"] {
                if !of_a_person.contains(&name) {
                    prop_assert_eq!(content_of(&after, name), content_of(&before, name));
                } else if last_by_a_person.contains(&name) {
                    prop_assert_eq!(content_of(&after, name), content_of(&written, name));
                }
            }
        }
    }
}
