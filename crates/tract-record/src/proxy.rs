//! The proxy: requests to the upstreams that were configured, byte for byte, with a copy on the side.

mod client;
mod upgrade;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header as names};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use self::client::{Clients, ProxyClient};
use crate::capture::{CopiedBody, Side};
use crate::counts::Reason;
use crate::error::{Error, Result};
use crate::header::{remove_hop_by_hop, takes_trailers};
use crate::recorder::RecorderHandle;
use crate::upstream::Route;

/// Headers of one message, both ways. hyper allows 100 unless it is told otherwise.
const MAX_HEADERS: usize = 1000;

type OutgoingBody = Either<CopiedBody<Incoming>, Full<Bytes>>;

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether an address that other machines reach may be listened on.
    pub allow_remote: bool,
    /// The secret segment of its paths; a new one unless it is set.
    pub secret: Option<String>,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        Self { address, allow_remote: false, secret: None }
    }
}

impl ProxyOptions {
    /// Listens on a free port of this machine alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the address.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets whether an address that other machines reach may be listened on.
    #[must_use]
    pub fn allow_remote(mut self, allow: bool) -> Self {
        self.allow_remote = allow;
        self
    }

    /// Sets the secret segment of its paths, for urls that stay the same.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }
}

/// A proxy that listens.
#[derive(Debug)]
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `/` and the secret segment.
    prefix: String,
    routes: Vec<Route>,
    clients: Clients,
    recorder: RecorderHandle,
}

impl Proxy {
    /// Listens. Requests wait until [`run`](Self::run).
    ///
    /// # Errors
    /// [`Error::NotLoopback`] for an address that other machines reach, unless the options allow it;
    /// [`Error::Listen`] when the port is in use; [`Error::NoUpstream`] without a route.
    pub async fn bind(
        options: &ProxyOptions,
        routes: Vec<Route>,
        recorder: RecorderHandle,
    ) -> Result<Self> {
        if routes.is_empty() {
            return Err(Error::NoUpstream);
        }
        let address = options.address;
        if !address.ip().is_loopback() && !options.allow_remote {
            return Err(Error::NotLoopback { address: address.to_string() });
        }
        let failed = |source| Error::Listen { address: address.to_string(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = match &options.secret {
            Some(secret) => secret.clone(),
            None => new_secret()?,
        };
        let shared =
            Shared { prefix: format!("/{secret}"), routes, clients: Clients::new()?, recorder };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the routes.
    pub fn routes(&self) -> &[Route] {
        &self.shared.routes
    }

    /// Returns the base url that a client uses in the place of the upstream's. Anyone who has it can
    /// use the proxy.
    pub fn base_url(&self, route: &Route) -> String {
        let slash = if route.name.is_empty() { "" } else { "/" };
        let (prefix, path) = (&self.shared.prefix, route.upstream.path());
        format!("http://{}{prefix}{slash}{}{path}", self.address, route.name)
    }

    /// Forwards requests until `stop` ends. Connections that are open then continue as long as the
    /// runtime does.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { listener, shared, .. } = self;
        let accept = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(serve(stream, Arc::clone(&shared)));
                    }
                    // Out of file descriptors, as a rule: some come free when a connection ends.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                }
            }
        };
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
    }
}

fn new_secret() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    // Without it the last bytes of an event may wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(forward(&shared, request).await) }
    });
    // A connection that breaks is the client's affair: what was copied of it is recorded anyway.
    let _ = http1::Builder::new()
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        // A client that leaves and one that closes its sending side look the same. Most leave: the
        // request to the upstream ends, as it does where they are connected directly.
        .half_close(false)
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// Answers in the proxy's own name. Never with a part of a url, which may have a key.
fn refuse(status: StatusCode, what: &str) -> Response<OutgoingBody> {
    let body = format!("{{\"error\":{{\"type\":\"tract_record\",\"message\":\"{what}\"}}}}\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(names::CONTENT_TYPE, kind);
    response
}

/// Says why there is no response. Never with the error's own text, which may have a part of a url.
fn failure(error: &hyper_util::client::legacy::Error) -> String {
    if error.is_connect() {
        return "cannot connect to the upstream".to_owned();
    }
    let first: &dyn std::error::Error = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    let read = causes.find_map(|cause| cause.downcast_ref::<hyper::Error>());
    match read {
        Some(error) if error.is_parse_too_large() => format!(
            "the head of the upstream's response is too large: over {MAX_HEADERS} headers, or over \
             {} bytes",
            client::MAX_HEAD_BYTES
        ),
        Some(error) if error.is_parse() => "the upstream's response is not HTTP".to_owned(),
        _ => "the upstream closed the connection without a response".to_owned(),
    }
}

impl Shared {
    /// Finds the route of a request, and its path and query at the upstream.
    fn route<'a>(&self, request: &'a Request<Incoming>) -> Option<(&Route, &'a str)> {
        let uri = request.uri();
        // A request for another server's url is one to a forward proxy, which this is not.
        if uri.authority().is_some() || request.method() == Method::CONNECT {
            return None;
        }
        let rest = uri.path_and_query()?.as_str().strip_prefix(&self.prefix)?;
        let of = |route: &'_ Route| {
            let rest = match route.name.as_str() {
                "" => rest,
                name => rest.strip_prefix('/')?.strip_prefix(name)?,
            };
            (rest.is_empty() || rest.starts_with(['/', '?'])).then_some(rest)
        };
        self.routes.iter().find_map(|route| Some((route, of(route)?)))
    }
}

async fn forward(shared: &Shared, mut request: Request<Incoming>) -> Response<OutgoingBody> {
    let Some((route, path)) = shared.route(&request) else {
        return refuse(StatusCode::NOT_FOUND, "this path is not one of the proxy's");
    };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let Some(uri) = route.upstream.at(&path) else {
        return refuse(StatusCode::BAD_REQUEST, "the path is no path of a url");
    };
    let is_upgrade = upgrade::is_asked_for(request.headers());
    let client_side = is_upgrade.then(|| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    let upgrade_to = parts.headers.get(names::UPGRADE).cloned().filter(|_| is_upgrade);
    let takes_trailers = takes_trailers(&parts.headers);
    // The client names the proxy as the host; the upstream's name comes from its url.
    remove_hop_by_hop(&mut parts.headers, &[names::HOST]);
    if takes_trailers {
        parts.headers.insert(names::TE, HeaderValue::from_static("trailers"));
    }
    parts.uri = uri;
    parts.version = Version::HTTP_11;
    let client: &ProxyClient = match upgrade_to {
        Some(protocol) => {
            parts.headers.insert(names::CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(names::UPGRADE, protocol);
            shared.clients.upgrading()
        }
        None => shared.clients.plain(),
    };
    let capture = shared.recorder.capture(&parts, &path);
    let body = CopiedBody::new(body, Arc::clone(&capture), Side::Request);
    let mut response = match client.request(Request::from_parts(parts, body)).await {
        Ok(response) => response,
        Err(error) => {
            return refuse(StatusCode::BAD_GATEWAY, &failure(&error));
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        capture.skip(Reason::WebSocket);
        if let Some(client_side) = client_side {
            upgrade::connect(client_side, hyper::upgrade::on(&mut response));
        }
        let (parts, _) = response.into_parts();
        return Response::from_parts(parts, Either::Right(Full::default()));
    }
    let (mut parts, body) = response.into_parts();
    remove_hop_by_hop(&mut parts.headers, &[]);
    parts.version = Version::HTTP_11;
    capture.respond(&parts);
    Response::from_parts(parts, Either::Left(CopiedBody::new(body, capture, Side::Response)))
}
