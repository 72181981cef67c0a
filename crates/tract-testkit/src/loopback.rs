//! An HTTP server on loopback for tests of clients. It answers correctly, slowly, or not at all.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A received request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The request line and the headers.
    pub head: String,
    /// The body as text.
    pub body: String,
    /// The body as received.
    pub bytes: Vec<u8>,
}

impl HttpRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpEnd {
    /// As HTTP requires.
    #[default]
    Whole,
    /// The connection is closed within the body.
    Dropped,
    /// The server sends nothing more until the client closes the connection.
    Hanging,
    /// The server sends nothing, not even the status, until the client closes the connection.
    Silent,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    chunks: Vec<Vec<u8>>,
    pauses: Vec<Duration>,
    end: HttpEnd,
}

impl HttpAnswer {
    /// Makes an answer; an empty content type is not sent.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let (chunks, pauses) = (vec![body.into()], Vec::new());
        let answer = Self { status, headers: Vec::new(), chunks, pauses, end: HttpEnd::Whole };
        if content_type.is_empty() { answer } else { answer.header("content-type", content_type) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Splits the body at these positions; each piece is sent separately.
    #[must_use]
    pub fn cut(mut self, positions: &[usize]) -> Self {
        let body = self.chunks.concat();
        let mut from = 0;
        self.chunks.clear();
        for &to in positions.iter().chain([&body.len()]) {
            self.chunks.push(body.get(from..to).unwrap_or_default().to_vec());
            from = to;
        }
        self
    }

    /// Waits after each piece; the durations repeat.
    #[must_use]
    pub fn pauses(mut self, pauses: Vec<Duration>) -> Self {
        self.pauses = pauses;
        self
    }

    /// Sets how it ends.
    #[must_use]
    pub fn end(mut self, end: HttpEnd) -> Self {
        self.end = end;
        self
    }

    /// Writes the answer; returns whether the connection stays open.
    fn write(&self, stream: &mut TcpStream) -> io::Result<bool> {
        if self.end == HttpEnd::Silent {
            return wait_for_close(stream);
        }
        let mut head = format!("HTTP/1.1 {} Test\r\ntransfer-encoding: chunked\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        for (n, chunk) in self.chunks.iter().filter(|chunk| !chunk.is_empty()).enumerate() {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")?;
            stream.flush()?;
            if let Some(pause) = self.pauses.get(n % self.pauses.len().max(1)) {
                std::thread::sleep(*pause);
            }
        }
        match self.end {
            HttpEnd::Whole => stream.write_all(b"0\r\n\r\n").map(|()| true),
            HttpEnd::Dropped => Ok(false),
            HttpEnd::Hanging | HttpEnd::Silent => wait_for_close(stream),
        }
    }
}

fn wait_for_close(stream: &mut TcpStream) -> io::Result<bool> {
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(false)
}

/// A server that records requests, and runs until the process ends.
#[derive(Clone, Debug)]
pub struct Loopback {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<HttpRequest>>>,
    answers: Arc<Mutex<VecDeque<HttpAnswer>>>,
}

/// After a panic in a test the server still answers other connections, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loopback {
    /// Starts a server on a free port of 127.0.0.1, with a thread per connection. A function
    /// returns the answers.
    ///
    /// # Errors
    /// If no port is available.
    pub fn start(
        answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::serving(Arc::default(), answer)
    }

    /// Starts a server that returns the answers one by one, and status 418 after the last.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn answering(answers: impl IntoIterator<Item = HttpAnswer>) -> io::Result<Self> {
        let answers: Arc<Mutex<VecDeque<HttpAnswer>>> =
            Arc::new(Mutex::new(answers.into_iter().collect()));
        let left = Arc::clone(&answers);
        let next = move |_: &HttpRequest| {
            let answer = lock(&left).pop_front();
            answer.unwrap_or_else(|| HttpAnswer::new(418, "text/plain", "no answer is left"))
        };
        Self::serving(answers, next)
    }

    fn serving(
        answers: Arc<Mutex<VecDeque<HttpAnswer>>>,
        answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Self { address: listener.local_addr()?, requests: Arc::default(), answers };
        let (requests, answer) = (Arc::clone(&server.requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                // A client that closes the connection is done.
                std::thread::spawn(move || serve(stream, &requests, &*answer).ok());
            }
        });
        Ok(server)
    }

    /// Adds an answer to a server started by [`answering`](Self::answering).
    pub fn will_answer(&self, answer: HttpAnswer) {
        lock(&self.answers).push_back(answer);
    }

    /// Returns the number of remaining answers.
    pub fn answers_left(&self) -> usize {
        lock(&self.answers).len()
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Takes the requests received since the last call, in order.
    pub fn take_requests(&self) -> Vec<HttpRequest> {
        std::mem::take(&mut lock(&self.requests))
    }
}

fn serve(
    mut stream: TcpStream,
    requests: &Mutex<Vec<HttpRequest>>,
    answer: &(dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync),
) -> io::Result<()> {
    // Small pieces must be sent at once.
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let length = header(&head, "content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let mut words = head.split(' ').map(str::to_owned);
        let request = HttpRequest {
            method: words.next().unwrap_or_default(),
            path: words.next().unwrap_or_default(),
            body: String::from_utf8_lossy(&body).into_owned(),
            bytes: body,
            head,
        };
        let answer = answer(&request);
        lock(requests).push(request);
        if !answer.write(&mut stream)? {
            return Ok(());
        }
    }
}
