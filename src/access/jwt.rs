//! Signed tokens (JWT), verified with keys from a file (JWKS). The identity is the token's subject.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use dashmap::DashMap;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::{Error, ErrorKind},
    get_current_timestamp,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Identity, Unauthenticated, ring_keys};

/// The largest tolerated clock difference.
const LEEWAY_SECONDS: u64 = 30;

/// The end of the year 9999: later ones are mistakes, or no seconds.
const END_MAX: u64 = 253_402_300_799;

/// Verified tokens that are cached; verifying a signature takes longer than a lock.
const REMEMBERED_MAX: usize = 10_000;

/// The issuer and audience of accepted tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The file of keys (JWKS).
    pub file: PathBuf,
    /// The required `iss`.
    pub issuer: String,
    /// The required `aud`.
    pub audience: String,
    /// The longest time from the issue of a token (`iat`, at the latest now) to its end; none: any.
    pub lifetime_max: Option<Duration>,
}

/// The keys in force.
pub(super) struct Jwts {
    keys: Vec<Key>,
    issuer: String,
    audience: String,
    lifetime_max: Option<Duration>,
    /// The cache, by the token's digest: its identity and expiry. Replaced with the keys.
    good: DashMap<[u8; 32], (Identity, u64)>,
}

struct Key {
    id: Option<String>,
    public: DecodingKey,
    /// The key, not the token, determines the algorithm.
    algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    exp: Option<u64>,
    #[serde(default, deserialize_with = "seconds")]
    iat: Option<u64>,
    /// A list would name others that vouch for nothing.
    #[expect(
        dead_code,
        reason = "only its type is checked here, its value by the validation"
    )]
    iss: Option<String>,
}

// === impl JwtConfig ===

impl JwtConfig {
    pub(super) fn parser(self) -> impl Fn(&[Vec<u8>]) -> Result<Jwts, String> + Send + Sync {
        // Fails if a provider is already installed.
        let _ = ring_keys::PROVIDER.install_default();
        move |contents| {
            let text = contents.first().map_or(&[][..], Vec::as_slice);
            let set: JwkSet = serde_json::from_slice(text)
                .map_err(|error| format!("is not a set of keys (JWKS): {error}"))?;
            let keys: Vec<Key> = set.keys.iter().filter_map(Key::new).collect();
            let mut ids = HashSet::new();
            let mut known = keys.iter().filter_map(|key| key.id.as_deref());
            if let Some(twice) = known.find(|id| !ids.insert(*id)) {
                return Err(format!("has two keys with the kid {twice:?}"));
            }
            if keys.is_empty() {
                return Err(
                    "has no key that could sign a token: RSA, P-256, P-384 or Ed25519".to_owned(),
                );
            }
            Ok(Jwts {
                keys,
                issuer: self.issuer.clone(),
                audience: self.audience.clone(),
                lifetime_max: self.lifetime_max,
                good: DashMap::new(),
            })
        }
    }
}

// === impl Jwts ===

impl Jwts {
    /// The ids of the keys.
    pub(super) fn compare(&self, new: &Self) -> String {
        let ids = |of: &Self| {
            let ids = of.keys.iter().map(|key| key.id.as_deref().unwrap_or("?"));
            ids.collect::<Vec<_>>().join(" ")
        };
        format!("before: {}; now: {}", ids(self), ids(new))
    }

    pub(super) fn verify(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.good.get(&digest)
            && known.1.saturating_add(LEEWAY_SECONDS) > get_current_timestamp()
        {
            return Ok(known.0.clone());
        }
        let claims = self.claims(token).map_err(|error| refused(&error))?;
        // Both are present, or the token would have been refused.
        let (sub, exp) = (
            claims.sub.unwrap_or_default(),
            claims.exp.unwrap_or_default(),
        );
        self.check_lifetime(claims.iat, exp)?;
        let identity = Identity::of_token(&sub)
            .map_err(|why| Unauthenticated(format!("the bearer token's subject: {why}")))?;
        if self.good.len() >= REMEMBERED_MAX {
            self.good.clear();
        }
        self.good.insert(digest, (identity.clone(), exp));
        Ok(identity)
    }

