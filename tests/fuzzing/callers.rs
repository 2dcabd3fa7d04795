//! Who callers say they are: signed tokens and client certificates.

use std::{env, fs, path::PathBuf, process, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lockkeeper_access::{
    Access, Config, Identity, JwtConfig, Port, end_of_certificate, of_certificate,
};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// The issuer's private key. No fuzzer guesses a signature of it.
const SEED: [u8; 32] = [7; 32];

const ISSUER: &str = "https://issuer";
const AUDIENCE: &str = "lockkeeper";

/// A token; behind a byte 0 its claims, and both are signed by the issuer; or a set of keys, which
/// begins with a brace.
pub fn jwt(bytes: &[u8]) {
    static ACCESS: OnceLock<Access> = OnceLock::new();
    if bytes.first() == Some(&b'{') && !bytes.contains(&0) {
        let _ = access("keys", bytes);
        return;
    }
    let access = ACCESS.get_or_init(|| access("issuer", &issuer_keys()).expect("good keys"));
    let Some(at) = bytes.iter().position(|it| *it == 0) else {
        let token = String::from_utf8_lossy(bytes);
        assert!(access.bearer(Some(&token)).is_err(), "a forged token");
        return;
    };
    let parts = [&bytes[..at], &bytes[at + 1..]];
    let message = parts.map(|it| URL_SAFE_NO_PAD.encode(it)).join(".");
    let signature = URL_SAFE_NO_PAD.encode(issuer().sign(message.as_bytes()).as_ref());
    let token = format!("{message}.{signature}");
    if let Ok(identity) = access.bearer(Some(&token)) {
        must_be_usable(&identity);
        // The second time it comes from a cache.
        assert!(
            access
                .bearer(Some(&token))
                .is_ok_and(|it| it.as_str() == identity.as_str())
        );
        let claims: serde_json::Value = serde_json::from_slice(parts[1]).expect("claims");
        assert_eq!(claims["sub"], identity.as_str());
        assert!(
            parts[1]
                .windows(ISSUER.len())
                .any(|it| it == ISSUER.as_bytes())
        );
        // Until when it is good must be known, or it would be good for ever.
        assert!(access.end_of(&token).is_some());
    }
    let unsigned = format!("{message}.");
    assert!(access.bearer(Some(&unsigned)).is_err());
}

/// A client certificate, DER, that TLS has verified.
pub fn certificate(bytes: &[u8]) {
    if let Some(identity) = of_certificate(bytes) {
        must_be_usable(&identity);
    }
    let _ = end_of_certificate(bytes);
}

/// No caller can name itself as one that has no name, or as a user of this machine.
fn must_be_usable(identity: &Identity) {
    let name = identity.as_str();
    assert!(!name.is_empty() && name != Identity::ANONYMOUS, "{name}");
    assert!(!name.starts_with(Identity::UID_PREFIX), "{name}");
    assert!(!name.chars().any(char::is_control), "{name:?}");
}

fn issuer() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&SEED).expect("a key")
}

fn issuer_keys() -> Vec<u8> {
    let public = URL_SAFE_NO_PAD.encode(issuer().public_key().as_ref());
    let keys = format!(
        r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "{public}"}}]}}"#
    );
    keys.into_bytes()
}

/// What takes the tokens of these keys. None if they are refused.
fn access(name: &str, keys: &[u8]) -> Option<Access> {
    let file = path(name);
    fs::write(&file, keys).expect("a file");
    let config = Config {
        jwt: Some(JwtConfig {
            file: file.clone(),
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            lifetime_max: None,
        }),
        ..Config::default()
    };
    let access = Access::new(config, Port::OPEN);
    let _ = fs::remove_file(file);
    access.ok()
}

fn path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("lockkeeper-fuzzing-{name}-{}", process::id()))
}
