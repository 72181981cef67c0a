//! The pictures of the viewer in the README and the docs: its pages, with the bundled sessions, as
//! Chromium shows them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Outcome, cargo};

const FOLDER: &str = "docs/images";
const WIDTH: u32 = 1280;
/// The session that most pictures show: a long one, with edits, a compaction and subagents.
const SESSION: &str = "claude-code/bfb38461-8fc8-5582-bd81-bc1cb996f385";

/// A picture of a page.
struct Picture {
    name: &'static str,
    /// The path of the page, without the session of a page that ends with `rev=`.
    page: &'static str,
    width: u32,
    height: u32,
    is_dark: bool,
}

const fn picture(name: &'static str, page: &'static str, height: u32) -> Picture {
    Picture { name, page, width: WIDTH, height, is_dark: false }
}

impl Picture {
    const fn dark(self) -> Self {
        Self { is_dark: true, ..self }
    }

    const fn width(self, width: u32) -> Self {
        Self { width, ..self }
    }
}

const PICTURES: [Picture; 14] = [
    picture("view-sessions.png", "/", 900),
    picture("view-sessions-dark.png", "/", 900).dark(),
    picture("view-projects.png", "/?sort=project", 900),
    picture("view-phone.png", "/", 860).width(500),
    picture("view-transcript.png", "/transcript?rev=", 1000),
    picture("view-transcript-dark.png", "/transcript?rev=", 1000).dark(),
    picture("view-changes.png", "/history?rev=", 800),
    picture("view-window.png", "/window?rev=", 1000),
    picture("view-tools.png", "/tools?rev=workshop-cargo-bike", 800),
    picture("view-cost.png", "/usage", 1000),
    picture("view-cache.png", "/cache", 900),
    picture("view-requests.png", "/requests?rev=workshop-cargo-bike", 520),
    picture("view-compare.png", "/compare?a=workshop-cargo-bike&b=terse", 900),
    picture("view-search.png", "/search?words=spoke", 800),
];
/// Sessions that come with the repository, each with the tool whose folder it is.
const SESSIONS: [(&str, &str); 6] = [
    ("claude-code", "tests/data/sessions/claude-code"),
    ("codex", "tests/data/sessions/codex"),
    ("gemini-cli", "tests/data/sessions/gemini-cli"),
    ("opencode", "tests/data/sessions/opencode"),
    ("qwen-code", "tests/data/sessions/qwen-code"),
    ("chatgpt", "tests/data/sessions/chatgpt/conversations.json"),
];

/// Writes the pictures. A path names the binary to run; without one it is built. `TRACT_CHROMIUM` names
/// the browser, else `chromium` is run.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let binary = match arguments.first() {
        Some(path) => PathBuf::from(path),
        None => built()?,
    };
    let binary = std::path::absolute(binary).map_err(text)?;
    let scratch = std::env::temp_dir().join(format!("tract-screenshots-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(text)?;
    let drawn = draw(&binary, &scratch);
    std::fs::remove_dir_all(&scratch).map_err(text)?;
    drawn
}

/// Builds the binary, and returns where it is.
fn built() -> Result<PathBuf, String> {
    cargo(&["build", "--quiet", "--package", "tract-cli"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(Path::new(&target).join("debug/tract"))
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

fn draw(binary: &Path, scratch: &Path) -> Outcome {
    let tract = |arguments: &[&str]| -> Outcome {
        let output = Command::new(binary)
            .args(arguments)
            .env("TRACT_STORE", format!("sqlite:{}", scratch.join("tract.db").display()))
            .output()
            .map_err(|error| format!("{} did not start: {error}", binary.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    tract(&["init"])?;
    for (tool, folder) in SESSIONS {
        tract(&["import", tool, folder])?;
    }
    tract(&["import", "crates/tract-cli/demo/conversations.jsonl"])?;
    tract(&["branch", "terse", "--from", "workshop-cargo-bike#33", "--checkout"])?;
    tract(&["edit", "HEAD#33", "What do I save? One sentence.", "--at", "2026-01-31T09:30:01Z"])?;
    let viewer = Viewer::start(binary, scratch)?;
    std::fs::create_dir_all(FOLDER).map_err(text)?;
    let style = viewer.get("/style.css")?;
    for picture in &PICTURES {
        let page = picture.page;
        let path = if page.ends_with('=') { format!("{page}{SESSION}") } else { page.to_owned() };
        let page = viewer.get(&path)?;
        // As a file it loads nothing, so its style goes into it.
        let Some(end) = page.find("</head>") else {
            return Err(format!("{path} is no page: {page}"));
        };
        let (head, body) = page.split_at(end);
        let style = match picture.is_dark {
            true => style.replace("(prefers-color-scheme: dark)", "all"),
            false => style.clone(),
        };
        let file = scratch.join("page.html");
        std::fs::write(&file, format!("{head}<style>{style}</style>{body}")).map_err(text)?;
        photograph(&file, picture, scratch)?;
        println!("{FOLDER}/{}", picture.name);
    }
    Ok(())
}

fn photograph(page: &Path, picture: &Picture, scratch: &Path) -> Outcome {
    let chromium = std::env::var_os("TRACT_CHROMIUM").unwrap_or_else(|| "chromium".into());
    let Picture { name, width, height, .. } = picture;
    let file = std::path::absolute(Path::new(FOLDER).join(name)).map_err(text)?;
    let status = Command::new(&chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--hide-scrollbars",
        ])
        .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--force-device-scale-factor=1"])
        .arg(format!("--user-data-dir={}", scratch.join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", file.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{} did not start: {error}", chromium.display()))?;
    match status.success() && file.exists() {
        true => Ok(()),
        false => Err(format!("Chromium made no {}", file.display())),
    }
}

/// `tract view`, and the cookie that it gave.
struct Viewer {
    child: Child,
    host: String,
    cookie: String,
}

impl Viewer {
    fn start(binary: &Path, scratch: &Path) -> Result<Self, String> {
        let mut child = Command::new(binary)
            .arg("view")
            .env("TRACT_STORE", format!("sqlite:{}", scratch.join("tract.db").display()))
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        }
        let mut viewer = Self { child, host: String::new(), cookie: String::new() };
        let url = line.trim();
        let (host, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| format!("expected a url from the viewer, found {url:?}"))?;
        viewer.host = host.to_owned();
        let first = viewer.ask(&format!("/{path}"))?;
        let cookie = first.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next())?
        });
        viewer.cookie = cookie.ok_or("the viewer gave no cookie")?.to_owned();
        Ok(viewer)
    }

    /// Returns the body of an answer.
    fn get(&self, path: &str) -> Result<String, String> {
        let answer = self.ask(path)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("half an answer")?;
        match head.contains(" 200 ") {
            true => Ok(body.to_owned()),
            false => Err(format!("{path}: {head}")),
        }
    }

    fn ask(&self, path: &str) -> Result<String, String> {
        let mut stream = TcpStream::connect(&self.host).map_err(text)?;
        let (host, cookie) = (&self.host, &self.cookie);
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n")
            .map_err(text)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(text)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
