//! An upstream that answers what it is told and remembers what it got, and a client that sends
//! bytes as they are given.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tract_core::store::Store;
use tract_core::{Content, RefName};
use tract_engine::{Repo, RepoOptions};
use tract_record::{Proxy, ProxyOptions, RecordReport, Recorder, RecorderOptions, Route};

/// How long a test waits for what must happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A message of HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The first line.
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended in order.
    pub(crate) is_whole: bool,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer of the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Bytes of each chunk.
    pub(crate) chunk: usize,
    /// Closes the connection after so many bytes.
    pub(crate) cut_at: Option<usize>,
    /// Whether it waits there for the client to leave.
    pub(crate) hangs: bool,
    /// A header after the body.
    pub(crate) trailer: Option<&'static str>,
}

impl Answer {
    pub(crate) fn new(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Self {
            status: "200 OK",
            headers,
            body: body.into(),
            chunk: 1 << 16,
            cut_at: None,
            hangs: false,
            trailer: None,
        }
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::new("application/json", body)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn trailer(self, line: &'static str) -> Self {
        Self { trailer: Some(line), ..self }
    }

    pub(crate) fn status(mut self, status: &'static str) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes;
        self
    }

    pub(crate) fn cut_at(mut self, bytes: usize) -> Self {
        self.cut_at = Some(bytes);
        self
    }

    pub(crate) fn hang_at(self, bytes: usize) -> Self {
        Self { hangs: true, ..self.cut_at(bytes) }
    }
}

/// A server on loopback.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    got: Arc<Mutex<Vec<Message>>>,
}

impl Server {
    /// Answers each request with the next answer; the last one again when there is no other.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let got = Arc::new(Mutex::new(Vec::new()));
        let (next, seen) = (Arc::clone(&answers), Arc::clone(&got));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&next), Arc::clone(&seen)));
            }
        });
        Self { address, answers, got }
    }

    pub(crate) fn next(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    pub(crate) fn got(&self) -> Vec<Message> {
        self.got.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    got: Arc<Mutex<Vec<Message>>>,
) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some(request) = read_message(&mut stream, &mut buffer).await {
        let is_upgrade = request.header("upgrade").is_some();
        got.lock().unwrap().push(request);
        if is_upgrade {
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                        upgrade: websocket\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut piece = [0; 100];
            while let Ok(count @ 1..) = stream.read(&mut piece).await {
                let echo: Vec<u8> = piece[..count].iter().rev().copied().collect();
                stream.write_all(&echo).await.unwrap();
            }
            return;
        }
        let answer = {
            let mut answers = answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
        };
        let Some(answer) = answer else { return };
        if write_answer(&mut stream, &answer).await.is_err() || answer.cut_at.is_some() {
            return;
        }
    }
}

async fn write_answer(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {}\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    let end = answer.cut_at.unwrap_or(answer.body.len());
    for chunk in answer.body[..end].chunks(answer.chunk) {
        let mut piece = format!("{:x}\r\n", chunk.len()).into_bytes();
        piece.extend_from_slice(chunk);
        piece.extend_from_slice(b"\r\n");
        stream.write_all(&piece).await?;
    }
    if answer.hangs {
        let _ = stream.read(&mut [0]).await;
    }
    if answer.cut_at.is_none() {
        let trailer = answer.trailer.map(|line| format!("{line}\r\n")).unwrap_or_default();
        stream.write_all(format!("0\r\n{trailer}\r\n").as_bytes()).await?;
    }
    Ok(())
}

/// Reads a message; `None` when the connection ends before it has a head.
pub(crate) async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Message> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at;
        }
        if !more(stream, buffer).await {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..head_end + 4).collect()).unwrap();
    let mut lines = head.trim_end().lines();
    let mut message = Message { start: lines.next().unwrap().to_owned(), ..Message::default() };
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        message.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    if message.header("transfer-encoding").is_some() {
        loop {
            let Some(end) = find(buffer, b"\r\n") else {
                if !more(stream, buffer).await {
                    return Some(message);
                }
                continue;
            };
            let size = std::str::from_utf8(&buffer[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            while buffer.len() < end + 2 + size + 2 {
                if !more(stream, buffer).await {
                    return Some(message);
                }
            }
            message.body.extend_from_slice(&buffer[end + 2..end + 2 + size]);
            buffer.drain(..end + 2 + size + 2);
            if size == 0 {
                message.is_whole = true;
                return Some(message);
            }
        }
    }
    let length = message.header("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < length {
        if !more(stream, buffer).await {
            message.body = std::mem::take(buffer);
            return Some(message);
        }
    }
    message.body = buffer.drain(..length).collect();
    message.is_whole = true;
    Some(message)
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> bool {
    let mut piece = [0; 1 << 14];
    let count = tokio::time::timeout(LONG, stream.read(&mut piece)).await;
    let count = count.expect("the other side answers").unwrap_or(0);
    buffer.extend_from_slice(&piece[..count]);
    count > 0
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A proxy that runs in front of a server.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) repo: Repo,
    pub(crate) recorder: Recorder,
    pub(crate) address: SocketAddr,
    /// The path of its base url.
    pub(crate) base: String,
    stop: Option<oneshot::Sender<()>>,
}

pub(crate) fn memory_repo() -> Repo {
    Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default())
}

