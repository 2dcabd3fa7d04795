//! Strings that are never shown: neither by `Debug`, nor in printed settings.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Replaces a secret. It is shorter than any valid secret, so that printed settings are not
/// mistaken for complete ones.
const REDACTED: &str = "REDACTED";

/// A secret.
#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Secret(String);

/// The address of a store, which may hold a password.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct StoreUrl(String);

// === impl Secret ===

impl Secret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn redacted(&self) -> &'static str {
        if self.is_empty() { "" } else { REDACTED }
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.redacted())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.redacted())
    }
}

// === impl StoreUrl ===

impl StoreUrl {
    /// The address with its password.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The part before the first colon; `None` without a colon.
    pub fn scheme(&self) -> Option<&str> {
        self.0.split_once(':').map(|(scheme, _)| scheme)
    }

    /// The address with a password for its user, or for none. `None` if it has a password already
    /// or can have none.
    pub(super) fn with_password(&self, password: &str) -> Option<Self> {
        let (scheme, rest) = self.0.split_once("://")?;
        let (user, rest) = match rest.rsplit_once('@') {
            Some((credentials, _)) if credentials.contains(':') => return None,
            Some((user, rest)) => (user, rest),
            None => ("", rest),
        };
        let password = encoded(password);
        Some(Self(format!("{scheme}://{user}:{password}@{rest}")))
    }

    /// The address without its password. A user without a password is redacted too, because it is
    /// often a misplaced password.
    pub fn redacted(&self) -> String {
        let Some((scheme, rest)) = self.0.split_once("://") else {
            // Not an address, or one without an authority; only the latter has nothing to hide.
            return match self.0.as_str() {
                "embedded:" => self.0.clone(),
                _ => REDACTED.to_owned(),
            };
        };
        // A query may hold the password of sentinels.
        let (rest, query) = match rest.split_once('?') {
            Some((rest, _)) => (rest, format!("?{REDACTED}")),
            None => (rest, String::new()),
        };
        // The last `@`: an unescaped password may contain one too.
        match rest.rsplit_once('@') {
            Some((credentials, host)) => match credentials.split_once(':') {
                Some((user, _)) => format!("{scheme}://{user}:{REDACTED}@{host}{query}"),
                None => format!("{scheme}://{REDACTED}@{host}{query}"),
            },
            None => format!("{scheme}://{rest}{query}"),
        }
    }
}

/// Percent-encodes every byte except letters and digits.
fn encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    bytes.collect()
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self("embedded:".to_owned())
    }
}

impl From<&str> for StoreUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.redacted())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl Serialize for StoreUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.redacted())
    }
}
