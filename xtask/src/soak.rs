//! The tests of durability and concurrency at the sizes of a change under review, one after the
//! other, with a table of their findings. A suite that did not run is a failure.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Tests that are run together.
struct Suite {
    name: &'static str,
    /// The folder of the package, and the name of the binary.
    binary: (&'static str, &'static str),
    /// Selects the tests whose names contain one of these; empty selects all.
    filters: &'static [&'static str],
    /// Of which stores there is to be a line, and under which name; else they count as one line.
    lines: &'static [(&'static str, &'static [&'static str])],
}

/// All tests of a binary.
const fn suite(name: &'static str, binary: (&'static str, &'static str)) -> Suite {
    Suite { name, binary, filters: &[], lines: &[] }
}

impl Suite {
    const fn filters(self, filters: &'static [&'static str]) -> Self {
        Self { filters, ..self }
    }

    const fn lines(self, lines: &'static [(&'static str, &'static [&'static str])]) -> Self {
        Self { lines, ..self }
    }
}

const TESTS: (&str, &str) = ("tests", "tests");
const POSTGRES: (&str, &str) = ("tract-store-postgres", "all");

const ALL: &[&str] = &["sqlite", "redb", "sled", "postgres"];
const GATE: &[&str] = &["sqlite", "redb"];

const SUITES: &[Suite] = &[
    suite("contract: memory", ("tract-testkit", "memory")),
    suite("contract: each fault is noticed", ("tract-testkit", "faults")),
    suite("strategies and model", ("tract-testkit", "random")),
    suite("simulation: memory", ("tract-testkit", "simulation")).lines(&[
        ("simulation", &["memory"]),
        ("simulation, long pauses", &["memory"]),
        ("simulation, replays", &["memory"]),
        ("simulation, planted", &["memory"]),
    ]),
    suite("contract: sqlite", ("tract-store-sqlite", "contract")),
    suite("contract: redb", ("tract-store-redb", "contract")),
    suite("contract: sled", ("tract-store-sled", "contract")),
    suite("contract: example store", ("example-store", "contract")),
    suite("contract: postgres, three ways", POSTGRES).filters(&["contract::"]),
    suite("kills", TESTS)
        .filters(&["processes::killed_writers"])
        .lines(&[("T1 kill -9", &["sqlite", "redb", "sled"])]),
    suite("kills of the server", POSTGRES)
        .filters(&["crashes::"])
        .lines(&[("T1 kill -9", &["postgres"])]),
    suite("kills of the command line", ("tract-cli", "cli"))
        .filters(&["kill::"])
        .lines(&[("T1 kill -9, command line", GATE), ("T1 kill -9, push", GATE)]),
    suite("kills at every call of summaries and decisions", TESTS).filters(&["kills::"]),
    suite("power and disk of redb", ("tract-store-redb", "tract_store_redb"))
        .filters(&["power_loss::", "disk_errors::"])
        .lines(&[
            ("T2 loss of power", &["redb"]),
            ("T3 errors of the disk", &["redb"]),
            ("T4 full disk", &["redb"]),
        ]),
    suite("power and disk of sqlite", ("tract-store-sqlite", "all"))
        .filters(&["power_loss::", "disk_errors::"])
        .lines(&[("T2 loss of power", &["sqlite"]), ("T3 errors of the disk", &["sqlite"])]),
    suite("disk of sled", ("tract-store-sled", "disk_errors"))
        .lines(&[("T3 errors of the disk", &["sled"])]),
    suite("full disk of sqlite", ("tract-store-sqlite", "tract_store_sqlite"))
        .filters(&["full_disk::"])
        .lines(&[("T4 full disk", &["sqlite"])]),
    suite("damage", TESTS)
        .filters(&["damage::", "damage_sled::"])
        .lines(&[("T5 damage", &["sqlite", "redb", "sled"])]),
    suite("damage on the server", POSTGRES)
        .filters(&["flips::", "damage::"])
        .lines(&[("T5 damage", &["postgres"])]),
    suite("one branch", TESTS)
        .filters(&["processes::processes_and_threads"])
        .lines(&[("T6 one branch", ALL)]),
    suite("order, model, one history", TESTS).filters(&["together::"]).lines(&[
        ("T7 linear refs", ALL),
        ("T8 state machine", ALL),
        ("T9 differential", ALL),
    ]),
    suite("huge and odd input", TESTS)
        .filters(&["bad_input::", "peaks::"])
        .lines(&[("T12 huge", ALL), ("T12 memory", ALL)]),
    suite("tenants", POSTGRES).filters(&["tenants::"]).lines(&[("S10 tenants", &["postgres"])]),
    suite("laws", TESTS).filters(&["laws::"]).lines(&[("laws", ALL)]),
    suite("garbage collection", TESTS).filters(&["collect::"]).lines(&[
        ("T14 gc and writers", ALL),
        ("T14 gc and kills", ALL),
        ("T14 gc and full disks", GATE),
        ("T14 gc and power", GATE),
    ]),
    suite("repack", TESTS).filters(&["repacks::"]).lines(&[
        ("T14 repack and kills", &["sqlite", "redb", "sled"]),
        ("T14 repack and power", GATE),
        ("T14 repacks at once", &["sqlite", "redb", "sled"]),
    ]),
    suite("erase", TESTS)
        .filters(&["erasures::"])
        .lines(&[("T15 erase and kills", &["sqlite", "redb", "sled"])]),
    suite("erase on the server", POSTGRES).filters(&["erasing::", "wiping::"]),
    suite("golden files", TESTS).filters(&["golden::"]).lines(&[("T13 golden stores", ALL)]),
];

