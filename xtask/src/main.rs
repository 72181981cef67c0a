//! `cargo xtask`: the checks that continuous integration runs in addition to the tests, and the
//! benches.
#![forbid(unsafe_code)]

mod book;
mod features;
mod screenshots;
mod seeds;
mod sizes;
mod soak;
mod tidy;

use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask <what>

  ci        all of: fmt, clippy, tidy, seeds, book, docs, features, deny
  fmt       is everything formatted
  clippy    lints, warnings denied
  tidy      file lengths, unfinished marks, words that do not belong here
  seeds     every test and file that docs/seeds.md cites exists
  docs      the documentation builds without warnings
  book      the pages of docs/ are in SUMMARY.md, their links lead somewhere, and mdbook builds
            them (where it is installed)
  picture   draws docs/demo.svg and docs/images/*.svg again, from what the binary does now; tests
            compare them
  screenshots  docs/images/*.png, pages of the viewer as Chromium shows them: cargo xtask screenshots
            [BINARY]
  features  each feature alone, each layer, all together
  sizes     what each feature of the command adds to its binary and its build, each built from nothing:
            cargo xtask sizes [FEATURE...]
  deny      licenses, bans and sources (needs cargo-deny; says so when advisories are not checked)
  soak      durability and concurrency at the sizes of a change under review (TRACT_SCALE=1), with the
            figures that the tests print: cargo xtask soak [-- WORD]
  bench     the table of docs/performance.md, measured here and now: cargo xtask bench [-- ARGS]
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.filter(|argument| argument != "--").collect();
    let result = match what.as_str() {
        "ci" => ci(),
        "fmt" => fmt(),
        "clippy" => clippy(),
        "tidy" => tidy::run(),
        "seeds" => seeds::run(),
        "docs" => docs(),
        "book" => book::run(),
        "picture" => pictures(),
        "screenshots" => screenshots::run(&rest),
        "features" => features::run(),
        "sizes" => sizes::run(&rest),
        "deny" => deny(),
        "soak" => soak::run(&rest),
        "bench" => bench(&rest),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {what}: {why}");
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<(), String>;

fn ci() -> Outcome {
    tidy::run()?;
    seeds::run()?;
    book::run()?;
    fmt()?;
    clippy()?;
    docs()?;
    features::run()?;
    deny()
}

fn fmt() -> Outcome {
    cargo(&["fmt", "--all", "--", "--check"])?;
    // The programs of the pages are included, not modules, so cargo does not find them.
    let programs = std::fs::read_dir("docs/examples").map_err(|error| error.to_string())?;
    let programs = programs.filter_map(Result::ok).map(|entry| entry.path());
    step("rustfmt --check docs/examples/*.rs");
    let status =
        Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(programs).status();
    finished("rustfmt", status)
}

fn clippy() -> Outcome {
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
}

fn docs() -> Outcome {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--all-features"];
    cargo_with(&arguments, &[("RUSTDOCFLAGS", "-Dwarnings")])
}

/// Draws what the tests whose names begin like this compare.
fn pictures() -> Outcome {
    let test = "test --package tract-cli --all-features --test cli -- the_picture_";
    cargo_with(&test.split(' ').collect::<Vec<_>>(), &[("TRACT_DOCS", "write")])
}

fn deny() -> Outcome {
    let present = cargo_command().args(["deny", "--version"]).output();
    if !present.is_ok_and(|output| output.status.success()) {
        return Err("cargo-deny is not installed: cargo install --locked cargo-deny".to_owned());
    }
    cargo(&["deny", "--all-features", "check", "licenses", "bans", "sources"])?;
    step("cargo deny check advisories (only where the advisory database can be reached)");
    let advisories =
        cargo_command().args(["deny", "--all-features", "check", "advisories"]).output();
    match advisories {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            if stderr.contains("failed to fetch") || stderr.contains("advisory database") {
                println!("NOT RUN: advisories; the advisory database cannot be reached here");
                Ok(())
            } else {
                Err(stderr)
            }
        }
        Err(error) => Err(error.to_string()),
    }
}

fn bench(arguments: &[String]) -> Outcome {
    let mut all = vec!["run", "--release", "--quiet", "--package", "tract-benches"];
    // Benches that need a server, and experiments, are built only on request.
    let named = |word: &str| arguments.iter().any(|argument| argument.starts_with(word));
    if named("postgres") || named("sessions") {
        all.extend(["--features", "postgres"]);
    }
    if named("sled:") {
        all.extend(["--features", "sled"]);
    }
    let mut command = cargo_command();
    if named("otel") {
        command.env("TRACT_BENCHES_WITHOUT_SPANS", without_spans()?);
        all.extend(["--features", "otel"]);
    }
    all.push("--");
    all.extend(arguments.iter().map(String::as_str));
    step(&format!("cargo {}", all.join(" ")));
    finished("the benches", command.args(&all).status())
}

/// Builds the benches without spans, for the ones with spans to compare with, and returns the path.
fn without_spans() -> Result<std::path::PathBuf, String> {
    cargo(&["build", "--release", "--quiet", "--package", "tract-benches"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let release = std::path::Path::new(&target).join("release");
    let plain = release.join("tract-benches-without-spans");
    let copied = std::fs::copy(release.join("tract-benches"), &plain);
    copied.map_err(|error| format!("{}: {error}", plain.display()))?;
    std::path::absolute(plain).map_err(|error| error.to_string())
}

/// Cargo, without the variables that cargo has set for this package: build scripts that look at
/// such variables would run again, and much with them.
pub(crate) fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_PRIMARY_", "CARGO_CRATE_"];
    for (name, _) in std::env::vars_os() {
        if ours.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let what = format!("{set}cargo {}", arguments.join(" "));
    step(&what);
    finished(&what, cargo_command().args(arguments).envs(variables.iter().copied()).status())
}

fn step(what: &str) {
    println!("--- {what}");
}

/// Fails with findings, where there are any.
fn reported(found: &[String]) -> Outcome {
    match found {
        [] => Ok(()),
        _ => Err(format!("{} findings\n{}", found.len(), found.join("\n"))),
    }
}

fn finished(what: &str, status: std::io::Result<std::process::ExitStatus>) -> Outcome {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} ended with {status}")),
        Err(error) => Err(format!("{what} did not start: {error}")),
    }
}
