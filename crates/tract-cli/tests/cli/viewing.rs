//! `tract view` and `export --html`: what a browser is given, and what it is not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{COAT, Workspace, each, list, needs, set_as, set_mode, stream};

/// A viewer, and the browser that was given its url.
pub(crate) struct Browser {
    viewer: Child,
    host: String,
    token: String,
    cookie: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Browser {
    pub(crate) fn open(place: &Workspace) -> Self {
        Self::open_with(place, &[], &[])
    }

    /// Starts a viewer that ends with this process, however that ends: the shell waits for the end
    /// of its input, and then ends the viewer.
    pub(crate) fn open_with(
        place: &Workspace,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let viewer = place.command(&[&["view", "--json"], flags].concat());
        let mut shell = Command::new("sh");
        let script = r#""$0" "$@" & exec >/dev/null; cat; kill $!; wait $!"#;
        shell.args(["-c", script]).arg(viewer.get_program()).args(viewer.get_args());
        set_as(&mut shell, &viewer);
        shell.envs(environment.iter().copied());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let viewer = shell.spawn().expect("the viewer starts");
        let nothing = String::new;
        let mut browser = Self { viewer, host: nothing(), token: nothing(), cookie: nothing() };
        let mut line = String::new();
        let stdout = browser.viewer.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it prints its url");
        let document: Value = serde_json::from_str(&line).expect("JSON");
        let url = document["url"].as_str().expect("a url").to_owned();
        let (host, token) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once("/?token="))
            .expect("a url with a token");
        (browser.host, browser.token) = (host.to_owned(), token.to_owned());
        let first = browser.get(&format!("/?token={}", browser.token));
        assert_eq!(first.status, 303, "{}", first.head);
        let cookie = first.head.lines().find_map(|line| {
            line.to_lowercase().starts_with("set-cookie: ").then(|| line.get(12..)).flatten()
        });
        let cookie = cookie.expect("a cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
        browser.cookie = cookie.split(';').next().expect("a pair").to_owned();
        browser
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Host", &self.host), ("Cookie", &self.cookie)])
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        answer(self.connect(method, path, headers))
    }

    fn connect(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        // HTTP/1.0 has no chunks.
        let mut request = format!("{method} {path} HTTP/1.0\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    }

    /// Sends a form, from a page of this origin; `None` is a program that names none.
    pub(crate) fn post(&self, path: &str, form: &str, origin: Option<&str>) -> Answer {
        let mut headers = vec![("Host", self.host.as_str()), ("Cookie", self.cookie.as_str())];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let length = form.len().to_string();
        headers.push(("Content-Type", "application/x-www-form-urlencoded"));
        headers.push(("Content-Length", &length));
        let mut stream = self.connect("POST", path, &headers);
        stream.write_all(form.as_bytes()).expect("it reads");
        answer(stream)
    }

    /// Ends the viewer.
    pub(crate) fn end(&mut self) {
        drop(self.viewer.stdin.take());
        self.viewer.wait().expect("it ends");
    }

    /// The url that opens the pages.
    pub(crate) fn entry(&self) -> String {
        format!("http://{}/?token={}", self.host, self.token)
    }

    /// The origin of the viewer's own pages.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    #[track_caller]
    pub(crate) fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.viewer.stdin.take());
        drop(self.viewer.wait());
    }
}

#[test]
fn only_the_url_opens_the_pages() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    let (host, cookie) = (browser.host.as_str(), browser.cookie.as_str());
    let wrong = format!("/?token={}", "0".repeat(32));
    for (path, headers, status) in [
        ("/", vec![("Host", host)], 401),
        (wrong.as_str(), vec![("Host", host)], 401),
        ("/", vec![("Host", host), ("Cookie", "tract-view-1=0")], 401),
        // A name that leads to this machine, as an attack by DNS has it.
        ("/", vec![("Host", "evil.example:80"), ("Cookie", cookie)], 403),
        ("/", vec![("Cookie", cookie)], 403),
        ("/", vec![("Host", host), ("Cookie", cookie), ("Origin", "http://evil.example")], 403),
        ("/", vec![("Host", host), ("Cookie", cookie), ("Origin", "null")], 403),
        ("/transcript?rev=main", vec![("Host", host)], 401),
        ("/live?rev=main&head=", vec![("Host", host)], 401),
    ] {
        let answer = browser.ask("GET", path, &headers);
        assert_eq!(answer.status, status, "{path} {headers:?}");
        assert!(!answer.body.contains("Paris") && !answer.body.contains("main"), "{}", answer.body);
    }
    let page = browser.get("/");
    assert_eq!(page.status, 200);
    for header in ["default-src 'none'", "nosniff", "same-origin", "no-store"] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    for method in ["POST", "PUT", "DELETE"] {
        let own = format!("http://{host}");
        let headers = [("Host", host), ("Cookie", cookie), ("Origin", own.as_str())];
        assert_eq!(browser.ask(method, "/", &headers).status, 405, "{method}");
    }
}

