//! Arguments of `context`.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use lockkeeper_client::Address;

use super::{common::TEMPLATE, server::address};
use crate::output::Format;

/// See [`ClientCommand::Context`](super::ClientCommand::Context).
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List the contexts; the current one has a star.
    #[command(help_template = TEMPLATE)]
    List {
        /// The output format.
        #[arg(long, value_enum, default_value_t)]
        output: Format,
    },
    /// Make a context the current one, which commands use by default.
    #[command(help_template = TEMPLATE)]
    Use {
        /// Its name.
        name: String,
    },
    /// Create a context, or change the given values of one.
    #[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper context set staging --server https://locks.staging:7625 \\
    --token-file ~/.locks-token")]
    Set(SetContextArgs),
    /// Delete a context.
    #[command(help_template = TEMPLATE)]
    Delete {
        /// Its name.
        name: String,
    },
}

/// See [`ContextCommand::Set`].
#[derive(Args, Debug)]
pub struct SetContextArgs {
    /// Its name.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The coordinator: `http://`, `https://HOST:PORT` or `unix:///PATH`.
    #[arg(long, value_name = "URL", value_parser = address())]
    pub(crate) server: Option<Address>,
    /// CA certificates (PEM) to trust, for https://.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The client certificate (PEM), with its chain.
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_file: Option<PathBuf>,
    /// The private key (PEM) of the client certificate.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// A file with the bearer token.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}
