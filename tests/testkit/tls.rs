//! The certificate of Redis servers that speak TLS, and of their clients; nobody else trusts it.

use std::{fs, net::Ipv4Addr};

use rcgen::generate_simple_self_signed;
use tempfile::TempDir;

/// A certificate and its key, as files.
pub struct Certificate(TempDir);

// === impl Certificate ===

impl Certificate {
    /// One for servers at these addresses.
    pub fn of(addresses: &[Ipv4Addr]) -> Self {
        let names: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let made = generate_simple_self_signed(names).expect("a certificate");
        let it = Self(TempDir::new().expect("a temporary directory"));
        fs::write(it.certificate(), made.cert.pem()).expect("written");
        fs::write(it.key(), made.signing_key.serialize_pem()).expect("written");
        it
    }

    /// The file of the certificate, by which coordinators know the servers.
    pub fn certificate(&self) -> String {
        self.file("certificate.pem")
    }

    /// The arguments of a server or sentinel that shows it, asks its clients for theirs or not, and
    /// reaches others by TLS, too.
    pub fn arguments(&self, auth_clients: bool) -> [String; 12] {
        [
            "--tls-cert-file",
            &self.certificate(),
            "--tls-key-file",
            &self.key(),
            "--tls-ca-cert-file",
            &self.certificate(),
            "--tls-auth-clients",
            if auth_clients { "yes" } else { "no" },
            "--tls-replication",
            "yes",
            "--tls-cluster",
            "yes",
        ]
        .map(str::to_owned)
    }

    pub fn key(&self) -> String {
        self.file("key.pem")
    }

    /// A file beside them.
    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}