/// The suites that a store does not run, with the reason.
const NOT_DONE: &[(&str, &str, &str)] = &[
    (
        "T2, T3, T4",
        "postgres",
        "its disk is the server's: the store refuses servers without fsync, full_page_writes or \
         synchronous_commit, and T1 kills the server",
    ),
    (
        "T2, T4",
        "sled",
        "it syncs ranges of files and renames others, which the recording of writes does not \
         follow; experimental, it gates nothing",
    ),
    ("T14 gc and full disks", "postgres, sled", "as T3 and T4"),
    ("T6", "redb, sled", "one process each by design: 16 threads of one process instead"),
];

/// A line of the table: the suite, the store, what was found.
type Finding = [String; 3];

/// Runs all of them, or those whose name holds a word; `TRACT_SCALE` is 1 unless it is set.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let scale = std::env::var("TRACT_SCALE").unwrap_or_else(|_| "1".to_owned());
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|a| name.contains(a.as_str()));
    let binaries = built()?;
    let (mut findings, mut failed): (Vec<Finding>, _) = (Vec::new(), Vec::new());
    for suite in SUITES.iter().filter(|suite| wanted(suite.name)) {
        println!("--- {}, TRACT_SCALE={scale}", suite.name);
        let begun = Instant::now();
        let ran = one(suite, &binaries, &scale);
        let took = begun.elapsed().as_secs_f64();
        match ran {
            Ok(found) => {
                println!("    passed in {took:.0} s");
                findings.extend(found);
            }
            Err(why) => {
                println!("    FAILED in {took:.0} s: {why}");
                failed.push(format!("{}: {why}", suite.name));
            }
        }
    }
    println!("\n| suite | store | found, TRACT_SCALE={scale} |\n| --- | --- | --- |");
    for [suite, store, text] in &findings {
        println!("| {suite} | {store} | {text} |");
    }
    println!("\nNot done:");
    for (suite, store, why) in NOT_DONE {
        println!("- {suite} on {store}: {why}");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed:\n{}", failed.join("\n"))) }
}

/// A binary of tests: the folder of its package, its name, where it is.
struct Binary {
    folder: PathBuf,
    name: String,
    path: PathBuf,
}

/// The text of a member of an object in cargo's messages, whose paths need no unescaping.
fn member<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}

/// Builds the tests of the workspace, as `cargo test --workspace` does, and returns their binaries.
fn built() -> Result<Vec<Binary>, String> {
    println!("--- cargo test --workspace --no-run");
    let mut command = crate::cargo_command();
    command.args(["test", "--workspace", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let read = |line: &str| {
        let path = PathBuf::from(member(line, "executable")?);
        let folder = Path::new(member(line, "manifest_path")?).parent()?.to_owned();
        let (_, target) = line.split_once("\"target\":")?;
        Some(Binary { folder, name: member(target, "name")?.to_owned(), path })
    };
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter(|line| line.contains("\"test\":true}")).filter_map(read).collect())
}

/// Runs one suite, and holds what it printed against what it should have.
fn one(suite: &Suite, binaries: &[Binary], scale: &str) -> Result<Vec<Finding>, String> {
    let (folder, name) = suite.binary;
    let binary = binaries
        .iter()
        .find(|binary| binary.folder.ends_with(folder) && binary.name == name)
        .ok_or_else(|| format!("there is no binary {name} of {folder}"))?;
    let errors = std::env::temp_dir().join(format!("tract-soak-{}", std::process::id()));
    let file = File::create(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    let mut child = Command::new(&binary.path)
        .arg("--nocapture")
        .args(suite.filters)
        .current_dir(&binary.folder)
        .env("TRACT_SCALE", scale)
        // Engines panic on damaged files, and are contained: their backtraces are not read.
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.path.display()))?;
    let output = child.stdout.take().ok_or("the tests have no output")?;
    let (mut findings, mut shown, mut passed) = (Vec::new(), Vec::new(), None);
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let mut parts = line.splitn(4, '\t');
        if let (Some("figure"), Some(suite), Some(store), Some(text)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            println!("    {suite}, {store}: {text}");
            findings.push([suite, store, text].map(str::to_owned));
        } else if let Some(result) = line.strip_prefix("test result: ok. ") {
            passed = result.split(' ').next().and_then(|count| count.parse::<usize>().ok());
        }
        shown.push(line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        let errors = std::fs::read_to_string(&errors).unwrap_or_default();
        let errors: Vec<&str> = errors.lines().collect();
        let last = |lines: &[&str]| lines[lines.len().saturating_sub(60)..].join("\n    ");
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        // The cause is where a panic begins; what a property test shrank to may be long.
        let cause = errors.iter().position(|line| line.starts_with("thread '"));
        let cause = cause.unwrap_or(errors.len());
        let cause = &errors[cause..errors.len().min(cause + 60)];
        println!(
            "    {}\n    …\n    {}\n    {}",
            cause.join("\n    "),
            last(&errors),
            last(&shown)
        );
        return Err(format!("it ended with {status}"));
    }
    let _ = std::fs::remove_file(&errors);
    let passed = passed.filter(|passed| *passed > 0).ok_or("no test ran")?;
    for (line, stores) in suite.lines {
        for store in *stores {
            if !findings.iter().any(|[suite, of, _]| suite == line && of == store) {
                return Err(format!("{line} did not run on {store}"));
            }
        }
    }
    if suite.lines.is_empty() {
        let (suite, store) = suite.name.split_once(": ").unwrap_or((suite.name, "all"));
        let text = format!("{passed} tests passed");
        findings.push([suite.to_owned(), store.to_owned(), text]);
    }
    Ok(findings)
}