#[test]
fn pages_show_what_was_recorded() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "lyon", "--from", "main#2"]);
    place.ok(&["edit", "main#2", "Do I need a hat in Paris?"]);
    let before = place.ok(&["export"]);
    let browser = Browser::open(&place);
    let list = browser.page("/");
    assert!(list.contains(">main</span>") && list.contains(">lyon</span>"), "{list}");
    let list = browser.page("/?q=ly");
    assert!(!list.contains(">main</span>") && list.contains(">lyon</span>"), "{list}");

    let page = browser.page("/transcript?rev=main");
    for part in ["Do I need a hat in Paris?", "get_weather", "11 degrees, rain", "umbrella"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The result is next to its call, and not a message of its own.
    assert_eq!(page.matches("<article").count(), 4, "{page}");
    assert!(page.contains("edited: original"), "{page}");
    let links = page.split("/text?rev=").skip(1).filter_map(|text| text.split('"').next());
    let original = links.filter(|link| link.ends_with("original=1")).last();
    let path = format!("/text?rev={}", original.expect("a link").replace("&amp;", "&"));
    assert_eq!(browser.page(&path).trim_end(), "Do I need a coat in Paris?");

    let tools = browser.page("/tools?rev=main");
    assert!(tools.contains("Returns the weather."), "{tools}");
    let compared = browser.page("/compare?a=lyon&b=main");
    assert!(compared.contains("Cache miss") && compared.contains("umbrella"), "{compared}");
    let request = browser.page("/request?rev=main&to=anthropic-params");
    let request: Value = serde_json::from_str(&request).expect("the request as it is sent");
    // It ends with the model's turn, so repair closes it with one more message.
    assert_eq!(request["messages"].as_array().map(Vec::len), Some(5));

    for (path, status) in [
        ("/transcript?rev=mian", 404),
        ("/transcript?rev=ffffffff", 404),
        ("/transcript", 400),
        ("/transcript?rev=main&from=18446744073709551615", 200),
        ("/compare?a=main", 400),
        ("/request?rev=main&to=fax", 422),
        ("/nothing", 404),
        ("/../../etc/passwd", 404),
    ] {
        assert_eq!(browser.get(path).status, status, "{path}");
    }
    drop(browser);
    assert_eq!(place.ok(&["export"]), before);
}

#[test]
fn a_page_can_ask_whether_it_is_up_to_date() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    let page = browser.page("/transcript?rev=main");
    let live = page.split("data-live=\"").nth(1).and_then(|rest| rest.split('"').next());
    let live = live.expect("a branch is followed").replace("&amp;", "&");
    let seen = live.split("head=").nth(1).expect("the head that the page shows").to_owned();
    assert_eq!(browser.page(&live), seen);
    place.ok(&["commit", "user", "And gloves?"]);
    assert_eq!(browser.page(&live), place.id("main"));
    assert!(browser.page("/transcript?rev=main").contains("And gloves?"));
}

