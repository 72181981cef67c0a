//! A real browser, driven as the WebDriver standard has it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Without a window, and without what it does by itself.
pub(crate) const CHROMIUM: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
];

/// A session of Chromium, which ends when it is dropped.
pub(crate) struct Driver {
    child: Child,
    port: u16,
    session: String,
}

impl Driver {
    /// Starts Chromium where `TRACT_CHROMIUM` and `TRACT_CHROMEDRIVER` name it and its driver;
    /// `None`, and a word about it, elsewhere.
    pub(crate) fn start() -> Option<Self> {
        let [chromium, driver] = ["TRACT_CHROMIUM", "TRACT_CHROMEDRIVER"].map(std::env::var_os);
        let (Some(chromium), Some(driver)) = (chromium, driver) else {
            let words = "set TRACT_CHROMIUM and TRACT_CHROMEDRIVER, as .ci/run does";
            assert!(std::env::var_os("CI").is_none(), "{words}");
            println!("left out: a real browser; {words}");
            return None;
        };
        let (child, port) = start(&driver);
        let mut driver = Self { child, port, session: String::new() };
        let arguments: Vec<&str> = CHROMIUM.into_iter().chain(["--window-size=1200,800"]).collect();
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": chromium.to_string_lossy(), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let begun = driver.ask("POST", "/session", &capabilities);
        driver.session = begun["sessionId"].as_str().expect("a session").to_owned();
        Some(driver)
    }

    pub(crate) fn open(&self, url: &str) {
        self.command("/url", json!({ "url": url }));
    }

    /// Opens a tab next to those that are open, and continues there.
    pub(crate) fn open_tab(&self) {
        let tab = self.command("/window/new", json!({"type": "tab"}));
        self.command("/window", json!({ "handle": tab["handle"] }));
    }

    /// Runs the body of a function in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("/execute/sync", json!({"script": script, "args": []}))
    }

    /// Runs it until it answers something else than null, false or nothing.
    #[track_caller]
    pub(crate) fn wait_for(&self, script: &str) -> Value {
        for _ in 0..600 {
            let found = self.run(script);
            if !matches!(found, Value::Null | Value::Bool(false)) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it did not happen: {script}\n{}", self.run("return document.body.innerText"))
    }

    /// Presses a key that means nothing until the page sees it: the first ones after a page was
    /// opened can be lost.
    pub(crate) fn wait_for_keys(&self) {
        self.run("window.pressed = 0; addEventListener('keydown', function () { window.pressed += 1; });");
        for _ in 0..100 {
            self.press("x");
            if self.run("return window.pressed > 0") == true {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the page sees no keys");
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let presses: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": presses});
        self.command("/actions", json!({ "actions": [keyboard] }));
    }

    /// Clicks what a selector finds first.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.command("/element", json!({"using": "css selector", "value": selector}));
        let id = found.as_object().and_then(|found| found.values().next()?.as_str());
        let id = id.unwrap_or_else(|| panic!("no {selector}: {found}"));
        self.command(&format!("/element/{id}/click"), json!({}));
    }

    /// Sets the width and the height of the window, as a phone's for example.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let parameters = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", parameters);
    }

    /// Lets the page see the colors that its reader prefers.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Lets pages run scripts, or not. What is run from here runs either way.
    pub(crate) fn allow_scripts(&self, allow: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !allow }));
    }

    fn devtools(&self, command: &str, parameters: Value) {
        self.command("/goog/cdp/execute", json!({"cmd": command, "params": parameters}));
    }

    /// What the browser complained of since it was asked last: refused scripts, for example.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.command("/se/log", json!({"type": "browser"}));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        entries.iter().map(text).collect()
    }

    #[track_caller]
    fn command(&self, path: &str, body: Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), &body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .expect("the driver reads");
        // The driver leaves the connection open, so the length says where the answer ends.
        let mut reader = BufReader::new(stream);
        let (mut status, mut length) = (String::new(), 0);
        reader.read_line(&mut status).expect("the driver answers");
        for line in reader.by_ref().lines() {
            let line = line.expect("the driver answers");
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut document = vec![0; length];
        reader.read_exact(&mut document).expect("a whole answer");
        let document: Value = serde_json::from_slice(&document).expect("JSON");
        assert!(status.contains(" 200 "), "{path}: {}", document["value"]["message"]);
        document["value"].clone()
    }
}

/// Starts the driver, which chooses its port on IPv6 and gives up when a connection of another test
/// has the same one on IPv4 at that time. Then another port is found by starting it again.
fn start(driver: &OsStr) -> (Child, u16) {
    const ATTEMPTS: usize = 20;
    let mut printed = Vec::new();
    for _ in 0..ATTEMPTS {
        printed.clear();
        let mut child = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let port = lines.find_map(|line| {
            let line = line.expect("the driver prints");
            let port = line.split("successfully on port ").nth(1);
            let port = port.and_then(|port| port.trim_end_matches('.').parse().ok());
            printed.push(line);
            port
        });
        if let Some(port) = port {
            // Its pipe stays read, or it would wait for that.
            std::thread::spawn(move || lines.for_each(drop));
            return (child, port);
        }
        let _ = child.kill();
        child.wait().expect("the driver has ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the driver did not start in {ATTEMPTS} attempts; the last time it said {printed:#?}")
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
