//! Each feature alone and all together must build without warnings.

use crate::{Outcome, cargo};

/// The combinations of the features of `tract` that are built.
const COMBINATIONS: &[&str] = &[
    "",
    "redb",
    "sled",
    "sqlite",
    "postgres",
    "postgres-tls",
    "compile",
    "hooks",
    "sqlite,compile",
    "sqlite,hooks",
    "compression,redb",
    "redb,engine",
    "redb,sled,sqlite",
    "sqlite,engine",
    "engine",
    "tools",
    "engine,tools",
    "import",
    "import,sqlite",
    "import,postgres",
    "run",
    "mcp",
    "serve",
    "view",
    "record",
    "http",
    "telemetry",
    "run,telemetry",
    "full",
];

pub(crate) fn run() -> Outcome {
    for features in COMBINATIONS {
        clippy("tract", features)?;
    }
    // The command without its optional features, and with all of them.
    for features in ["", "otel"] {
        clippy("tract-cli", features)?;
    }
    // The command takes the contract for stores without what makes random histories.
    clippy("tract-testkit", "")?;
    // Core alone must hash as everything together does: features of its dependencies that others
    // switch on must not reach what is hashed.
    cargo(&["test", "--quiet", "--package", "tract-core", "--test", "canonical_json"])
}

/// Clippy's complaints about one package with these features alone, which fail.
fn clippy(package: &str, features: &str) -> Outcome {
    let chosen = ["--package", package, "--no-default-features", "--features", features];
    cargo(&[&["clippy", "--quiet"], &chosen[..], &["--", "-D", "warnings"]].concat())
}
