//! A server on loopback with answers set by the test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    chunks: Vec<Vec<u8>>,
    pauses: Vec<Duration>,
    end: End,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP wants it.
    Whole,
    /// The connection is dropped within the body.
    Dropped,
    /// Nothing more comes, and the connection stays.
    Hanging,
    /// Not even the status comes.
    Silent,
}

impl Answer {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        let (chunks, pauses) = (vec![body.into()], Vec::new());
        Self { status, headers, chunks, pauses, end: End::Whole }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Cuts the body at these places.
    pub(crate) fn cut(mut self, places: &[usize]) -> Self {
        let body = self.chunks.concat();
        let mut from = 0;
        self.chunks.clear();
        for &to in places.iter().chain([&body.len()]) {
            self.chunks.push(body[from..to].to_vec());
            from = to;
        }
        self
    }

    /// Waits that long after each chunk, over and over.
    pub(crate) fn pauses(mut self, pauses: Vec<Duration>) -> Self {
        self.pauses = pauses;
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    address: std::net::SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, answers: Arc::default(), asked: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let serving = serving.clone();
                // A client that hangs up has what it wants.
                tokio::spawn(async move { serving.serve(stream).await.ok() });
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn will_answer(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// The requests that came since it was asked last.
    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut read = Vec::new();
        loop {
            let head_end = loop {
                if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                    break at + 4;
                }
                if stream.read_buf(&mut read).await? == 0 {
                    return Ok(());
                }
            };
            let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut asked = ReceivedRequest { path, head, body: String::new() };
            let length: usize =
                asked.header("content-length").map_or(0, |length| length.parse().unwrap());
            while read.len() < head_end + length {
                if stream.read_buf(&mut read).await? == 0 {
                    return Ok(());
                }
            }
            asked.body = String::from_utf8(read[head_end..head_end + length].to_vec()).unwrap();
            read.drain(..head_end + length);
            self.asked.lock().unwrap().push(asked);
            let answer = self.answers.lock().unwrap().pop_front();
            let answer = answer.unwrap_or_else(|| Answer::new(418, "text/plain", "no answer set"));
            if !self.answer(&mut stream, &answer).await? {
                return Ok(());
            }
        }
    }

    /// Whether the connection continues.
    async fn answer(&self, stream: &mut TcpStream, answer: &Answer) -> std::io::Result<bool> {
        if answer.end == End::Silent {
            std::future::pending::<()>().await;
        }
        let mut head = format!("HTTP/1.1 {} Set\r\ntransfer-encoding: chunked\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        for (n, chunk) in answer.chunks.iter().filter(|chunk| !chunk.is_empty()).enumerate() {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
            stream.write_all(chunk).await?;
            stream.write_all(b"\r\n").await?;
            stream.flush().await?;
            match answer.pauses.get(n % answer.pauses.len().max(1)) {
                Some(pause) if !pause.is_zero() => tokio::time::sleep(*pause).await,
                _ => tokio::task::yield_now().await,
            }
        }
        match answer.end {
            End::Whole => {
                stream.write_all(b"0\r\n\r\n").await?;
                Ok(true)
            }
            End::Dropped => Ok(false),
            End::Hanging | End::Silent => {
                std::future::pending::<()>().await;
                Ok(false)
            }
        }
    }
}
