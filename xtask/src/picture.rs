//! The picture in the README: what `tract demo` prints, as an SVG.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, cargo};

const PICTURE: &str = "docs/demo.svg";

/// The chapters of the demo that the picture shows; all of them are too long for a first screen.
const CHAPTERS: &[usize] = &[1, 4, 5, 8];

const COLUMNS: usize = 100;
/// The size of a character, in pixels.
const CELL: (f64, f64) = (8.4, 19.0);
const MARGIN: f64 = 16.0;

/// Writes the picture, or with `--check` compares it with the one in the repository. A path names
/// the binary to run; without one it is built.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let check = arguments.iter().any(|argument| argument == "--check");
    let binary = match arguments.iter().find(|argument| !argument.starts_with("--")) {
        Some(path) => PathBuf::from(path),
        None => built()?,
    };
    let picture = draw(&demo(&binary)?);
    if !check {
        return std::fs::write(PICTURE, picture).map_err(|error| format!("{PICTURE}: {error}"));
    }
    println!("--- {PICTURE} shows what the demo prints");
    match std::fs::read_to_string(PICTURE) {
        Ok(text) if text == picture => Ok(()),
        Ok(_) => Err(format!("{PICTURE} is out of date: run cargo xtask picture")),
        Err(error) => Err(format!("{PICTURE}: {error}")),
    }
}

/// Builds the binary, and returns where it is.
pub(crate) fn built() -> Result<PathBuf, String> {
    cargo(&["build", "--quiet", "--package", "tract-cli"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(Path::new(&target).join("debug/tract"))
}

/// Runs the demo in a folder of its own, and returns what it prints.
fn demo(binary: &Path) -> Result<String, String> {
    let binary = std::path::absolute(binary).map_err(|error| error.to_string())?;
    let folder = std::env::temp_dir().join(format!("tract-picture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let output = Command::new(&binary)
        .args(["--color", "always", "demo"])
        .env("COLUMNS", COLUMNS.to_string())
        .env_remove("TRACT_STORE")
        .env_remove("NO_COLOR")
        .current_dir(&folder)
        .output();
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    let output = output.map_err(|error| format!("{} did not start: {error}", binary.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("the demo ended with {}", output.status))
    }
}

fn draw(printed: &str) -> String {
    let chapters: Vec<&str> = printed.split("\n\n").skip(1).collect();
    let shown: Vec<&str> =
        CHAPTERS.iter().filter_map(|at| chapters.get(*at).copied()).map(str::trim_end).collect();
    let lines: Vec<String> = shown.join("\n\n").lines().map(str::to_owned).collect();
    let width = MARGIN * 2.0 + COLUMNS as f64 * CELL.0;
    let height = MARGIN * 2.0 + lines.len() as f64 * CELL.1;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, \
         Consolas, monospace\" font-size=\"14\" fill=\"#e6edf3\">\n\
         <title>What `tract demo` prints</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = MARGIN + (row + 1) as f64 * CELL.1 - 5.0;
        let mut column = 0;
        for (text, style) in segments(line) {
            let x = MARGIN + column as f64 * CELL.0;
            column += text.chars().count();
            if !text.trim().is_empty() {
                let text = escaped(&text);
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.0}\" xml:space=\"preserve\"{style}>{text}</text>"
                );
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Cuts a line at its escape sequences, and says in attributes of SVG what each piece looks like.
fn segments(line: &str) -> Vec<(String, String)> {
    let mut segments = Vec::new();
    let mut codes: Vec<u8> = Vec::new();
    for (at, piece) in line.split("\u{1b}[").enumerate() {
        let text = match (at, piece.split_once('m')) {
            (0, _) | (_, None) => piece,
            (_, Some((sequence, text))) => {
                for code in sequence.split(';').filter_map(|code| code.parse().ok()) {
                    match code {
                        0 => codes.clear(),
                        code => codes.push(code),
                    }
                }
                text
            }
        };
        let attributes = codes.iter().map(|code| match code {
            1 => " font-weight=\"bold\"",
            2 => " fill-opacity=\"0.6\"",
            31 => " fill=\"#ff7b72\"",
            32 => " fill=\"#7ee787\"",
            33 => " fill=\"#e3b341\"",
            34 => " fill=\"#79c0ff\"",
            35 => " fill=\"#d2a8ff\"",
            36 => " fill=\"#76e3ea\"",
            _ => "",
        });
        segments.push((text.to_owned(), attributes.collect()));
    }
    segments
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_attributes() {
        let found = segments("a \u{1b}[1m\u{1b}[36mb\u{1b}[0m c");
        let shown: Vec<(&str, &str)> =
            found.iter().map(|(text, style)| (text.as_str(), style.as_str())).collect();
        let cyan = " font-weight=\"bold\" fill=\"#76e3ea\"";
        let wanted = [("a ", ""), ("", " font-weight=\"bold\""), ("b", cyan), (" c", "")];
        assert_eq!(shown, wanted);
    }
}