/// Texts that would do something if a page took them for more than text.
pub(crate) const HOSTILE: [&str; 17] = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'>",
    "<a href=\"javascript:document.title='owned'\">here</a>",
    "</pre></article><style>body{display:none}</style>",
    "<iframe srcdoc=\"<script>parent.document.title='owned'</script>\"></iframe>",
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "\u{202e}txet desrever\u{202c}",
    "<meta http-equiv=refresh content=\"0;url=http://127.0.0.1:9/\">",
    "{{constructor.constructor('document.title=1')()}}",
    // In Markdown: links, images, autolinks, references, code and HTML in a list.
    "[here](javascript:document.title='owned') [there](JaVaScRiPt&colon;document.title='owned')",
    "[here](https://example.org/\"onmouseover=\"document.title='owned')",
    "<javascript:document.title='owned'> <https://example.org/\"onmouseover=\"document.title='owned'>",
    "![cat](https://127.0.0.1:9/cat.png) ![x](data:text/html,<script>document.title='owned'</script>)",
    "[here]\n\n[here]: javascript:document.title='owned' '\"onclick=\"document.title=1'",
    "```html\"onclick=\"x\n<script>document.title='owned'</script>\n```\n`<script>document.title='owned'</script>`",
    "- <div onclick=document.title='owned'>\n\n  <script>document.title='owned'</script>\n\n| <img src=x> |\n|-|\n| </table><script> |",
];

pub(crate) fn hostile() -> Workspace {
    let mut lines = Vec::new();
    for text in HOSTILE {
        lines.push(json!({"op": "user", "text": text}));
        let call = json!([{"id": text, "name": "x", "arguments": {text: text}}]);
        lines.push(json!({"op": "assistant", "text": text, "tool_calls": call}));
        lines.push(json!({"op": "tool_result", "call_id": text, "content": text}));
    }
    lines.push(json!({"op": "user", "text": "x".repeat(10 << 20)}));
    let call = json!([{"id": "long", "name": "x", "arguments": {"a": "y".repeat(1 << 20)}}]);
    lines.push(json!({"op": "assistant", "text": "", "tool_calls": call}));
    let tool = json!({"name": "x", "description": HOSTILE[0], "parameters": {"type": "object"}});
    lines.push(json!({"op": "set_tools", "tools": [tool]}));
    Workspace::of(&stream(lines))
}

#[track_caller]
pub(crate) fn is_inert(page: &str, scripts: usize) {
    // Each tag of the page is one of ours, and none has a handler.
    for tag in page.split('<').skip(1) {
        let name: String = tag.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        let inside = tag.split('>').next().unwrap_or_default();
        // Our charts say what they are.
        let is_chart = name == "svg"
            && (inside.contains("role=\"img\"") || inside.contains("aria-hidden=\"true\""));
        assert!(is_chart || !matches!(name.as_str(), "img" | "svg" | "iframe"), "<{inside}");
        // A quote in a value is escaped, so every second part is outside of the values.
        let names = inside.to_lowercase().split('"').step_by(2).collect::<Vec<_>>().join("\"");
        assert!(!names.contains(" on") && !names.contains("\"on"), "<{inside}>");
        for forbidden in ["=\"javascript:", "=\"data:"] {
            assert!(!inside.to_lowercase().contains(forbidden), "<{inside}>");
        }
    }
    assert_eq!(page.matches("<script").count(), scripts);
    assert!(page.matches("<meta").count() <= 3);
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
}

#[test]
fn recorded_texts_are_inert() {
    let place = hostile();
    let browser = Browser::open(&place);
    let page = browser.page("/transcript?rev=main");
    is_inert(&page, 1);
    assert!(page.len() < 400_000, "{} bytes", page.len());
    let cut = page.matches("characters more").count();
    assert_eq!(cut, 2, "the long text and the long argument are cut, and said to be");
    is_inert(&browser.page("/tools?rev=main"), 1);
    is_inert(&browser.page("/compare?a=main~5&b=main"), 1);
    is_inert(&browser.page("/"), 1);
    // Errors repeat what was asked for.
    let path = "/transcript?rev=%3Cscript%3Ealert(1)%3C/script%3E";
    is_inert(&browser.get(path).body, 1);
    assert_ne!(browser.get("/text?rev=main%23").status, 200);
    let text = browser.get("/text?rev=main%231");
    assert_eq!(text.body.trim_end(), HOSTILE[0], "plain text is as it was recorded");
    assert!(text.head.contains("text/plain") && text.head.contains("nosniff"), "{}", text.head);
}

