//! HTTP clients for the upstreams.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use super::MAX_HEADERS;
use crate::capture::CopiedBody;
use crate::error::{Error, Result};

/// Timeout for connecting. Responses do not have one: models may think for minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response's status line and headers: hyper's default, set so that errors can
/// name it.
pub(super) const MAX_HEAD_BYTES: usize = 408 << 10;
/// How long an idle connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) type ProxyClient = Client<HttpsConnector<HttpConnector>, CopiedBody<Incoming>>;

/// A client for requests, and one for upgrades, which need HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Clients {
    plain: ProxyClient,
    upgrading: ProxyClient,
}

impl Clients {
    pub(crate) fn new() -> Result<Self> {
        let mut roots = RootCertStore::empty();
        // Without system certificates, encrypted connections fail at the handshake; others work.
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let both = HttpsConnectorBuilder::new().with_tls_config(config.clone()).https_or_http();
        let both = both.enable_http1().enable_http2().wrap_connector(connector());
        let first = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        let first = first.enable_http1().wrap_connector(connector());
        Ok(Self { plain: client(both), upgrading: client(first) })
    }

    pub(crate) fn plain(&self) -> &ProxyClient {
        &self.plain
    }

    pub(crate) fn upgrading(&self) -> &ProxyClient {
        &self.upgrading
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

fn client(connector: HttpsConnector<HttpConnector>) -> ProxyClient {
    Client::builder(TokioExecutor::new())
        .http1_preserve_header_case(true)
        .http1_max_headers(MAX_HEADERS)
        .http1_max_buf_size(MAX_HEAD_BYTES)
        .http2_adaptive_window(true)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .build(connector)
}
