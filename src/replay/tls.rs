//! TLS of the client: ring, the system's root certificates, HTTP/1.1 alone. No global is set.

use super::error::ReplayError;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Returns a configuration, with the system's root certificates if `with_roots`.
///
/// # Errors
///
/// [`ReplayError::Tls`] when the system has none.
pub(super) fn client_config(with_roots: bool) -> Result<ClientConfig, ReplayError> {
    let mut roots = RootCertStore::empty();
    if with_roots {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let reason = "no usable root certificates found on this system".to_owned();
            return Err(ReplayError::Tls { reason });
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ReplayError::Tls { reason: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