impl Bench {
    pub(crate) async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::with(memory_repo(), &RecorderOptions::default(), answers).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        Self::with(Repo::new(store, RepoOptions::default()), &RecorderOptions::default(), answers)
            .await
    }

    pub(crate) async fn with(
        repo: Repo,
        options: &RecorderOptions,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let server = Server::start(answers).await;
        let recorder = Recorder::start(repo.clone(), options).unwrap();
        let upstream = format!("http://{}", server.address).parse().unwrap();
        let route = Route::only(upstream);
        let options = ProxyOptions::default();
        let proxy = Proxy::bind(&options, vec![route.clone()], recorder.handle());
        let proxy = proxy.await.unwrap();
        let (address, url) = (proxy.address(), proxy.base_url(&route));
        let base = url.strip_prefix(&format!("http://{address}")).unwrap().to_owned();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(proxy.run(async {
            let _ = stopped.await;
        }));
        Self { server, repo, recorder, address, base, stop: Some(stop) }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a request in pieces of so many bytes, and reads what comes back.
    pub(crate) async fn send(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        piece: usize,
    ) -> Message {
        let mut stream = self.connect().await;
        let request = self.request("POST", path, headers, body);
        for piece in request.chunks(piece) {
            stream.write_all(piece).await.unwrap();
        }
        read_message(&mut stream, &mut Vec::new()).await.expect("a response")
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Message {
        self.send(path, &[], body.as_bytes(), usize::MAX).await
    }

    /// Posts a request and waits until it is recorded.
    pub(crate) async fn record(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Message {
        let got = self.send(path, headers, body.as_bytes(), usize::MAX).await;
        self.settle().await;
        got
    }

    /// Fetches a path and waits until that is dealt with.
    pub(crate) async fn get(&self, path: &str) -> Message {
        let request = self.request("GET", path, &[], b"");
        let got = exchange(self.address, &request).await;
        self.settle().await;
        got
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let (base, length) = (&self.base, body.len());
        let mut head = format!("{method} {base}{path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
        [head.as_bytes(), body].concat()
    }

    /// Waits until all is recorded.
    pub(crate) async fn settle(&self) -> RecordReport {
        self.recorder.settle(LONG).await;
        self.recorder.report()
    }

    pub(crate) async fn finish(mut self) -> RecordReport {
        drop(self.stop.take());
        self.recorder.finish(LONG).await
    }

    /// The branches, by name.
    pub(crate) async fn branches(&self) -> Vec<String> {
        let branches = self.repo.branches().await.unwrap();
        branches.into_iter().map(|branch| branch.name).collect()
    }

    /// The only branch there is.
    pub(crate) async fn only_branch(&self) -> String {
        let mut branches = self.branches().await;
        assert_eq!(branches.len(), 1, "{branches:?}");
        branches.remove(0)
    }

    /// The kind of each message of a branch.
    pub(crate) async fn kinds(&self, branch: &str) -> Vec<String> {
        self.transcript(branch).await.into_iter().map(|(kind, _)| kind).collect()
    }

    /// The text of each message of a branch.
    pub(crate) async fn texts(&self, branch: &str) -> Vec<String> {
        self.transcript(branch).await.into_iter().map(|(_, text)| text).collect()
    }

    /// What a branch says: kind and text of each message.
    pub(crate) async fn transcript(&self, branch: &str) -> Vec<(String, String)> {
        let contents = self.contents(branch).await;
        contents.iter().map(|c| (c.kind().as_str().to_owned(), c.text())).collect()
    }

    pub(crate) async fn contents(&self, branch: &str) -> Vec<Content> {
        let name = RefName::branch(branch).unwrap();
        let head = self.repo.head_of(&name).await.unwrap();
        assert!(head.is_some(), "no branch {branch} in {:?}", self.branches().await);
        let compiled = self.repo.compile(head).await.unwrap();
        compiled.messages().map(|message| message.content.clone()).collect()
    }
}

/// Sends the bytes of a request and reads the response.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> Message {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    read_message(&mut stream, &mut Vec::new()).await.expect("a response")
}

/// An answer of Anthropic's as a stream in small chunks.
pub(crate) fn stream(text: &str) -> Answer {
    Answer::new("text/event-stream", anthropic_stream(text)).chunk(17)
}

/// An answer of Anthropic's as a stream.
pub(crate) fn anthropic_stream(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"msg_1\",\
         \"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-test\",\"content\":[],\
         \"stop_reason\":null,\"usage\":{{\"input_tokens\":3,\"output_tokens\":1}}}}}}\n\n\
         event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":0,\
         \"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
         event: ping\ndata: {{\"type\":\"ping\"}}\n\n\
         event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
         \"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n\
         event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
         event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":\
         {{\"stop_reason\":\"end_turn\"}},\"usage\":{{\"output_tokens\":5}}}}\n\n\
         event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
    )
}

/// A request of Anthropic's with these messages in turn: the user's first.
pub(crate) fn anthropic_request(texts: &[&str]) -> String {
    let message = |(place, text): (usize, &&str)| {
        let role = if place % 2 == 0 { "user" } else { "assistant" };
        serde_json::json!({ "role": role, "content": text })
    };
    let messages: Vec<_> = texts.iter().enumerate().map(message).collect();
    serde_json::json!({
        "model": "claude-test", "max_tokens": 100, "stream": true,
        "system": "Be brief.",
        "tools": [{ "name": "read", "input_schema": { "type": "object" } }],
        "messages": messages,
    })
    .to_string()
}
