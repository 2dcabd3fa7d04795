//! The coordinator of this container, for `lockkeeper health`, which an image runs with no setting
//! of its own: the first process has the flags, and this one has the same environment.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path};

use clap::Parser as _;
use lockkeeper_cli::{Grpc, Own};
use lockkeeper_server::config::Settings;

use crate::args::{Cli, Command, ServeArgs};

/// Where the first process listens, if it is `lockkeeper serve` and its settings can be read.
pub(crate) fn coordinator() -> Option<Own> {
    let line = fs::read("/proc/1/cmdline").ok()?;
    let settings = served(&line)?.sources().load().ok()?;
    Some(own(&settings))
}

/// The arguments in a command line as the kernel shows it. An init process may come before.
fn served(line: &[u8]) -> Option<ServeArgs> {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    let words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let words =
        words.skip_while(|word| Path::new(word).file_name() != Some(OsStr::new("lockkeeper")));
    match Cli::try_parse_from(words).ok()?.command {
        Command::Serve(args) => Some(args),
        _ => None,
    }
}

fn own(settings: &Settings) -> Own {
    let certificate = &settings.server.tls.certificate_file;
    let certificate = Some(certificate).filter(|file| !file.as_os_str().is_empty());
    let grpc = match settings.server.listen.0 {
        Some(address) => Grpc::Port(address),
        None => Grpc::Socket(settings.server.uds_path.clone()),
    };
    Own {
        admin: settings.admin.listen.0,
        grpc,
        certificate: certificate.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_server::config::OptionalAddress;

    use super::*;

    #[test]
    fn the_first_process_of_a_container_is_read() {
        for line in [
            "/usr/local/bin/lockkeeper\0serve\0--listen\x00127.0.0.1:7700\0",
            "/sbin/docker-init\0--\0lockkeeper\0serve\0--set\0server.listen=127.0.0.1:7700\0",
        ] {
            let sources = served(line.as_bytes()).unwrap().sources();
            let settings = lockkeeper_server::config::Sources {
                environment: Vec::new(),
                ..sources
            };
            let own = own(&settings.load().unwrap());
            assert!(
                matches!(own.grpc, Grpc::Port(it) if it.port() == 7700),
                "{line}"
            );
            assert!(own.admin.is_none() && own.certificate.is_none());
        }
        let mut settings = Settings::default();
        settings.server.listen = OptionalAddress(None);
        settings.server.uds_path = "/run/lockkeeper.sock".into();
        let own = own(&settings);
        assert!(matches!(own.grpc, Grpc::Socket(it) if it == settings.server.uds_path));
        for line in [
            "/sbin/init\0",
            "",
            "lockkeeper\0list\0",
            "lockkeeper\0serve\0--no\0",
        ] {
            assert!(served(line.as_bytes()).is_none(), "{line}");
        }
    }
}
