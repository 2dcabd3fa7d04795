//! The flags of a connection before the command, as in `lockkeeper --server URL list`.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_client::Address;

use super::server::address;

/// The same flags as those of [`ServerArgs`](super::ServerArgs), by the same names: what is given
/// before the command is found behind it. Their help is that of the commands.
#[derive(Args, Debug)]
pub struct GlobalArgs {
    #[arg(long, global = true, hide = true, value_parser = address())]
    server: Option<Address>,
    #[arg(long, global = true, hide = true)]
    context: Option<String>,
    #[arg(long, global = true, hide = true)]
    ca_file: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    certificate_file: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    key_file: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    token_file: Option<PathBuf>,
}

// === impl GlobalArgs ===

impl GlobalArgs {
    /// The names of the flags.
    pub const NAMES: [&str; 6] = [
        "server",
        "context",
        "ca_file",
        "certificate_file",
        "key_file",
        "token_file",
    ];
}
