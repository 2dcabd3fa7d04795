//! Certificates from files.

use std::path::Path;

use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::{Fleet, StoreTls};

/// The contents of the files (PEM); none without a file.
#[derive(Clone, Default)]
pub struct Certificates {
    /// The trusted authorities.
    pub root: Option<Vec<u8>>,
    /// The client certificate and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

// === impl StoreTls ===

impl StoreTls {
    /// Reads the files. An error names the key and the file.
    pub fn read(&self) -> Result<Certificates, (&'static str, String)> {
        let root = read("store.tls.ca_file", &self.ca_file, has_certificates)?;
        let file = &self.certificate_file;
        let certificate = read("store.tls.certificate_file", file, has_certificates)?;
        let key = read("store.tls.key_file", &self.key_file, has_key)?;
        Ok(Certificates {
            root,
            client: certificate.zip(key),
        })
    }

    /// Refuses a key that is not the certificate's: each connection would fail with it. An error
    /// names the key and the file.
    pub fn expect_pair(
        &self,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<(), (&'static str, String)> {
        let chain = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok);
        let provider = ring::default_provider();
        let pair = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| error.to_string())
            .and_then(|key| {
                let pair = CertifiedKey::from_der(chain.collect(), key, &provider);
                pair.map_err(|error| error.to_string())
            });
        pair.map(drop).map_err(|problem| {
            let file = self.key_file.display();
            let problem = format!("{file}: does not fit store.tls.certificate_file: {problem}");
            ("store.tls.key_file", problem)
        })
    }
}

impl Fleet {
    /// Reads the files. An error names the key and the file.
    pub fn read(&self) -> Result<Certificates, (&'static str, String)> {
        let root = read("fleet.ca_file", &self.ca_file, has_certificates)?;
        let file = &self.certificate_file;
        let certificate = read("fleet.certificate_file", file, has_certificates)?;
        let key = read("fleet.key_file", &self.key_file, has_key)?;
        Ok(Certificates {
            root,
            client: certificate.zip(key),
        })
    }
}

fn read(
    key: &'static str,
    file: &Path,
    is_usable: fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>, (&'static str, String)> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    let refuse = |problem: String| Err((key, format!("{}: {problem}", file.display())));
    match std::fs::read(file) {
        Ok(pem) if is_usable(&pem) => Ok(Some(pem)),
        Ok(_) => refuse("does not have the expected PEM content".to_owned()),
        Err(error) => refuse(error.to_string()),
    }
}

fn has_certificates(pem: &[u8]) -> bool {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.is_ok_and(|all| !all.is_empty())
}

fn has_key(pem: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(pem).is_ok()
}
