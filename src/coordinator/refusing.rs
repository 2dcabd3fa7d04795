//! Which servers of a store take no writes.

use std::collections::BTreeSet;

use lockkeeper_store::host::Server;
use parking_lot::Mutex;

/// The servers of a store that took no writes when they were asked last, by name.
#[derive(Debug, Default)]
pub(crate) struct Refusing(Mutex<BTreeSet<String>>);

// === impl Refusing ===

impl Refusing {
    /// A server was asked. Logs what has changed.
    pub(crate) fn heard(&self, server: &str, written: &Result<(), String>) {
        let mut refusing = self.0.lock();
        match written {
            Ok(()) => {
                if refusing.remove(server) {
                    tracing::info!(server, "a server of the store takes writes again");
                }
            }
            Err(why) => {
                if refusing.insert(server.to_owned()) {
                    let refusing = refusing.len();
                    tracing::warn!(
                        server,
                        why,
                        refusing,
                        "a server of the store takes no writes: its locks are out of reach"
                    );
                }
            }
        }
    }

    /// Their names.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    /// Forgets servers that are not asked any more.
    pub(crate) fn keep_only(&self, servers: &[Server]) {
        let is_asked = |name: &String| servers.iter().any(|server| server.name == *name);
        self.0.lock().retain(is_asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_no_longer_asked_are_forgotten() {
        let refusing = Refusing::default();
        let server = |name: &str| Server {
            name: name.to_owned(),
            tag: "0".to_owned(),
        };
        for name in ["a", "b", "c"] {
            refusing.heard(name, &Err("of the test".to_owned()));
        }
        refusing.heard("b", &Ok(()));
        refusing.keep_only(&[server("a"), server("b")]);
        assert_eq!(refusing.names(), ["a"]);
    }
}
