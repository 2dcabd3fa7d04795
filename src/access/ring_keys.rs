//! Verifies signatures of tokens with ring, which TLS uses too; it signs nothing.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error, Verifier},
};
use ring::signature::{self as by, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// The provider for `jsonwebtoken`.
pub(super) static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: refuse_to_sign,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

struct Key {
    algorithm: Algorithm,
    key: DecodingKey,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the provider's signature"
)]
fn refuse_to_sign(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the provider's signature"
)]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Key {
        algorithm: *algorithm,
        key: key.clone(),
    }))
}

// === impl Key ===

impl Key {
    fn check(&self, message: &[u8], signature: &[u8]) -> Option<()> {
        let rsa = |parameters: &'static RsaParameters| {
            let DecodingKeyKind::RsaModulusExponent { n, e } = self.key.kind() else {
                return None;
            };
            let key = RsaPublicKeyComponents { n, e };
            key.verify(parameters, message, signature).ok()
        };
        let plain = |algorithm: &'static dyn by::VerificationAlgorithm| {
            let key = self.key.try_get_as_bytes().ok()?;
            let key = UnparsedPublicKey::new(algorithm, key);
            key.verify(message, signature).ok()
        };
        match self.algorithm {
            Algorithm::RS256 => rsa(&by::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&by::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&by::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&by::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&by::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&by::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => plain(&by::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => plain(&by::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => plain(&by::ED25519),
            // Above all shared secrets (HS256): a public key must never be used as one.
            _ => None,
        }
    }
}

impl Verifier<Vec<u8>> for Key {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        self.check(message, signature).ok_or_else(Error::new)
    }
}

impl JwtVerifier for Key {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
#[path = "ring_keys_tests.rs"]
mod tests;