    /// When an accepted token is refused, in seconds since 1970: its `exp`, and what clocks may
    /// differ.
    pub(super) fn end_of(&self, token: &str) -> Option<u64> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let known = self.good.get(&digest).map(|known| known.1);
        // Many others may have pushed it out since it was accepted.
        let end = known.or_else(|| self.claims(token).ok()?.exp)?;
        Some(end.saturating_add(LEEWAY_SECONDS))
    }

    fn check_lifetime(&self, iat: Option<u64>, exp: u64) -> Result<(), Unauthenticated> {
        let refuse = |why: String| Err(Unauthenticated(format!("the bearer token {why}")));
        if exp > END_MAX {
            return refuse("expires too late: exp must be in seconds since 1970".to_owned());
        }
        let now = get_current_timestamp();
        // A later time of issue would hide how long the token is accepted from now on.
        let issued = iat.unwrap_or(now).min(now + LEEWAY_SECONDS);
        let lifetime = exp.saturating_sub(issued);
        match self.lifetime_max.map(|max| max.as_secs()) {
            Some(max) if lifetime > max => refuse(format!("is valid for more than {max} s")),
            _ => Ok(()),
        }
    }

    fn claims(&self, token: &str) -> Result<Claims, Error> {
        let header = decode_header(token)?;
        if has_critical(token) {
            return Err(ErrorKind::InvalidToken.into());
        }
        let key = match &header.kid {
            Some(id) => self.keys.iter().find(|key| key.id.as_ref() == Some(id)),
            None if self.keys.len() == 1 => self.keys.first(),
            None => None,
        };
        let key = key.ok_or(ErrorKind::InvalidSignature)?;
        if !key.algorithms.contains(&header.alg) {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        Ok(decode::<Claims>(token, &key.public, &validation)?.claims)
    }
}

// === impl Key ===

impl Key {
    /// None for unusable keys: secrets, unsupported curves, keys for encryption.
    fn new(jwk: &Jwk) -> Option<Self> {
        use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
        let may = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
            AlgorithmParameters::EllipticCurve(it) => match it.curve {
                EllipticCurve::P256 => vec![ES256],
                EllipticCurve::P384 => vec![ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
                vec![EdDSA]
            }
            _ => return None,
        };
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let algorithms: Vec<Algorithm> = match common.key_algorithm {
            None => may,
            Some(only) => {
                let only = only.to_string().parse().ok()?;
                may.into_iter().filter(|it| *it == only).collect()
            }
        };
        let public = DecodingKey::from_jwk(jwk).ok()?;
        (!algorithms.is_empty()).then(|| Self {
            id: common.key_id.clone(),
            public,
            algorithms,
        })
    }
}

/// A time, which may have a fraction (RFC 7519, 2), as JavaScript's `Date.now() / 1000` has one.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let seconds: Option<f64> = Option::deserialize(deserializer)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "out of range it becomes the nearest number"
    )]
    Ok(seconds.map(|seconds| seconds.round() as u64))
}

/// Whether the header lists extensions that must be understood; none is here (RFC 7515, 4.1.11).
fn has_critical(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let header: Value = serde_json::from_slice(&header).unwrap_or_default();
    header.get("crit").is_some()
}

/// A reason that helps the token's owner and no attacker.
fn refused(error: &Error) -> Unauthenticated {
    let why = match error.kind() {
        ErrorKind::ExpiredSignature => "has expired",
        ErrorKind::ImmatureSignature => "is not valid yet",
        ErrorKind::InvalidIssuer => "was issued by another issuer",
        ErrorKind::InvalidAudience => "is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "must have the claims exp, iss, aud and sub"
        }
        ErrorKind::Json(_) => "has a claim of the wrong type",
        ErrorKind::InvalidToken => "is not a JWT, or requires extensions (crit)",
        ErrorKind::InvalidAlgorithm => "is signed with an algorithm that its key does not allow",
        ErrorKind::InvalidSignature => "is not signed by a key of the JWKS",
        _ => "is not known, and is not a JWT",
    };
    Unauthenticated(format!("the bearer token {why}"))
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;
