//! The identity of the client: certificates and tokens. Files are read for every connection, so
//! that renewed ones take effect.

use std::{
    fmt,
    path::{Path, PathBuf},
};

#[cfg(feature = "tls")]
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tonic::{
    Request, Status,
    metadata::{AsciiMetadataValue, MetadataValue},
    service::Interceptor,
    transport::Endpoint,
};

use crate::{Address, Error};

/// The certificates for connections to `https://`, as files in PEM form. They are read for every
/// connection.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// The authorities to trust; `None` for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The client's certificate, if the coordinator requires one.
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate.
    pub key: Option<PathBuf>,
    /// The name in the coordinator's certificate; `None` for the host of the address.
    pub server_name: Option<String>,
}

/// A bearer token, sent with every call.
#[derive(Clone)]
pub enum Token {
    /// The token itself.
    Text(String),
    /// A file with the token. It is read for every call, because it is replaced when the token is
    /// renewed.
    File(PathBuf),
}

/// Adds the token, if there is one, to every call.
#[derive(Clone, Debug)]
pub struct Authorize(pub(crate) Option<Token>);

// === impl TlsFiles ===

impl TlsFiles {
    /// Fails if a file cannot be read, or if `https://` is not supported at all.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.read().map(drop)
    }

    /// Makes connections to an endpoint use TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn apply(&self, endpoint: Endpoint, address: &Address) -> Result<Endpoint, Error> {
        endpoint.tls_config(self.read()?).map_err(|error| {
            let cause = crate::transport_error::describe(&error);
            Error::Misconfigured(format!("{address}: {cause}"))
        })
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn apply(&self, _: Endpoint, _: &Address) -> Result<Endpoint, Error> {
        match self.read()? {}
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "files are not read without the feature")]
    fn read(&self) -> Result<std::convert::Infallible, Error> {
        let why = "https:// needs the feature `tls` of the crate lockkeeper-client";
        Err(Error::Misconfigured(why.to_owned()))
    }

    #[cfg(feature = "tls")]
    fn read(&self) -> Result<ClientTlsConfig, Error> {
        let mut tls = ClientTlsConfig::new();
        tls = match &self.ca {
            Some(file) => tls.ca_certificate(Certificate::from_pem(certificates(file)?)),
            None => tls.with_native_roots(),
        };
        tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                tls.identity(Identity::from_pem(read(certificate)?, read(key)?))
            }
            (None, None) => tls,
            _ => {
                let why = "a client certificate needs its key, and the key its certificate";
                return Err(Error::Misconfigured(why.to_owned()));
            }
        };
        Ok(match &self.server_name {
            Some(name) => tls.domain_name(name),
            None => tls,
        })
    }
}

/// The contents of a file with certificates. Without any, every server would be distrusted.
#[cfg(feature = "tls")]
fn certificates(file: &Path) -> Result<Vec<u8>, Error> {
    let pem = read(file)?;
    let marker = b"-----BEGIN CERTIFICATE-----";
    if pem.windows(marker.len()).any(|it| it == marker) {
        return Ok(pem);
    }
    let why = format!("{}: has no certificate (PEM)", file.display());
    Err(Error::Misconfigured(why))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file)
        .map_err(|error| Error::Misconfigured(format!("{}: {error}", file.display())))
}

// === impl Token ===

impl Token {
    fn header(&self) -> Result<AsciiMetadataValue, Error> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::File(file) => String::from_utf8_lossy(&read(file)?).into_owned(),
        };
        if let (Self::File(file), "") = (self, text.trim()) {
            let why = format!("{}: is empty, and should have a token", file.display());
            return Err(Error::Misconfigured(why));
        }
        let value: Result<AsciiMetadataValue, _> = format!("Bearer {}", text.trim()).parse();
        let mut value: MetadataValue<_> =
            value.map_err(|_| Error::Misconfigured("a token has invalid characters".into()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Token"),
            Self::File(file) => write!(f, "Token({})", file.display()),
        }
    }
}

// === impl Authorize ===

impl Interceptor for Authorize {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let header = token
                .header()
                .map_err(|error| Status::unauthenticated(error.to_string()))?;
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_file_is_read_for_every_call() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut authorize = Authorize(Some(Token::File(file.path().to_owned())));
        let mut shown = || {
            let request = authorize.call(Request::new(())).unwrap();
            let header = request.metadata().get("authorization").unwrap().clone();
            assert!(header.is_sensitive());
            header.to_str().unwrap().to_owned()
        };
        std::fs::write(file.path(), "one\n").unwrap();
        assert_eq!(shown(), "Bearer one");
        std::fs::write(file.path(), "two\n").unwrap();
        assert_eq!(shown(), "Bearer two");
    }

    #[test]
    fn what_cannot_be_read_is_named_and_tokens_are_not_printed() {
        let mut authorize = Authorize(Some(Token::File("/nowhere/token".into())));
        let refused = authorize.call(Request::new(())).unwrap_err();
        assert!(refused.message().starts_with("/nowhere/token: "));
        let token = Token::Text("secret".to_owned());
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_key_without_its_certificate_is_refused() {
        let half = TlsFiles {
            key: Some("/nowhere/key".into()),
            ..TlsFiles::default()
        };
        assert!(half.check().is_err());
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn https_needs_the_feature_tls() {
        let client = crate::Client::builder().endpoint("https://locks:7625");
        let refused = client.unwrap().build().unwrap_err();
        assert!(matches!(&refused, Error::Misconfigured(why) if why.contains("feature `tls`")));
    }
}
