//! Who calls, and what they may do. A leaf: it knows neither the protocol that brings credentials
//! nor what a lock is.
//!
//! An identity is a name: of a certificate, of a token, or of a user of this machine. [`Rules`] say
//! what it may do, [`Account`] how much.

mod account;
mod audit;
mod certificate;
mod files;
mod identity;
mod jwt;
mod ring_keys;
mod rules;
mod tokens;

pub use account::{Account, Counted, Quota, QuotaReached, Quotas};
pub use audit::Audited;
pub use certificate::of_certificate;
pub use files::Watched;
pub use identity::Identity;
pub use jwt::JwtConfig;
pub use rules::{Right, Rule};

use std::{path::PathBuf, sync::Arc};

use account::Accounts;
use jwt::Jwts;
use lockkeeper_base::metrics::Registrar;
use rules::Rules;
use tokens::Tokens;

/// Credentials that are missing or not good. Says why, for the caller; never what was shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct Unusable {
    /// Which file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// How callers show who they are, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Tokens and the identities they stand for.
    pub token_file: Option<PathBuf>,
    /// Keys of those who issue tokens.
    pub jwt: Option<JwtConfig>,
    /// Clients show certificates.
    pub certificates: bool,
    /// What is allowed.
    pub rules: Vec<Rule>,
    /// How much.
    pub quotas: Quotas,
}

/// The rules in force at one port. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    shared: Arc<Shared>,
    port: Port,
}

/// What a port is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Callers without credentials are let in, as anonymous ones.
    pub admits_anonymous: bool,
    /// Anonymous callers have every right as long as nothing is configured: only this machine can
    /// reach the port.
    pub is_trusted: bool,
    /// Tokens are taken: nobody on the way can read them.
    pub takes_tokens: bool,
}

#[derive(Default)]
struct Shared {
    /// Anything is configured at all.
    is_on: bool,
    tokens: Option<Watched<Tokens>>,
    jwts: Option<Watched<Jwts>>,
    rules: Rules,
    accounts: Accounts,
}

// === impl Access ===

impl Access {
    /// Asks for no credentials and allows everything.
    pub fn open() -> Self {
        Self {
            shared: Arc::default(),
            port: Port::OPEN,
        }
    }

    /// Reads the files.
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
            rules: Rules::new(config.rules),
            accounts: Accounts::new(config.quotas),
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

    /// Whether anything is configured. If not, everybody is anonymous.
    pub fn is_on(&self) -> bool {
        self.shared.is_on
    }

    /// Whether it has to be looked at who calls.
    pub fn asks(&self) -> bool {
        self.is_on() || !self.port.admits_anonymous
    }

    /// Looks at the files and takes what is new in them. A file that cannot be used is logged, and
    /// what it said before stays in force. Reads files, so it may block.
    pub fn reload(&self) {
        if let Some(tokens) = &self.shared.tokens {
            tokens.reload("auth.token_file");
        }
        if let Some(jwts) = &self.shared.jwts {
            jwts.reload("auth.jwks_file");
        }
    }

    /// Who calls: whoever a token says, else whoever the connection belongs to, else nobody in
    /// particular where that is enough.
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

    /// Who shows this bearer token, or none.
    pub fn bearer(&self, token: Option<&str>) -> Result<Identity, Unauthenticated> {
        self.identify(None, token)
    }

    /// Whether an identity may do something with the lock, semaphore or latch of this name.
    pub fn allows(&self, identity: &Identity, right: Right, name: &str) -> bool {
        let Shared { rules, is_on, .. } = &*self.shared;
        if !rules.is_empty() {
            return rules.allow(identity, right, name);
        }
        // Without rules whoever is let in may use locks, and nobody may touch what is others'.
        right != Right::Admin || (!is_on && self.port.is_trusted)
    }

    /// On whose account this identity's calls go.
    pub fn account(&self, identity: Identity) -> Account {
        self.shared.accounts.of(identity)
    }

    /// Shows what is counted here.
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
            return refuse("tokens are not taken where others could read them: use TLS");
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
    /// Whether anything is configured. Callers of a Unix-domain socket are known as soon as
    /// something is.
    pub fn is_on(&self) -> bool {
        let asks = self.token_file.is_some() || self.jwt.is_some() || self.certificates;
        asks || !self.rules.is_empty() || self.quotas != Quotas::default()
    }
}

// === impl Port ===

impl Port {
    /// Only this machine can reach it, and it may be that nothing is configured.
    pub const OPEN: Self = Self {
        admits_anonymous: true,
        is_trusted: true,
        takes_tokens: true,
    };
}
