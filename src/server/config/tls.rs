//! Certificates from files.

use std::path::PathBuf;

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
        read_all([
            ("store.tls.ca_file", &self.ca_file),
            ("store.tls.certificate_file", &self.certificate_file),
            ("store.tls.key_file", &self.key_file),
        ])
    }
}

// === impl Fleet ===

impl Fleet {
    /// Reads the files. An error names the key and the file.
    pub fn read(&self) -> Result<Certificates, (&'static str, String)> {
        read_all([
            ("fleet.ca_file", &self.ca_file),
            ("fleet.certificate_file", &self.certificate_file),
            ("fleet.key_file", &self.key_file),
        ])
    }
}

fn read_all(files: [(&'static str, &PathBuf); 3]) -> Result<Certificates, (&'static str, String)> {
    let [root, certificate, key] = files;
    let client = read(certificate, has_certificates)?.zip(read(key, has_key)?);
    if let Some((of_client, its_key)) = &client {
        expect_pair(of_client, its_key).map_err(|problem| {
            let (file, other) = (key.1.display(), certificate.0);
            let problem = format!("{file}: does not fit {other}: {problem}");
            (key.0, problem)
        })?;
    }
    Ok(Certificates {
        root: read(root, has_certificates)?,
        client,
    })
}

/// Refuses a key that is not the certificate's: each connection would fail with it.
fn expect_pair(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let chain = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok);
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
    let pair = CertifiedKey::from_der(chain.collect(), key, &ring::default_provider());
    pair.map(drop).map_err(|error| error.to_string())
}

fn read(
    (key, file): (&'static str, &PathBuf),
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
