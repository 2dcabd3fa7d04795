//! Connections to other coordinators.

use std::{sync::Arc, time::Duration};

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// How long another coordinator may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of pings while an answer is awaited or events are streamed.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Makes the connection to an address, which is opened by the first call; why not, if it cannot be
/// one.
pub type Connect = dyn Fn(&str) -> Result<Channel, String> + Send + Sync;

/// Connections by TCP. Those to `https://` trust these authorities (PEM), or those of the system,
/// and expect this name in the certificate, or that of the address. They show this certificate with
/// its key, which opens connections but says nothing about callers.
pub fn connect(
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
    server_name: String,
) -> Arc<Connect> {
    Arc::new(move |address| {
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|it| it.to_string())?;
        let mut endpoint = endpoint
            .connect_timeout(TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE);
        if address.starts_with("https://") {
            let tls = ClientTlsConfig::new();
            let tls = match &ca {
                Some(ca) => tls.ca_certificate(Certificate::from_pem(ca)),
                None => tls.with_native_roots(),
            };
            let tls = match &client {
                Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
                None => tls,
            };
            let tls = match server_name.as_str() {
                "" => tls,
                name => tls.domain_name(name),
            };
            endpoint = endpoint.tls_config(tls).map_err(|it| it.to_string())?;
        }
        Ok(endpoint.connect_lazy())
    })
}
