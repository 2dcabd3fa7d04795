//! The certificate of servers that speak TLS, which only their coordinators trust.

use std::{fs, net::Ipv4Addr};

use rcgen::generate_simple_self_signed;
use tempfile::TempDir;

/// A certificate and its key, as files.
pub(crate) struct Certificate(TempDir);

// === impl Certificate ===

impl Certificate {
    /// One for servers at these addresses.
    pub(crate) fn of(addresses: &[Ipv4Addr]) -> Self {
        let names: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let made = generate_simple_self_signed(names).expect("a certificate");
        let it = Self(TempDir::new().expect("a temporary directory"));
        fs::write(it.certificate(), made.cert.pem()).expect("written");
        fs::write(it.key(), made.signing_key.serialize_pem()).expect("written");
        it
    }

    /// The file of the certificate, by which coordinators know the servers.
    pub(crate) fn certificate(&self) -> String {
        self.file("certificate.pem")
    }

    /// The arguments of a server or sentinel that shows it, asks its clients for none, and reaches
    /// others by TLS, too.
    pub(crate) fn arguments(&self) -> [String; 12] {
        [
            "--tls-cert-file",
            &self.certificate(),
            "--tls-key-file",
            &self.key(),
            "--tls-ca-cert-file",
            &self.certificate(),
            "--tls-auth-clients",
            "no",
            "--tls-replication",
            "yes",
            "--tls-cluster",
            "yes",
        ]
        .map(str::to_owned)
    }

    fn key(&self) -> String {
        self.file("key.pem")
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}
