//! The tests of durability and concurrency at the sizes of a change under review, one package
//! after the other, with the figures that they print.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is run: the words for cargo, and what of it.
const RUNS: &[(&str, &[&str], &[&str])] = &[
    ("contract, model, strategies", &["-p", "tract-testkit", "--tests"], &[]),
    ("redb: loss of power, errors of the disk", &["-p", "tract-store-redb"], &[]),
    ("SQLite: processes, damage, a full disk", &["-p", "tract-store-sqlite"], &[]),
    (
        "all stores: laws, damage, model, one history, one order, golden files",
        &["-p", "tract-tests"],
        &["laws", "damage", "together", "golden"],
    ),
    ("kill -9 of the command line", &["-p", "tract-cli", "--test", "cli"], &["kill"]),
    ("PostgreSQL: crashes, damage, tenants", &["-p", "tract-store-postgres"], &[]),
];

/// Runs all of them, or those whose name holds a word; `TRACT_SCALE` is 1 unless it is set.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let scale = std::env::var("TRACT_SCALE").unwrap_or_else(|_| "1".to_owned());
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|a| name.contains(a.as_str()));
    let mut failed = Vec::new();
    for (name, packages, filters) in RUNS.iter().filter(|(name, ..)| wanted(name)) {
        println!("--- {name}, TRACT_SCALE={scale}");
        let begun = Instant::now();
        let sound = one(packages, filters, &scale)?;
        println!(
            "    {} in {:.0} s",
            if sound { "passed" } else { "FAILED" },
            begun.elapsed().as_secs_f64()
        );
        if !sound {
            failed.push(*name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}", failed.join("; "))),
    }
}

/// Runs one package's tests; prints what they say beside their names, and of failures all.
fn one(packages: &[&str], filters: &[&str], scale: &str) -> Result<bool, String> {
    let mut child = Command::new(crate::cargo_program())
        .arg("test")
        .args(packages)
        .arg("--")
        .arg("--nocapture")
        .args(filters)
        .env("TRACT_SCALE", scale)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("cargo test: {error}"))?;
    let output = child.stdout.take().ok_or("cargo test has no output")?;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let of_harness = line.is_empty()
            || line.starts_with("running ")
            || (line.starts_with("test ") && line.ends_with(" ok"));
        if !of_harness {
            println!("    {line}");
        }
    }
    child.wait().map(|status| status.success()).map_err(|error| error.to_string())
}
