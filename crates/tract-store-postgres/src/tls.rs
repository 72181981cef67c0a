//! Encrypted connections with rustls and ring. The server's name is always verified.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use tract_core::{StoreErrorKind, StoreResult};

use crate::error::new;

/// Creates a connector that trusts the certificates of a file, or else those of the operating
/// system.
pub(crate) fn connector(root_certificates: Option<&str>) -> StoreResult<MakeRustlsConnect> {
    let refused = |message: String| new(StoreErrorKind::Invalid, "open", message);
    let mut roots = RootCertStore::empty();
    match root_certificates {
        Some(path) => {
            let unreadable = |error| refused(format!("{path} holds no certificates: {error}"));
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                roots.add(certificate).map_err(|error| refused(format!("{path}: {error}")))?;
            }
        }
        // Without any certificates, the handshake fails, and only encrypted connections have one.
        None => {
            let found = rustls_native_certs::load_native_certs();
            let _ = roots.add_parsable_certificates(found.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
