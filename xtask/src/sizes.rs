//! The cost of each feature of the command: bytes of the binary, and time to build it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::{Outcome, cargo_command, step};

const MANIFEST: &str = "crates/tract-cli/Cargo.toml";
/// Removed before each build, which is from nothing.
const TARGET: &str = "target/sizes";

/// Builds the command with its default features, then once per named feature: without it if it is a
/// default, with it if it is not. No names means all features.
pub(crate) fn run(names: &[String]) -> Outcome {
    let manifest = std::fs::read_to_string(MANIFEST).map_err(|error| error.to_string())?;
    let features = features(&manifest);
    let default = features.get("default").ok_or("no default features")?.clone();
    let known = features.keys().filter(|name| *name != "default");
    let names: Vec<String> =
        if names.is_empty() { known.cloned().collect() } else { names.to_vec() };
    let whole = build(&default)?;
    println!("| feature | binary, stripped | crates | CPU time of the build | time |");
    println!("| --- | --- | --- | --- | --- |");
    println!("| all defaults | {} |", whole.cells());
    for name in names {
        if !features.contains_key(&name) {
            return Err(format!("no feature {name} in {MANIFEST}"));
        }
        if default.contains(&name) {
            let asks = |other: &String| reaches(&features, other, &name);
            let (without, kept): (Vec<_>, Vec<_>) = default.iter().cloned().partition(asks);
            let build = build(&kept)?;
            println!("| without {} | {} |", without.join(", "), build.cells());
        } else {
            let build = build(&[default.as_slice(), std::slice::from_ref(&name)].concat())?;
            println!("| with {name} | {} |", build.cells());
        }
    }
    std::fs::remove_dir_all(TARGET).map_err(|error| error.to_string())
}

/// The lines of `[features]`: what each one asks for.
fn features(manifest: &str) -> BTreeMap<String, Vec<String>> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let pairs =
        lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let quoted = |list: &str| list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    pairs.map(|(name, list)| (name.to_owned(), quoted(list))).collect()
}

/// Is `sought` this feature, or one that it asks for?
fn reaches(features: &BTreeMap<String, Vec<String>>, name: &str, sought: &str) -> bool {
    name == sought
        || features
            .get(name)
            .is_some_and(|enabled| enabled.iter().any(|name| reaches(features, name, sought)))
}

struct Build {
    bytes: u64,
    crates: usize,
    cpu: f64,
    seconds: f64,
}

impl Build {
    #[expect(clippy::cast_precision_loss, reason = "megabytes with one digit")]
    fn cells(&self) -> String {
        let megabytes = self.bytes as f64 / 1e6;
        let Self { crates, cpu, seconds, .. } = self;
        format!("{megabytes:.1} MB | {crates} | {cpu:.0} s | {seconds:.0} s")
    }
}

fn build(features: &[String]) -> Result<Build, String> {
    if Path::new(TARGET).exists() {
        std::fs::remove_dir_all(TARGET).map_err(|error| error.to_string())?;
    }
    let features = features.join(" ");
    step(&format!(
        "cargo build --release --package tract-cli --no-default-features --features \"{features}\""
    ));
    let (before, begun) = (children_cpu()?, Instant::now());
    let output = cargo_command()
        .args([
            "build",
            "--release",
            "--package",
            "tract-cli",
            "--no-default-features",
            "--features",
        ])
        .args([features.as_str(), "--target-dir", TARGET])
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(stderr.into_owned());
    }
    let (cpu, seconds) = (children_cpu()? - before, begun.elapsed().as_secs_f64());
    let crates = stderr.lines().filter(|line| line.trim_start().starts_with("Compiling ")).count();
    let binary =
        Path::new(TARGET).join("release/tract").with_extension(std::env::consts::EXE_EXTENSION);
    let bytes = std::fs::metadata(binary).map_err(|error| error.to_string())?.len();
    Ok(Build { bytes, crates, cpu, seconds })
}

/// Seconds that the processes which this one has waited for ran, theirs included. A machine that does
/// something else at the time makes a build longer and leaves this as it is.
fn children_cpu() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/self/stat");
    let stat = stat.map_err(|error| format!("/proc/self/stat: {error}"))?;
    // `cutime` and `cstime`, in hundredths of a second; the name before may have spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    if ticks.len() == 2 {
        Ok(ticks.iter().sum::<f64>() / 100.0)
    } else {
        Err("/proc is needed".to_owned())
    }
}
