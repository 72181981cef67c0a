use std::sync::Arc;

use tract_core::block_on;
use tract_tools::fs::{DirectoryFs, Filesystem, FsPath, add_fs_tools, bind};
use tract_tools::resource::Resources;
use tract_tools::{Call, Dispatcher, Registry, Turn};

fn run(files: &Arc<dyn Filesystem>, calls: &[(&str, &str)]) -> Vec<(bool, String)> {
    let resources = Resources::builder().bind(bind(Arc::clone(files))).build().unwrap();
    let turn = Turn::new().resources(Arc::new(resources));
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
fn what_cannot_be_done_is_told_with_the_way_out() {
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
