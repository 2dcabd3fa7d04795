//! The coordinator's address, and the credentials for it.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_client::{Address, Client, Error, TlsFiles, Token};

const DEFAULT_SERVER: &str = "http://127.0.0.1:7625";

/// The connection to a coordinator.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// The coordinator; also `https://HOST:PORT` and `unix:///PATH`.
    #[arg(long, value_name = "URL", env = "LOCKKEEPER_SERVER", default_value = DEFAULT_SERVER)]
    pub server: Address,
    /// CA certificates (PEM) to trust, for https:// [default: the system's].
    #[arg(long, value_name = "FILE", env = "LOCKKEEPER_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// The client certificate (PEM), with its chain.
    #[arg(
        long,
        value_name = "FILE",
        env = "LOCKKEEPER_CERTIFICATE_FILE",
        requires = "key_file"
    )]
    certificate_file: Option<PathBuf>,
    /// The private key (PEM) of the client certificate.
    #[arg(
        long,
        value_name = "FILE",
        env = "LOCKKEEPER_KEY_FILE",
        requires = "certificate_file"
    )]
    key_file: Option<PathBuf>,
    /// A file with the bearer token.
    #[arg(long, value_name = "FILE", env = "LOCKKEEPER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

// === impl ServerArgs ===

impl ServerArgs {
    /// A client of that coordinator. Fails if a file or the address is unusable.
    pub fn client(&self) -> Result<Client, Error> {
        let mut client = Client::builder()
            .address(self.server.clone())
            .tls(TlsFiles {
                ca: self.ca_file.clone(),
                certificate: self.certificate_file.clone(),
                key: self.key_file.clone(),
                server_name: None,
            });
        if let Some(file) = &self.token_file {
            client = client.token(Token::File(file.clone()));
        }
        client.build()
    }

    /// Whether no address was given.
    pub(crate) fn is_default(&self) -> bool {
        self.server.to_string() == DEFAULT_SERVER
    }

    /// The same settings as environment variables, for child processes.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![("LOCKKEEPER_SERVER", self.server.to_string())];
        for (name, file) in [
            ("LOCKKEEPER_CA_FILE", &self.ca_file),
            ("LOCKKEEPER_CERTIFICATE_FILE", &self.certificate_file),
            ("LOCKKEEPER_KEY_FILE", &self.key_file),
            ("LOCKKEEPER_TOKEN_FILE", &self.token_file),
        ] {
            if let Some(file) = file {
                environment.push((name, file.display().to_string()));
            }
        }
        environment
    }
}