/// The token admits anyone who has it, and every user can read the arguments of a program.
#[cfg(target_os = "linux")]
#[test]
fn the_browser_is_opened_with_a_private_file_and_not_with_the_token() {
    use std::os::unix::fs::PermissionsExt;

    let place = Workspace::of(COAT);
    let script = "#!/bin/sh\nprintf '%s' \"$*\" > opened.new; mv opened.new opened\n";
    place.write("bin/xdg-open", script);
    set_mode(&place.path("bin/xdg-open"), 0o755);
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", place.path("bin").display());
    let browser = Browser::open_with(&place, &["--open"], &[("PATH", &path)]);
    let opened = loop {
        if let Ok(opened) = std::fs::read_to_string(place.path("opened")) {
            break opened;
        }
        std::thread::yield_now();
    };
    assert!(!opened.contains(&browser.token) && opened.ends_with(".html"), "{opened}");
    let page = std::fs::read_to_string(&opened).expect("the page");
    let url = browser.entry();
    assert!(page.contains(&format!("http-equiv=refresh content=\"0;url={url}\"")), "{page}");
    let mode = std::fs::metadata(&opened).expect("the page").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(browser);
    assert!(!std::path::Path::new(&opened).exists(), "it is removed");
}

#[test]
fn a_port_in_use_is_an_error() {
    let place = Workspace::of(COAT);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    place.refused(&["view", "--port", &port], 1, "port_in_use", &port);
}

/// What a reader sees of a conversation with three damaged contents: all the rest.
#[test]
fn damage_of_one_message_hides_no_other() {
    let place = Workspace::of(COAT);
    let texts = ["coat in Paris", "I look it up", "Returns the weather"];
    for (count, text) in texts.iter().enumerate() {
        let browser = Browser::open(&place);
        let page = browser.page("/transcript?rev=main");
        let names = [" object cannot be read", " objects cannot be read"];
        assert_eq!(names.iter().any(|name| page.contains(name)), count > 0, "{page}");
        drop(browser);
        assert_eq!(place.damage(text), 1, "{text}");
    }
    place.refused(&["compile"], 3, "corrupt", "tract verify");
    for arguments in [&["cat"][..], &["cat", "--json"]] {
        let ran = place.run(arguments).expect(3);
        for part in ["You are a travel agent.", "[cannot be read", "Yes, and an umbrella."] {
            assert!(ran.stdout.contains(part), "{part}: {ran:?}");
        }
        assert!(ran.stdout.contains("corrupt") || ran.stderr.contains("error[corrupt]"), "{ran:?}");
    }
    let browser = Browser::open(&place);
    let page = browser.page("/transcript?rev=main");
    // The result whose call is lost is a message of its own.
    for part in ["You are a travel agent.", "11 degrees, rain", "Yes, and an umbrella."] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("3 objects cannot be read; `tract verify`"), "{page}");
    // The outline repeats the first words of prompts.
    let messages = page.split("class=\"content\"").nth(1).expect("the messages");
    assert_eq!(messages.matches("[cannot be read: ").count(), 2, "{page}");
    for text in texts {
        assert!(!page.contains(text), "{text}: {page}");
    }
    let report = place.run(&["verify", "--json"]).expect(1).lines().swap_remove(0);
    let damaged = each(list(&report["damage"]), "object").into_iter();
    let blobs: Vec<&str> = damaged.filter_map(|object| object.strip_prefix("blob ")).collect();
    assert_eq!(blobs.len(), 3, "{report}");
    for blob in blobs {
        assert!(page.contains(blob), "{blob}: {page}");
    }
    for path in [
        "/",
        "/usage",
        "/pending",
        "/history?rev=main",
        "/window?rev=main",
        "/cost?rev=main",
        "/cache?rev=main",
    ] {
        browser.page(path);
    }
    let tools = browser.page("/tools?rev=main");
    assert!(tools.contains("cannot be read") && tools.contains("the tools"), "{tools}");
    // What a provider would get is not made of it, and a text is named with what is wrong.
    for path in ["/request?rev=main", "/compare?a=main~1&b=main", "/text?rev=main%232"] {
        let answer = browser.get(path);
        assert!(answer.status >= 400 && answer.body.contains("damaged"), "{path}: {}", answer.body);
    }
}

