//! The dependency direction is law: it is read from `cargo metadata` and `cargo tree`.

mod cycles;
mod modules;

use std::collections::BTreeMap;
use std::process::Command;

/// What each crate may depend on, in the words of `docs/architecture.md`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tract-core", &[]),
    ("tract-compression", &[]),
    ("tract-kv", &["tract-compression", "tract-core"]),
    // The engine only for the feature `simulation`, whose clients carry out its verbs.
    ("tract-testkit", &["tract-core", "tract-engine", "tract-kv"]),
    ("tract-compile", &["tract-core"]),
    ("tract-hooks", &["tract-core"]),
    ("tract-macros", &[]),
    ("tract-secrets", &[]),
    ("tract-sse", &[]),
    ("tract-schema", &["tract-core"]),
    ("tract-store-redb", &["tract-core", "tract-kv"]),
    ("tract-store-sled", &["tract-core", "tract-kv"]),
    ("tract-store-postgres", &["tract-core"]),
    ("tract-store-sqlite", &["tract-compression", "tract-core"]),
    ("tract-example-store", &["tract-core", "tract-kv"]),
    ("tract-mcp", &["tract-core", "tract-schema", "tract-sse", "tract-tools"]),
    ("tract-engine", &["tract-core", "tract-compile", "tract-hooks", "tract-secrets"]),
    ("tract-providers", &["tract-core", "tract-compile", "tract-schema", "tract-sse"]),
    ("tract-tools", &["tract-core", "tract-hooks", "tract-macros", "tract-schema"]),
    (
        "tract-import",
        &["tract-core", "tract-engine", "tract-providers", "tract-secrets", "tract-store-postgres"],
    ),
    (
        "tract-record",
        &[
            "tract-compile",
            "tract-core",
            "tract-engine",
            "tract-import",
            "tract-providers",
            "tract-secrets",
        ],
    ),
    (
        "tract-view",
        &[
            "tract-core",
            "tract-compile",
            "tract-engine",
            "tract-import",
            "tract-providers",
            "tract-schema",
            "tract-tools",
        ],
    ),
    (
        "tract-serve",
        &[
            "tract-core",
            "tract-compile",
            "tract-engine",
            "tract-mcp",
            "tract-providers",
            "tract-schema",
            "tract-tools",
        ],
    ),
    (
        "tract-run",
        &["tract-core", "tract-kv", "tract-compile", "tract-engine", "tract-hooks", "tract-tools"],
    ),
    (
        "tract",
        &[
            "tract-core",
            "tract-kv",
            "tract-compile",
            "tract-hooks",
            "tract-engine",
            "tract-import",
            "tract-providers",
            "tract-mcp",
            "tract-record",
            "tract-run",
            "tract-schema",
            "tract-secrets",
            "tract-serve",
            "tract-store-redb",
            "tract-store-sled",
            "tract-store-postgres",
            "tract-store-sqlite",
            "tract-tools",
            "tract-view",
        ],
    ),
    ("tract-otel", &["tract-core", "tract-secrets"]),
    ("tract-cli", &["tract", "tract-otel", "tract-testkit"]),
];

/// Crates whose dependencies are free: they test, measure or check, and no crate depends on them.
const FREE: &[&str] = &["tract-tests", "tract-benches", "xtask"];

fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn dependencies_point_down() {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut seen = 0;
    for package in &metadata.packages {
        assert_eq!(package.publish.as_deref(), Some(&[][..]), "{}: publish = false", package.name);
        if FREE.contains(&package.name.as_str()) {
            continue;
        }
        seen += 1;
        let Some(may) = allowed.get(package.name.as_str()) else {
            panic!("{} is a new crate: say here what it may depend on", package.name);
        };
        for dependency in &package.dependencies {
            let normal = dependency.kind == cargo_metadata::DependencyKind::Normal;
            if normal && dependency.name.starts_with("tract") {
                assert!(
                    may.contains(&dependency.name.as_str()),
                    "{} may not depend on {}",
                    package.name,
                    dependency.name
                );
            }
        }
    }
    assert_eq!(seen, ALLOWED.len(), "every crate named here exists");
}

