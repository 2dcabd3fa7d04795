//! The coordinator's address, and the credentials for it.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{NonEmptyStringValueParser, TypedValueParser},
};
use lockkeeper_client::{Address, Client, Error, TlsFiles, Token};

use crate::{contexts::Contexts, output::say};

const DEFAULT_SERVER: &str = "http://127.0.0.1:7625";

/// The connection to a coordinator.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// The coordinator: `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH` [default: that of
    /// the current context, else <http://127.0.0.1:7625>].
    #[arg(long, value_name = "URL", env = "LOCKKEEPER_SERVER", value_parser = address())]
    server: Option<Address>,
    /// The context that supplies the coordinator and the credentials, unless other flags or
    /// variables set them [default: the current context, unless --server is given].
    #[arg(long, value_name = "NAME", env = "LOCKKEEPER_CONTEXT")]
    context: Option<String>,
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

/// A coordinator and the credentials for it, wherever they were given.
#[derive(Debug)]
struct Chosen {
    server: Address,
    files: TlsFiles,
    token_file: Option<PathBuf>,
}

/// An address; an empty value is refused as that of other flags is.
pub fn address() -> impl TypedValueParser<Value = Address> {
    NonEmptyStringValueParser::new().try_map(|text| text.parse::<Address>())
}

// === impl ServerArgs ===

impl ServerArgs {
    /// The coordinator's address. Fails if the context is unusable.
    pub fn address(&self) -> Result<Address, Error> {
        Ok(self.chosen()?.server)
    }

    /// The same credentials, as far as flags and variables name them, for another coordinator.
    #[must_use]
    pub fn at(&self, server: Address) -> Self {
        Self {
            server: Some(server),
            ..self.clone()
        }
    }

    /// A client of that coordinator. Fails if a file, the address or the context is unusable.
    pub fn client(&self) -> Result<Client, Error> {
        let chosen = self.chosen()?;
        if let (Some(file), false) = (&self.ca_file, chosen.server.is_tls()) {
            let (file, server) = (file.display(), &chosen.server);
            say(&format!("{file} is not used: {server} has no TLS"));
        }
        let mut client = Client::builder().address(chosen.server).tls(chosen.files);
        if let Some(file) = chosen.token_file {
            client = client.token(Token::File(file));
        }
        client.build()
    }

    /// Whether no address was given, by a context either.
    pub(crate) fn is_default(&self) -> bool {
        let address = self.address();
        address.is_ok_and(|address| address.as_str() == DEFAULT_SERVER)
    }

    /// The same settings as environment variables, for child processes.
    pub fn environment(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let chosen = self.chosen()?;
        let mut environment = vec![("LOCKKEEPER_SERVER", chosen.server.to_string())];
        for (name, file) in [
            ("LOCKKEEPER_CA_FILE", &chosen.files.ca),
            ("LOCKKEEPER_CERTIFICATE_FILE", &chosen.files.certificate),
            ("LOCKKEEPER_KEY_FILE", &chosen.files.key),
            ("LOCKKEEPER_TOKEN_FILE", &chosen.token_file),
        ] {
            if let Some(file) = file {
                environment.push((name, file.display().to_string()));
            }
        }
        Ok(environment)
    }

    /// What flags and variables name, and the context the rest. The current context is not used for
    /// a coordinator that was named otherwise: it would be shown a token that is not meant for it.
    fn chosen(&self) -> Result<Chosen, Error> {
        let context = match (&self.context, &self.server) {
            (None, Some(_)) => None,
            (name, _) => Contexts::read()?.find(name.as_deref())?,
        };
        let context = context.unwrap_or_default();
        let default = || DEFAULT_SERVER.to_owned();
        let server = match &self.server {
            Some(server) => server.clone(),
            None => context.server.unwrap_or_else(default).parse()?,
        };
        Ok(Chosen {
            server,
            files: TlsFiles {
                ca: self.ca_file.clone().or(context.ca_file),
                certificate: self.certificate_file.clone().or(context.certificate_file),
                key: self.key_file.clone().or(context.key_file),
                server_name: None,
            },
            token_file: self.token_file.clone().or(context.token_file),
        })
    }
}
