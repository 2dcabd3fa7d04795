//! Reads changed files again while the process runs.

use std::{future::Future, sync::Arc, time::Duration};

use lockkeeper_access::{Access, Unusable, Watched};
use lockkeeper_coordinator::SessionSecrets;

use crate::{
    config::{AccessRule, Settings, Sources, session_secrets},
    grpc::listen::Tls,
    security, sizing,
};

/// The interval at which files are read again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Rules that an entry of the audit log names; of more, it says how many.
const NAMED_RULES_MAX: usize = 20;

/// What is read again.
#[derive(Clone)]
pub(crate) struct Reloaded {
    pub(crate) access: Access,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) settings: Option<Arc<ReloadedSettings>>,
    pub(crate) secrets: Option<Arc<ReloadedSecrets>>,
}

/// The secrets of resume tokens in a file.
pub(crate) struct ReloadedSecrets {
    watched: Watched<Vec<Vec<u8>>>,
    in_force: SessionSecrets,
}

/// The settings of a file, of which rules and quotas may change.
pub(crate) struct ReloadedSettings {
    /// Those in force since the start, with the present rules and quotas.
    watched: Watched<Settings>,
    memory: Option<u64>,
}

// === impl Reloaded ===

impl Reloaded {
    /// Reloads changed files until `stop` resolves.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let this = self.clone();
            // The file system may hang.
            let _ = tokio::task::spawn_blocking(move || this.reload()).await;
        }
    }

    fn reload(&self) {
        self.access.reload();
        if self.tls.as_ref().is_some_and(|tls| tls.reload()) {
            self.access.has_changed();
        }
        if let Some(settings) = &self.settings {
            settings.reload(&self.access);
        }
        if let Some(secrets) = &self.secrets {
            secrets.reload();
        }
    }
}

// === impl ReloadedSecrets ===

impl ReloadedSecrets {
    /// Watches the file of secrets, if there is one, from which those in force were read.
    pub(crate) fn new(
        settings: &Settings,
        in_force: SessionSecrets,
    ) -> Result<Option<Arc<Self>>, Unusable> {
        let file = &settings.session.secret_file;
        if file.as_os_str().is_empty() {
            return Ok(None);
        }
        let parse = |contents: &[Vec<u8>]| session_secrets::parse(&text(contents)?);
        let watched = Watched::new([file.clone()], parse)?;
        Ok(Some(Arc::new(Self { watched, in_force })))
    }

    fn reload(&self) {
        let compare = |old: &Vec<_>, new: &Vec<_>| {
            let is_first = if old.first() == new.first() {
                "same"
            } else {
                "new"
            };
            format!("secrets: {}; the one that signs: {is_first}", new.len())
        };
        if self.watched.reload("session.secret_file", compare) {
            self.in_force.set(self.watched.get().to_vec());
        }
    }
}

// === impl ReloadedSettings ===

impl ReloadedSettings {
    /// Watches the file of the sources, if there is one, from which `running` was loaded.
    pub(crate) fn new(
        sources: Sources,
        running: &Settings,
        memory: Option<u64>,
    ) -> Result<Option<Arc<Self>>, Unusable> {
        let Some(file) = sources.file.clone() else {
            return Ok(None);
        };
        let running = running.clone();
        // What is refused is logged with the path in front.
        let path = format!("{}: ", file.display());
        let parse = move |contents: &[Vec<u8>]| {
            let mut loaded = sources
                .load_with(&text(contents)?)
                .map_err(|why| why.to_string().replacen(&path, "", 1))?;
            sizing::set_limits(&mut loaded, memory);
            with_access(&running, &loaded)
        };
        let watched = Watched::new([file], parse)?;
        Ok(Some(Arc::new(Self { watched, memory })))
    }

    fn reload(&self, access: &Access) {
        if self.watched.reload("access", compare) {
            let settings = self.watched.get();
            let quotas = security::quotas_in_force(&settings, self.memory);
            access.set(security::rules(&settings.access), quotas);
        }
    }
}

fn text(contents: &[Vec<u8>]) -> Result<String, String> {
    let text = contents.first().cloned().unwrap_or_default();
    String::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())
}

/// The running settings with the rules and quotas that were loaded. Warns of what else has changed.
fn with_access(running: &Settings, loaded: &Settings) -> Result<Settings, String> {
    let mut settings = running.clone();
    settings.access = loaded.access.clone();
    if settings.access.rules.is_empty() && !running.access.rules.is_empty() {
        let why = "access.rules: only a restart can remove the last rule, which opens every name";
        return Err(why.to_owned());
    }
    if security::identifies(&settings) != security::identifies(running) {
        let why = "access: only a restart can change whether callers must be identified";
        return Err(why.to_owned());
    }
    let others = settings.keys_unlike(loaded);
    if !others.is_empty() {
        let keys = others.join(", ");
        tracing::warn!(
            keys,
            "settings have changed that only a restart reads again"
        );
    }
    Ok(settings)
}

/// What changed, for the audit log; empty: nothing.
fn compare(old: &Settings, new: &Settings) -> String {
    let (old, new) = (&old.access, &new.access);
    if old == new {
        return String::new();
    }
    let mut changed = vec![
        format!("added: {}", only(&new.rules, &old.rules)),
        format!("removed: {}", only(&old.rules, &new.rules)),
    ];
    if old.quotas != new.quotas {
        changed.push(format!("quotas: {:?}", new.quotas));
    }
    changed.join("; ")
}

fn only(of: &[AccessRule], others: &[AccessRule]) -> String {
    let own: Vec<_> = of.iter().filter(|rule| !others.contains(rule)).collect();
    let named = own.iter().take(NAMED_RULES_MAX);
    let mut named: Vec<_> = named
        .map(|rule| format!("{} {:?} {:?}", rule.identity, rule.prefix, rule.allow))
        .collect();
    if own.len() > named.len() {
        named.push(format!("and {} more", own.len() - named.len()));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(rules: &str) -> Settings {
        let text = format!("server.allow_unauthenticated = true\n{rules}");
        Sources::default().load_with(&text).unwrap()
    }

    const ONE: &str = "[[access.rules]]\nidentity = \"a\"\nprefix = \"x/\"\nallow = [\"admin\"]\n";

    #[test]
    fn what_would_open_the_coordinator_needs_a_restart() {
        let (none, one) = (settings(""), settings(ONE));
        let refused = with_access(&one, &none).unwrap_err();
        assert!(refused.contains("restart"), "{refused}");
        let refused = with_access(&none, &one).unwrap_err();
        assert!(refused.contains("restart"), "{refused}");
        let more = settings(&ONE.replace("a\"", "b\"").repeat(30));
        let changed = with_access(&one, &more).unwrap();
        let told = compare(&one, &changed);
        assert!(told.starts_with("added: b \"x/\" [Admin], "), "{told}");
        assert!(told.contains("and 10 more; removed: a "), "{told}");
    }
}
