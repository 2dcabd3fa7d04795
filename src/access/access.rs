//! The authentication and authorization of a port.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use jsonwebtoken::get_current_timestamp;
use lockkeeper_base::metrics::Registrar;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{
    account::{Account, Accounts, Quotas},
    denials::Denials,
    error::{Unauthenticated, Unusable},
    files::Watched,
    identity::Identity,
    jwt::{JwtConfig, Jwts},
    rules::{Right, Rule, Rules},
    tokens::Tokens,
    watchers::{WatcherPlace, Watchers},
};

/// Ends are whole seconds, so that they are over a second later for sure.
const AFTER_END: Duration = Duration::from_secs(1);

/// How callers authenticate, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The file of static tokens and their identities.
    pub token_file: Option<PathBuf>,
    /// Where signed tokens come from.
    pub jwt: Option<JwtConfig>,
    /// Whether client certificates are verified.
    pub certificates: bool,
    /// What identities may do; no rules: see [`Access::allows`].
    pub rules: Vec<Rule>,
    /// How much each identity may use.
    pub quotas: Quotas,
}

/// The rules in force at one port. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    shared: Arc<Shared>,
    port: Port,
}

/// The trust in callers of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Callers without credentials are admitted as anonymous.
    pub admits_anonymous: bool,
    /// Anonymous callers have every right while nothing is configured: the port is reachable from
    /// this machine only.
    pub is_trusted: bool,
    /// Tokens are accepted: the connection is private.
    pub takes_tokens: bool,
}

#[derive(Default)]
struct Shared {
    /// Whether anything is configured.
    is_on: bool,
    tokens: Option<Watched<Tokens>>,
    jwts: Option<Watched<Jwts>>,
    rules: RwLock<Rules>,
    accounts: Accounts,
    denials: Denials,
    watchers: Watchers,
    changes: watch::Sender<()>,
}

// === impl Access ===

impl Access {
    /// Requires no credentials and allows everything.
    pub fn open() -> Self {
        Self {
            shared: Arc::default(),
            port: Port::OPEN,
        }
    }

