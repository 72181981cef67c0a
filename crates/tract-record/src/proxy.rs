//! The proxy: forwards requests to the configured upstreams byte for byte, and keeps a copy.

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

/// Maximum number of headers of a message, in both directions. The default of hyper is 100.
const MAX_HEADERS: usize = 1000;

type OutgoingBody = Either<CopiedBody<Incoming>, Full<Bytes>>;

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The address to listen on; port 0 selects a free port.
    pub address: SocketAddr,
    /// Whether an address that other machines can reach is allowed.
    pub allow_remote: bool,
    /// The secret segment of its paths; random unless it is set.
    pub secret: Option<String>,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        Self { address, allow_remote: false, secret: None }
    }
}

/// A listening proxy.
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
    /// [`Error::NotLoopback`] for an address that other machines can reach, unless the options
    /// allow it; [`Error::Listen`] if the port is in use; [`Error::NoUpstream`] without a route.
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

    /// Returns the base URL that a client uses in place of the upstream's. Anyone who has it can
    /// use the proxy.
    pub fn base_url(&self, route: &Route) -> String {
        let slash = if route.name.is_empty() { "" } else { "/" };
        let (prefix, path) = (&self.shared.prefix, route.upstream.path());
        format!("http://{}{prefix}{slash}{}{path}", self.address, route.name)
    }

    /// Forwards requests until `stop` completes. Connections that are open then continue as long as
    /// the runtime runs.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { listener, shared, .. } = self;
        let accept = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        tokio::spawn(serve(stream, Arc::clone(&shared)));
                    }
                    // Usually out of file descriptors; some are freed when a connection ends.
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
    // With Nagle's algorithm the last bytes of an event may wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(forward(&shared, request).await) }
    });
    // A broken connection is the client's problem. The bytes copied so far are recorded anyway.
    let _ = http1::Builder::new()
        .preserve_header_case(true)
        .max_headers(MAX_HEADERS)
        // A client that exits and one that closes only its sending side look the same. Most exit,
        // so the upstream request is canceled, as it is without a proxy.
        .half_close(false)
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// Builds an error response of the proxy itself. It must not quote a URL, which may contain a key.
fn refuse(status: StatusCode, what: &str) -> Response<OutgoingBody> {
    let body = format!("{{\"error\":{{\"type\":\"tract_record\",\"message\":\"{what}\"}}}}\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(names::CONTENT_TYPE, kind);
    response
}

/// Describes why there is no response. The error's own text is not used, as it may quote a URL.
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
        // An absolute URL is a request to a forward proxy, which this is not.
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
    // The client sent the proxy's host name; the upstream's comes from the URL.
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
