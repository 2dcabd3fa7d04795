//! Who else may read or write the files that have secrets.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use lockkeeper_access::Unusable;

use crate::config::{Settings, Sources};

/// The permissions of users that are neither the owner nor in the group.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

/// Warns of files that every user can read. Fails with the key of one that every user can write.
pub(crate) fn check(settings: &Settings) -> Result<(), (&'static str, Unusable)> {
    let (auth, tls) = (&settings.auth, &settings.server.tls);
    let secret = [
        ("session.secret_file", &settings.session.secret_file),
        ("store.password_file", &settings.store.password_file),
        ("store.tls.key_file", &settings.store.tls.key_file),
        ("server.tls.key_file", &tls.key_file),
        ("fleet.key_file", &settings.fleet.key_file),
        ("auth.token_file", &auth.token_file),
    ];
    // What they say is no secret, but decides who is trusted.
    let public = [
        ("auth.jwks_file", &auth.jwks_file),
        ("server.tls.client_ca_file", &tls.client_ca_file),
        ("server.tls.client_crl_file", &tls.client_crl_file),
        ("store.tls.ca_file", &settings.store.tls.ca_file),
        ("fleet.ca_file", &settings.fleet.ca_file),
    ];
    for (key, path) in secret.into_iter().chain(public) {
        let is_secret = secret.iter().any(|(it, _)| *it == key);
        check_file(key, path, || is_secret).map_err(|why| (key, why))?;
    }
    Ok(())
}

/// The same of the file of the settings, which may have secrets.
pub(crate) fn check_settings(sources: &Sources) -> Result<(), Unusable> {
    let file = sources.file.as_ref();
    file.map_or(Ok(()), |file| {
        check_file("--config", file, || sources.has_secret_in_file())
    })
}

fn check_file(key: &str, path: &Path, is_secret: impl Fn() -> bool) -> Result<(), Unusable> {
    let mode = mode(path);
    if mode & OTHERS_WRITE != 0 {
        let problem = format!("every user can change it (mode {mode:04o}): chmod o-w");
        let file = path.to_owned();
        return Err(Unusable { file, problem });
    }
    if mode & OTHERS_READ != 0 && is_secret() {
        let (path, mode) = (path.display(), format!("{mode:04o}"));
        tracing::warn!(key, %path, mode, "every user can read this secret: chmod o-r");
    }
    Ok(())
}

/// The permissions of a file; none if it is a device, not set, or not there, which its reader
/// reports.
fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file);
    found.map_or(0, |found| found.permissions().mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use tempfile::NamedTempFile;

    use super::*;

    #[test]
    fn a_file_that_every_user_can_change_is_refused() {
        let file = NamedTempFile::new().unwrap();
        let of = |mode: u32| {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let mut settings = Settings::default();
            settings.auth.token_file = file.path().to_owned();
            check(&settings)
        };
        for mode in [0o400, 0o600, 0o640, 0o660, 0o644] {
            assert_eq!(of(mode), Ok(()), "{mode:o}");
        }
        let (key, why) = of(0o666).unwrap_err();
        assert_eq!(key, "auth.token_file");
        assert!(why.problem.contains("(mode 0666): chmod o-w"), "{why}");
        let file = || file.path().to_owned();
        let changed: [fn(&mut Settings, std::path::PathBuf); 3] = [
            |it, file| it.server.tls.client_crl_file = file,
            |it, file| it.store.tls.ca_file = file,
            |it, file| it.fleet.ca_file = file,
        ];
        for change in changed {
            let mut settings = Settings::default();
            change(&mut settings, file());
            assert!(check(&settings).is_err());
        }
        let sources = Sources {
            file: Some(file()),
            ..Sources::default()
        };
        assert!(check_settings(&sources).is_err());
        fs::set_permissions(file(), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(check_settings(&sources), Ok(()));
    }
}