#[test]
fn two_viewers_show_one_store() {
    let place = Workspace::of(COAT);
    let browsers = [Browser::open(&place), Browser::open(&place)];
    assert_ne!(browsers[0].host, browsers[1].host);
    // The cookie of one opens nothing of the other.
    let headers = [("Host", browsers[1].host.as_str()), ("Cookie", browsers[0].cookie.as_str())];
    assert_eq!(browsers[1].ask("GET", "/", &headers).status, 401);
    place.ok(&["commit", "user", "And gloves?"]);
    for browser in &browsers {
        assert!(browser.page("/transcript?rev=main").contains("And gloves?"));
    }
}

/// The folder of a store is removed under a viewer, and comes back: it neither ends nor writes.
#[test]
fn a_store_that_vanishes_is_said_and_may_return() {
    let place = Workspace::of(COAT);
    let browser = Browser::open(&place);
    browser.page("/");
    let (folder, away) = (place.path(".tract"), place.path("away"));
    std::fs::rename(&folder, &away).expect("it is moved");
    let Answer { status, body, .. } = browser.get("/transcript?rev=main");
    assert!(body.contains("umbrella") || status >= 500, "{status}: {body}");
    assert!(!folder.exists(), "it is not made again");
    std::fs::rename(&away, &folder).expect("it is moved back");
    place.ok(&["commit", "user", "And gloves?"]);
    assert!(browser.page("/transcript?rev=main").contains("And gloves?"));
}

/// A real browser runs none of it, and shows the conversation.
#[test]
fn a_real_browser_shows_pages_and_runs_nothing_recorded() {
    let missing = "a real browser; TRACT_CHROMIUM names Chromium";
    let Some(chromium) = needs("TRACT_CHROMIUM", missing) else { return };
    let dump = |url: &str| {
        let profile = tempfile::tempdir().expect("a folder");
        let output = Command::new(&chromium)
            .args(crate::webdriver::CHROMIUM)
            .args(["--virtual-time-budget=3000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stderr(Stdio::null())
            .output()
            .expect("Chromium starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let place = hostile();
    place.ok(&["export", "--html", "page.html"]);
    let page = dump(&format!("file://{}", place.path("page.html").display()));
    let title = |page: &str| {
        let (_, title) = page.split_once("<title>").expect("a title");
        title.split_once("</title>").expect("its end").0.to_owned()
    };
    let written = title(&place.read("page.html"));
    assert_eq!(title(&page), written, "nothing changed the title");
    assert_ne!(written, "owned");
    assert!(page.contains("document.title='owned'"), "the texts are shown");
    let browser = Browser::open(&place);
    let list = dump(&browser.entry());
    assert!(list.contains("<h1>Sessions</h1>"), "{list}");
    // Without the server's policy, too.
    for (name, path) in [
        ("Cost", "/usage"),
        ("Pending", "/pending"),
        ("Search", "/search?words=script+owned+svg"),
        ("Window of ", "/window?rev=main"),
    ] {
        place.write("page.html", browser.page(path));
        let page = dump(&format!("file://{}", place.path("page.html").display()));
        assert!(page.contains(&format!("<title>{name}")), "{page}");
    }
}