    /// Reads the files. Fails if one is unusable.
    pub fn new(config: Config, port: Port) -> Result<Self, Unusable> {
        let is_on = config.is_on();
        let tokens = config
            .token_file
            .map(|file| Watched::new([file], Tokens::parse));
        let jwts = config
            .jwt
            .map(|jwt| Watched::new([jwt.file.clone()], jwt.parser()));
        let shared = Shared {
            is_on,
            tokens: tokens.transpose()?,
            jwts: jwts.transpose()?,
            rules: RwLock::new(Rules::new(config.rules)),
            accounts: Accounts::new(config.quotas),
            denials: Denials::default(),
            watchers: Watchers::default(),
            changes: watch::Sender::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            port,
        })
    }

    /// The same rules at another port.
    #[must_use]
    pub fn at(&self, port: Port) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            port,
        }
    }

    /// Whether anything is configured. If not, every caller is anonymous.
    pub fn is_on(&self) -> bool {
        self.shared.is_on
    }

    /// Whether callers have to be identified.
    pub fn asks(&self) -> bool {
        self.is_on() || !self.port.admits_anonymous
    }

    /// Reads the files again. An unusable file is logged, and its last contents stay in force.
    /// Writes due entries of the audit log. Blocking; to be called once a second.
    pub fn reload(&self) {
        self.shared.denials.flush();
        let Shared { tokens, jwts, .. } = &*self.shared;
        let tokens = tokens.as_ref();
        let jwts = jwts.as_ref();
        let changed = [
            tokens.is_some_and(|it| it.reload("auth.token_file", Tokens::compare)),
            jwts.is_some_and(|it| it.reload("auth.jwks_file", Jwts::compare)),
        ];
        if changed.contains(&true) {
            self.has_changed();
        }
    }

    /// Replaces the rules and the quotas. Calls and frames that begin later follow them; so do
    /// watchers, which end if the right is gone.
    pub fn set(&self, rules: Vec<Rule>, quotas: Quotas) {
        *self.shared.rules.write() = Rules::new(rules);
        self.shared.accounts.set(quotas);
        self.has_changed();
    }

    /// Notes that credentials may have changed, for [`Access::until_refused`].
    pub fn has_changed(&self) {
        self.shared.changes.send_replace(());
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    /// Resolves with the refusal when `look` fails. It looks at once, after each change of
    /// credentials, and after the end that it returned last, in seconds since 1970.
    pub async fn until_refused<E>(&self, look: impl Fn() -> Result<Option<u64>, E>) -> E {
        let mut changes = self.changes();
        loop {
            let end = match look() {
                Ok(end) => end,
                Err(refused) => return refused,
            };
            let ended = async {
                let Some(end) = end else {
                    return std::future::pending().await;
                };
                let left = Duration::from_secs(end.saturating_sub(get_current_timestamp()));
                tokio::time::sleep(left + AFTER_END).await;
            };
            tokio::select! {
                biased;
                // The sender is a part of `self`.
                _ = changes.changed() => {}
                () = ended => {}
            }
        }
    }

    /// When a token that was accepted is refused, in seconds since 1970, if it says so itself.
    pub fn end_of(&self, token: &str) -> Option<u64> {
        self.shared.jwts.as_ref()?.get().end_of(token)
    }

    /// The caller's identity: of the token, else of the connection, else anonymous. Fails if the
    /// token is refused, or missing where credentials are required.
    pub fn identify(
        &self,
        connection: Option<&Identity>,
        token: Option<&str>,
    ) -> Result<Identity, Unauthenticated> {
        let connection = connection.filter(|_| self.is_on());
        match (token.filter(|_| self.knows_tokens()), connection) {
            (Some(token), _) => self.of_token(token),
            (None, Some(identity)) => Ok(identity.clone()),
            (None, None) => self.anonymous(),
        }
    }

    /// The identity of a caller with this bearer token and no certificate.
    pub fn bearer(&self, token: Option<&str>) -> Result<Identity, Unauthenticated> {
        self.identify(None, token)
    }

    /// Audits a call that was denied because it showed no valid credentials; see `denials.rs`.
    pub fn denied(&self, peer: Option<SocketAddr>, operation: &str, why: &Unauthenticated) {
        self.shared.denials.denied(peer, operation, &why.0);
    }

    /// Whether an identity has a right to the lock, semaphore or latch of this name.
    pub fn allows(&self, identity: &Identity, right: Right, name: &str) -> bool {
        let Shared { rules, is_on, .. } = &*self.shared;
        let rules = rules.read();
        if !rules.is_empty() {
            return rules.allow(identity, right, name);
        }
        // Without rules admitted callers may use locks, but not those held by other callers.
        !matches!(right, Right::Admin | Right::Preempt) || (!is_on && self.port.is_trusted)
    }

    /// Whether an identity has any right at all.
    pub fn allows_anything(&self, identity: &Identity) -> bool {
        let rules = self.shared.rules.read();
        rules.is_empty() || rules.know(identity)
    }

    /// A place for a watcher of this identity; none if it or all have too many. Where callers are
    /// not identified, only the coordinator's limit applies.
    pub fn watch(&self, identity: &Identity) -> Option<WatcherPlace> {
        if !self.is_on() {
            return Some(WatcherPlace::UNCOUNTED);
        }
        let sees_all = self.allows(identity, Right::Admin, "");
        self.shared.watchers.place(identity, sees_all)
    }

    /// The account that is charged for this identity's calls.
    pub fn account(&self, identity: Identity) -> Account {
        self.shared.accounts.of(identity)
    }

    /// Registers the metrics of quotas.
    pub fn register(&self, registrar: &mut Registrar<'_>) {
        self.shared.accounts.register(registrar);
    }

    fn knows_tokens(&self) -> bool {
        self.shared.tokens.is_some() || self.shared.jwts.is_some()
    }

    fn anonymous(&self) -> Result<Identity, Unauthenticated> {
        if self.port.admits_anonymous {
            return Ok(Identity::anonymous());
        }
        let why = if self.knows_tokens() {
            "show a bearer token or a client certificate"
        } else {
            "show a client certificate"
        };
        Err(Unauthenticated(why.to_owned()))
    }

    fn of_token(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let refuse = |why: &str| Err(Unauthenticated(why.to_owned()));
        if !self.port.takes_tokens {
            return refuse("bearer tokens are refused on unencrypted connections: use TLS");
        }
        if let Some(tokens) = &self.shared.tokens
            && let Some(identity) = tokens.get().find(token)
        {
            return Ok(identity);
        }
        match &self.shared.jwts {
            Some(jwts) => jwts.get().verify(token),
            None => refuse("the bearer token is not known"),
        }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("is_on", &self.is_on())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::open()
    }
}

// === impl Config ===

impl Config {
    /// Whether anything is configured. If so, callers of a Unix-domain socket are identified too.
    pub fn is_on(&self) -> bool {
        let asks = self.token_file.is_some() || self.jwt.is_some() || self.certificates;
        asks || !self.rules.is_empty() || self.quotas != Quotas::default()
    }
}

// === impl Port ===

impl Port {
    /// Reachable from this machine only.
    pub const OPEN: Self = Self {
        admits_anonymous: true,
        is_trusted: true,
        takes_tokens: true,
    };
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
