use std::future::ready;
use std::sync::Arc;

use tract_core::block_on;
use tract_tools::dispatch::CallContext;
use tract_tools::fs::{DirectoryFs, Filesystem, FsPath, MemoryFs, add_fs_tools, bind};
use tract_tools::resource::Resources;
use tract_tools::typed::ClosureTool;
use tract_tools::{Call, Dispatcher, Registry, ToolError, ToolResult, ToolSpec, Turn};

fn turn(files: &Arc<dyn Filesystem>) -> Turn {
    let resources = Resources::builder().bind(bind(Arc::clone(files))).build().unwrap();
    Turn { resources: Some(Arc::new(resources)), ..Turn::default() }
}

fn run(files: &Arc<dyn Filesystem>, calls: &[(&str, &str)]) -> Vec<(bool, String)> {
    let turn = turn(files);
    let registry = add_fs_tools(Registry::builder()).build().unwrap();
    let made = calls.iter().enumerate();
    let made: Vec<Call> =
        made.map(|(n, (name, arguments))| Call::new(format!("c{n}"), *name, *arguments)).collect();
    let done = block_on(Dispatcher::new(Arc::new(registry)).run(made, &turn));
    assert!(done.ended.is_none(), "{:?}", done.ended);
    done.answers.into_iter().map(|answer| (!answer.is_error, answer.text)).collect()
}

