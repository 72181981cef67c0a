//! The viewer in this process: who is admitted, and what its pages contain.
//!
//! The tests of the command line open `tract view` in a browser; these run without it, in seconds.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tract_core::{Draft, RefName};
use tract_engine::{Repo, RepoOptions};
use tract_kv::memory;
use tract_view::{Viewer, export};

const HOSTILE: &str = "<script>alert(1)</script> \u{202e}reversed";

async fn repo() -> Repo {
    let repo = Repo::new(Arc::new(memory()), RepoOptions::default());
    let main = RefName::branch("main").expect("a valid name");
    for draft in [Draft::user("Do I need a coat in Paris?"), Draft::assistant(HOSTILE)] {
        repo.append(&main, draft).await.expect("it is written");
    }
    repo
}

/// A running viewer, which stops when this is dropped.
struct Running {
    address: String,
    token: String,
    _stop: oneshot::Sender<()>,
}

impl Running {
    async fn start(repo: Repo) -> Self {
        let viewer = Viewer::bind(repo, 0).await.expect("a free port");
        let url = viewer.url().to_owned();
        let (address, token) = url
            .strip_prefix("http://")
            .and_then(|url| url.split_once("/?token="))
            .expect("an address and a token");
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(viewer.run(async { _ = stopped.await }));
        Self { address: address.to_owned(), token: token.to_owned(), _stop: stop }
    }

    /// Sends a request; returns the head of the answer and its body.
    async fn get(&self, path: &str, host: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// Opens the URL of the viewer as a browser does; returns the cookie that it sets.
    async fn cookie(&self) -> String {
        let (head, _) = self.get(&format!("/?token={}", self.token), &self.address, "").await;
        assert!(head.contains(" 303 "), "{head}");
        let set =
            head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let pair = set.split(';').next().expect("a pair");
        format!("Cookie: {pair}\r\n")
    }
}

#[tokio::test]
async fn only_a_client_with_the_token_and_our_name_is_admitted() {
    let running = Running::start(repo().await).await;
    let (head, body) = running.get("/", &running.address, "").await;
    assert!(head.contains(" 401 "), "{head}");
    assert!(!body.contains("coat"), "{body}");
    let cookie = running.cookie().await;
    let (head, _) = running.get("/", "evil.example", &cookie).await;
    assert!(head.contains(" 403 "), "{head}");
    let foreign = format!("{cookie}Origin: http://evil.example\r\n");
    let (head, _) = running.get("/", &running.address, &foreign).await;
    assert!(head.contains(" 403 "), "{head}");
    let (head, body) = running.get("/", &running.address, &cookie).await;
    assert!(head.contains(" 200 ") && body.contains("main"), "{head}");
}

#[tokio::test]
async fn a_transcript_has_its_messages_and_no_markup_of_theirs() {
    let running = Running::start(repo().await).await;
    let cookie = running.cookie().await;
    let (head, body) = running.get("/transcript?rev=main", &running.address, &cookie).await;
    assert!(head.contains(" 200 "), "{head}");
    let policy = head.lines().find(|line| line.starts_with("content-security-policy: "));
    assert!(policy.is_some_and(|policy| policy.contains("default-src 'none'")), "{head}");
    assert!(body.contains("Do I need a coat in Paris?"), "{body}");
    assert!(!body.contains("<script>alert(1)") && body.contains("&lt;script&gt;"), "{body}");
    assert!(!body.contains('\u{202e}'), "{body}");
    let (head, _) = running.get("/transcript?rev=nowhere", &running.address, &cookie).await;
    assert!(head.contains(" 404 "), "{head}");
}

#[tokio::test]
async fn decisions_are_refused_unless_they_are_allowed() {
    let running = Running::start(repo().await).await;
    let cookie = running.cookie().await;
    let (head, _) = running.get("/decide", &running.address, &cookie).await;
    assert!(head.contains(" 404 "), "{head}");
}

#[tokio::test]
async fn the_exported_page_loads_nothing() {
    let repo = repo().await;
    let page = export(&repo, &["main".to_owned()], false).await.expect("it is written");
    assert!(page.page.contains("Do I need a coat in Paris?"));
    assert!(!page.page.contains("<script>alert(1)") && !page.page.contains('\u{202e}'));
    for elsewhere in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!page.page.contains(elsewhere), "{elsewhere}");
    }
    let unknown = export(&repo, &["nowhere".to_owned()], false).await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("nowhere")));
}

#[tokio::test]
async fn the_title_of_an_exported_page_is_redacted_as_well() {
    let repo = repo().await;
    let branch = RefName::branch("asked").expect("a valid name");
    let secret = "AKIAQ3EGRTZW5N7KLMPB";
    let prompt = Draft::user(format!("Is {secret} still valid?"));
    repo.append(&branch, prompt).await.expect("it is written");
    let names = ["asked".to_owned()];
    let redacted = export(&repo, &names, true).await.expect("it is written");
    assert!(redacted.page.contains("still valid?") && !redacted.page.contains(secret));
    let whole = export(&repo, &names, false).await.expect("it is written");
    assert!(whole.page.contains(secret));
}