/// The crates that a build of this package contains.
fn tree(package: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package"])
        .args(package)
        .current_dir(root())
        .output()
        .expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn check(features: &str, present: &[&str], absent: &[&str]) {
    let tree = tree(&["tract", "--no-default-features", "--features", features]);
    for name in present {
        assert!(tree.iter().any(|found| found == name), "{features:?} lacks {name}");
    }
    for name in absent {
        assert!(!tree.iter().any(|found| found == name), "{features:?} contains {name}");
    }
}

#[test]
fn features_bring_their_layer_and_no_other() {
    let engine = ["tract-engine", "tract-providers", "tract-schema"];
    let upper = |more: &[&'static str]| [&engine[..], more].concat();
    check("", &["tract-core"], &upper(&["tract-compile", "tract-hooks", "tract-store-sqlite"]));
    check(
        "sqlite",
        &["tract-core", "tract-store-sqlite"],
        &upper(&["tract-compile", "tract-hooks", "imbl"]),
    );
    check(
        "compile",
        &["tract-compile"],
        &upper(&["tract-hooks", "tract-store-sqlite", "rusqlite"]),
    );
    check("redb", &["tract-store-redb", "redb"], &upper(&["rusqlite", "sled"]));
    check("sled", &["tract-store-sled", "sled"], &upper(&["rusqlite", "redb"]));
    check("hooks", &["tract-hooks"], &upper(&["tract-compile", "tract-store-sqlite"]));
    check(
        "postgres",
        &["tract-core", "tract-store-postgres", "tokio-postgres"],
        &upper(&["tract-compile", "tract-hooks", "rusqlite", "rustls"]),
    );
    check("postgres-tls", &["rustls", "ring"], &["aws-lc-rs", "openssl-sys"]);
    check("engine", &["tract-engine", "tract-compile", "tract-hooks"], &["rusqlite"]);
    check(
        "tools",
        &["tract-tools", "tract-macros", "tract-schema", "jsonschema"],
        &["tract-engine", "rusqlite", "reqwest"],
    );
    check("import", &["tract-import", "tract-engine"], &["rusqlite", "reqwest", "tokio"]);
    check("import,sqlite", &["tract-import", "rusqlite"], &["reqwest", "tokio"]);
    check("import,postgres", &["tract-import", "tract-store-postgres"], &["rusqlite", "reqwest"]);
    check("run", &["tract-run", "tract-engine", "tract-tools"], &["rusqlite", "reqwest", "tokio"]);
    check("mcp", &["tract-mcp", "rmcp", "tract-tools"], &["tract-engine", "rusqlite", "reqwest"]);
    check("record", &["tract-record", "tract-import", "hyper"], &["rusqlite", "axum", "rmcp"]);
    check("view", &["tract-view", "axum", "tract-engine"], &["rusqlite", "reqwest", "rmcp"]);
    check("serve", &["tract-serve", "tract-mcp", "tract-engine"], &["rusqlite", "reqwest"]);
    check("telemetry,engine", &["tracing", "tract-engine"], &["opentelemetry", "reqwest"]);
    check("full", &["tracing"], &["opentelemetry"]);
    // TLS comes from rustls with ring, wherever HTTP does.
    check("http", &["reqwest", "rustls", "ring"], &["openssl-sys", "aws-lc-sys", "native-tls"]);
}

/// The default build stays light: no HTTP, no TLS, no async runtime.
#[test]
fn the_default_build_is_light() {
    check(
        "sqlite,engine",
        &["tract-engine"],
        &["tokio", "reqwest", "rustls", "hyper", "jsonschema", "tracing"],
    );
}

/// OpenTelemetry comes with the command's feature of its name, without gRPC, and with nothing else.
#[test]
fn only_the_feature_otel_brings_opentelemetry() {
    let has = |tree: &[String], name: &str| tree.iter().any(|found| found == name);
    let default = tree(&["tract-cli"]);
    assert!(!has(&default, "opentelemetry") && !has(&default, "tract-otel"));
    let with = tree(&["tract-cli", "--features", "otel"]);
    assert!(has(&with, "opentelemetry-otlp") && has(&with, "tract-otel"));
    for absent in ["tonic", "openssl-sys", "aws-lc-rs"] {
        assert!(!has(&with, absent), "otel contains {absent}");
    }
}

/// Who builds the command without the pages, the terminal, the MCP server or telemetry pays for none of it.
#[test]
fn pages_terminal_and_telemetry_cost_nothing_where_they_are_left_out() {
    let brought =
        ["tract-view", "axum", "maud", "tract-serve", "ratatui", "tract-otel", "opentelemetry"];
    let with = tree(&["tract-cli", "--features", "otel"]);
    let without = "compression,conformance,follow,http,mcp,record,redb,run";
    let without = tree(&["tract-cli", "--no-default-features", "--features", without]);
    for name in brought {
        assert!(with.iter().any(|found| found == name), "the test names what is gone: {name}");
        assert!(!without.iter().any(|found| found == name), "{name} is built all the same");
    }
}

/// What tests alone need is not built when the command is installed.
#[test]
fn the_command_contains_no_test_framework() {
    let tree = tree(&["tract-cli"]);
    assert!(tree.iter().any(|found| found == "tract-testkit"), "it has `conformance`");
    let found: Vec<&String> = tree.iter().filter(|found| found.starts_with("proptest")).collect();
    assert!(found.is_empty(), "the command contains {found:?}");
}

/// A low minimum is a reason to choose us: nothing that we build on may ask for a newer Rust.
#[test]
fn every_dependency_builds_with_the_lowest_rust() {
    // What only other platforms need may never have been fetched here.
    let version = Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let options = ["--offline", "--all-features", "--filter-platform", host];
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(options.map(str::to_owned))
        .exec()
        .expect("cargo metadata");
    let version = |package: &cargo_metadata::Package| package.rust_version.clone();
    let ours = metadata.packages.iter().find(|package| package.name.as_str() == "tract-core");
    let lowest = ours.and_then(version).expect("tract-core states rust-version");
    let newer: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| version(package).is_some_and(|required| required > lowest))
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    assert!(metadata.packages.len() > 50, "the whole tree was read");
    assert!(newer.is_empty(), "these ask for more than Rust {lowest}: {newer:?}");
}