#[test]
fn a_model_reads_lists_writes_edits_and_removes() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("src")).unwrap();
    std::fs::write(directory.path().join("src/main.rs"), "fn main() {\n    run();\n}\n").unwrap();
    let files: Arc<dyn Filesystem> = Arc::new(DirectoryFs::open(directory.path()).unwrap());
    let done = run(
        &files,
        &[
            ("fs_list", "{}"),
            ("fs_read", r#"{"path":"src/main.rs"}"#),
            ("fs_read", r#"{"path":"src/main.rs","first_line":2,"lines":1}"#),
            ("fs_edit", r#"{"path":"src/main.rs","find":"run","replace":"go"}"#),
            ("fs_write", r##"{"path":"docs/a/b.md","text":"# B\n"}"##),
            ("fs_list", r#"{"path":"docs/a"}"#),
            ("fs_remove", r#"{"path":"docs/a/b.md"}"#),
            ("fs_list", r#"{"path":"docs/a"}"#),
        ],
    );
    let expected = [
        "src/",
        "fn main() {\n    run();\n}\n",
        "    run();\n[lines 2 to 2 of 3]",
        "changed 1 place in src/main.rs",
        "wrote 4 bytes to docs/a/b.md",
        "docs/a/b.md 4",
        "removed docs/a/b.md",
        "[empty]",
    ];
    let expected: Vec<(bool, String)> = expected.map(|text| (true, text.to_owned())).into();
    assert_eq!(done, expected);
    let text = std::fs::read_to_string(directory.path().join("src/main.rs")).unwrap();
    assert_eq!(text, "fn main() {\n    go();\n}\n");
}

#[test]
fn an_impossible_request_is_reported_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "x y x").unwrap();
    std::fs::write(directory.path().join("raw"), [0xff, 0xfe]).unwrap();
    let files: Arc<dyn Filesystem> = Arc::new(DirectoryFs::open(directory.path()).unwrap());
    let done = run(
        &files,
        &[
            ("fs_read", r#"{"path":"/etc/passwd"}"#),
            ("fs_read", r#"{"path":"b.txt"}"#),
            ("fs_read", r#"{"path":"raw"}"#),
            ("fs_read", r#"{"path":"a.txt","first_line":9}"#),
            ("fs_edit", r#"{"path":"a.txt","find":"x","replace":"z"}"#),
            ("fs_edit", r#"{"path":"a.txt","find":"q","replace":"z"}"#),
            ("fs_edit", r#"{"path":"a.txt","find":"x","replace":"z","everywhere":true}"#),
            ("fs_remove", r#"{"path":"."}"#),
        ],
    );
    let says = [
        "path: expected a path below the root, found \"/etc/passwd\", which is absolute",
        "expected a file or directory at b.txt, found none",
        "expected text in raw, found other bytes from 0 on",
        "first_line: expected a line of the 1 that a.txt has, found 9",
        "find: expected the text once in a.txt, found it 2 times",
        "find: expected the text in a.txt, found it nowhere",
        "changed 2 places in a.txt",
        "expected a file at ., found a directory",
    ];
    for (n, ((success, text), says)) in done.iter().zip(says).enumerate() {
        assert_eq!(*success, n == 6, "{text}");
        assert!(text.contains(says), "{text:?} says {says:?}");
    }
}

#[test]
fn a_long_file_is_cut_and_says_so() {
    let text: String = (1..=3_000).map(|n| format!("line {n}\n")).collect();
    let files = tract_tools::fs::MemoryFs::of([("long", &*text)]).unwrap();
    files.write(&FsPath::parse("wide").unwrap(), "é".repeat(200_000).as_bytes()).unwrap();
    let files: Arc<dyn Filesystem> = Arc::new(files);
    let calls = [("fs_read", r#"{"path":"long"}"#), ("fs_read", r#"{"path":"wide"}"#)];
    let done = run(&files, &calls);
    assert!(done[0].1.ends_with("line 2000\n[lines 1 to 2000 of 3000]"));
    assert!(done[1].1.contains("[the rest of the line is left out]"), "{}", done[1].1.len());
}

/// Runs one call of a tool that does what a test says with the files and fails, as a turn of its
/// own.
fn fail(files: &Arc<dyn Filesystem>, deed: impl Fn(&dyn Filesystem) + Send + Sync + 'static) {
    let turn = turn(files);
    let spec = ToolSpec::new("failing", "Fails.", r#"{"type":"object"}"#);
    let failing = ClosureTool::new(spec, move |_, context| {
        deed(&*context.filesystem().unwrap());
        ready(Err::<ToolResult<()>, _>(ToolError::other("it failed")))
    });
    let registry = Registry::builder().tool(failing).build().unwrap();
    let call = Call::new("c1", "failing", "{}");
    let done = block_on(Dispatcher::new(Arc::new(registry)).run(vec![call], &turn));
    assert!(done.ended.is_none(), "{:?}", done.ended);
    assert!(done.answers[0].is_error);
}

fn write(files: &dyn Filesystem, name: &str, text: &str) {
    files.write(&FsPath::parse(name).unwrap(), text.as_bytes()).unwrap();
}

fn read(files: &dyn Filesystem, name: &str) -> Option<String> {
    let path = FsPath::parse(name).unwrap();
    files.read(&path).ok().map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_failed_call_undoes_nothing_that_another_turn_wrote_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let kinds: [Arc<dyn Filesystem>; 2] =
        [Arc::new(MemoryFs::new()), Arc::new(DirectoryFs::open(directory.path()).unwrap())];
    for files in kinds {
        write(&*files, "shared", "before");
        write(&*files, "ours", "before");
        let others = Arc::clone(&files);
        fail(&files, move |mine| {
            for name in ["ours", "shared", "both", "new"] {
                write(mine, name, "failing");
            }
            let calls = ["shared", "both", "theirs"]
                .map(|name| format!(r#"{{"path":"{name}","text":"another"}}"#));
            let calls: Vec<(&str, &str)> = calls.iter().map(|call| ("fs_write", &**call)).collect();
            assert!(run(&others, &calls).iter().all(|(success, _)| *success));
            write(mine, "new", "failing again");
        });
        let found = ["shared", "both", "theirs", "ours", "new"].map(|name| read(&*files, name));
        let found = found.map(Option::unwrap_or_default);
        assert_eq!(found, ["another", "another", "another", "before", ""], "{}", files.name());
    }
}

#[test]
fn a_failed_call_undoes_nothing_that_a_person_wrote_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    for name in ["edited", "removed", "ours", "now_a_folder"] {
        std::fs::write(root.join(name), "before").unwrap();
    }
    let files: Arc<dyn Filesystem> = Arc::new(DirectoryFs::open(&root).unwrap());
    let at = root.clone();
    fail(&files, move |mine| {
        for name in ["edited", "removed", "ours", "made", "deep/er/file"] {
            write(mine, name, "failing");
        }
        mine.remove(&FsPath::parse("now_a_folder").unwrap()).unwrap();
        std::fs::write(at.join("edited"), "a person").unwrap();
        std::fs::write(at.join("made"), "a person").unwrap();
        std::fs::remove_file(at.join("removed")).unwrap();
        std::fs::create_dir(at.join("now_a_folder")).unwrap();
        std::os::unix::fs::symlink("ours", at.join("deep/er/link")).unwrap();
    });
    let found = ["edited", "made", "ours"].map(|name| read(&*files, name).unwrap_or_default());
    assert_eq!(found, ["a person", "a person", "before"]);
    assert!(!root.join("removed").exists(), "the person removed it");
    assert!(root.join("now_a_folder").is_dir());
    assert!(!root.join("deep/er/file").exists() && root.join("deep/er/link").is_symlink());
}

#[test]
fn an_edit_that_would_grow_without_bound_is_refused_before_it_is_built() {
    let directory = tempfile::tempdir().unwrap();
    let kinds: [Arc<dyn Filesystem>; 2] =
        [Arc::new(MemoryFs::new()), Arc::new(DirectoryFs::open(directory.path()).unwrap())];
    for files in kinds {
        write(&*files, "bomb", "aaaaaaaaaaaaaaaaaaaa");
        // Each multiplies what is there by 1,000: 20 kB, 20 MB, 20 GB.
        let edit = |find: &str, text: &str| {
            let text = text.repeat(1_000);
            format!(r#"{{"path":"bomb","find":"{find}","replace":"{text}","everywhere":true}}"#)
        };
        let (edit, same) = (edit("a", "a"), edit("a", "a"));
        let done = run(&files, &[("fs_edit", &edit), ("fs_edit", &same), ("fs_edit", &same)]);
        assert!(done[0].0, "{}", done[0].1);
        for (success, text) in &done[1..] {
            assert!(!success && text.contains("16777216 bytes"), "{text}");
        }
        assert_eq!(read(&*files, "bomb").unwrap().len(), 20_000);
    }
}
