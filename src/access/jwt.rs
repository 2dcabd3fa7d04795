//! Tokens that somebody else has signed (JWT), with keys from a file (a JWKS). The identity is the token's subject.

use std::path::PathBuf;

use dashmap::DashMap;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::{Error, ErrorKind},
    get_current_timestamp,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Identity, Unauthenticated, ring_keys};

/// Clocks may differ so much.
const LEEWAY_SECONDS: u64 = 30;

/// Tokens that were found good and need not be checked again; a signature takes longer than a lock.
const REMEMBERED_MAX: usize = 10_000;

/// Who may issue tokens, and for whom they must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The keys.
    pub file: PathBuf,
    /// What `iss` must say.
    pub issuer: String,
    /// What `aud` must name.
    pub audience: String,
}

/// The keys in force.
pub(super) struct Jwts {
    keys: Vec<Key>,
    issuer: String,
    audience: String,
    /// By the digest of the token: whose it is, and until when. Goes with the keys.
    good: DashMap<[u8; 32], (Identity, u64)>,
}

struct Key {
    id: Option<String>,
    public: DecodingKey,
    /// What may be signed with it, whatever a token says.
    algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

// === impl JwtConfig ===

impl JwtConfig {
    pub(super) fn parser(self) -> impl Fn(&[Vec<u8>]) -> Result<Jwts, String> + Send + Sync {
        // Fails if it is in place already.
        let _ = ring_keys::PROVIDER.install_default();
        move |contents| {
            let text = contents.first().map_or(&[][..], Vec::as_slice);
            let set: JwkSet = serde_json::from_slice(text)
                .map_err(|error| format!("is not a set of keys (JWKS): {error}"))?;
            let keys: Vec<Key> = set.keys.iter().filter_map(Key::new).collect();
            if keys.is_empty() {
                return Err(
                    "has no key that could sign a token: RSA, P-256, P-384 or Ed25519".to_owned(),
                );
            }
            Ok(Jwts {
                keys,
                issuer: self.issuer.clone(),
                audience: self.audience.clone(),
                good: DashMap::new(),
            })
        }
    }
}

// === impl Jwts ===

impl Jwts {
    pub(super) fn verify(&self, token: &str) -> Result<Identity, Unauthenticated> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.good.get(&digest)
            && known.1 + LEEWAY_SECONDS > get_current_timestamp()
        {
            return Ok(known.0.clone());
        }
        let Claims { sub, exp } = self.claims(token).map_err(|error| refused(&error))?;
        let identity = Identity::of_token(&sub)
            .map_err(|why| Unauthenticated(format!("the bearer token's subject: {why}")))?;
        if self.good.len() >= REMEMBERED_MAX {
            self.good.clear();
        }
        self.good.insert(digest, (identity.clone(), exp));
        Ok(identity)
    }

    fn claims(&self, token: &str) -> Result<Claims, Error> {
        let header = decode_header(token)?;
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
    /// None for keys that cannot be used: secrets, curves that nobody checks here, keys that encrypt.
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

/// In words that help the one who holds the token and nobody else.
fn refused(error: &Error) -> Unauthenticated {
    let why = match error.kind() {
        ErrorKind::ExpiredSignature => "has expired",
        ErrorKind::ImmatureSignature => "is not valid yet",
        ErrorKind::InvalidIssuer => "was issued by somebody else",
        ErrorKind::InvalidAudience => "is for another audience",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "must say exp, iss, aud and sub"
        }
        ErrorKind::InvalidAlgorithm => "is signed in a way that its key does not allow",
        ErrorKind::InvalidSignature => "is not signed by a key that is known",
        _ => "is not known, and no JWT",
    };
    Unauthenticated(format!("the bearer token {why}"))
}
