//! An upstream that speaks HTTP/2 behind TLS, as the providers' own do.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto, pki_types::PrivatePkcs8KeyDer};

use crate::recording::{ANSWER, asks};
use crate::support::{RunOutput, Workspace};

/// A request as the server saw it.
#[derive(Debug)]
struct Seen {
    version: Version,
    authority: Option<String>,
    path: String,
    key: Option<String>,
    body: String,
}

/// Starts a server of HTTP/2 alone; returns its port, its certificate, and what it sees.
fn server() -> (u16, String, Arc<Mutex<Vec<Seen>>>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it is made");
    let certificate = made.cert.pem();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("it has them")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("they belong together");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it is set");
    let port = listener.local_addr().expect("an address").port();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let sees = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it listens");
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, sees) = (acceptor.clone(), Arc::clone(&sees));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(request, Arc::clone(&sees)));
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
    });
    (port, certificate, seen)
}

async fn answer(
    request: Request<Incoming>,
    sees: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let key = parts.headers.get("x-api-key").and_then(|key| key.to_str().ok());
    sees.lock().expect("no test panics with it").push(Seen {
        version: parts.version,
        authority: parts.uri.authority().map(ToString::to_string),
        path: parts.uri.path().to_owned(),
        key: key.map(str::to_owned),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let mut response = Response::new(Full::from(ANSWER));
    let kind = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

#[test]
fn an_upstream_of_http_2_is_recorded() {
    let (place, (port, certificate, seen)) = (Workspace::new(), server());
    place.write("root.pem", certificate);
    let record = ["record", "--", "bash", "-c", &asks("ANTHROPIC_BASE_URL", 0)];
    let mut command = place.command(&record);
    command.env("ANTHROPIC_BASE_URL", format!("https://localhost:{port}"));
    let stderr = RunOutput::after(command.env("SSL_CERT_FILE", place.path("root.pem"))).stderr;
    assert!(stderr.contains("recorded 1 of 1 exchange"), "{stderr}");
    let seen = seen.lock().expect("no test panics with it");
    let [request] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(request.version, Version::HTTP_2);
    assert_eq!(request.authority, Some(format!("localhost:{port}")));
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.key.as_deref(), Some("k"));
    assert!(request.body.contains(r#""content":"Hi""#), "{}", request.body);
    // The client speaks HTTP/1.1, and got what was sent.
    let got = place.read("answer");
    assert!(got.starts_with("HTTP/1.1 200 OK") && got.contains("Hello."), "{got}");
    let text = place.ok(&["cat", "record/s"]);
    assert!(text.contains("Hi") && text.contains("Hello."), "{text}");
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_error_of_the_upstream() {
    let (place, (port, _, seen)) = (Workspace::new(), server());
    let base = "ANTHROPIC_BASE_URL";
    let record = ["record", "--", "bash", "-c", &asks(base, 0)];
    // The client's own code.
    place.run_with(base, format!("https://localhost:{port}"), &record).expect(0);
    let got = place.read("answer");
    assert!(got.starts_with("HTTP/1.1 502 Bad Gateway"), "{got}");
    assert!(seen.lock().expect("no test panics with it").is_empty());
}
