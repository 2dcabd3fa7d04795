//! JWTs as bearer tokens: who is let in, and as whom.

use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _, SigningKey as _};
use rustls::pki_types::UnixTime;
use serde_json::{Value, json};
use tonic::metadata::BinaryMetadataValue;

use super::{
    eventually,
    revoked::{end, open},
    try_acquire,
};
use crate::prelude::*;

/// By so much clocks may differ: a token is good for that much longer.
const LEEWAY_SECONDS: u64 = 30;

const RULES: &str = r#"
[[access.rules]]
identity = "web"
prefix = "web/"
allow = ["acquire", "release"]

[[access.rules]]
identity = "*"
prefix = "shared/"
allow = ["acquire", "release"]
"#;

/// Signs tokens, with a key that is in the JWKS file or in none.
struct Issuer(KeyPair);

// === impl Issuer ===

impl Issuer {
    fn new() -> Self {
        Self(KeyPair::generate_for(&PKCS_ED25519).unwrap())
    }

    /// A JWKS with its public key.
    fn keys(&self) -> String {
        let x = encode(self.0.der_bytes());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "one", "x": x});
        json!({ "keys": [key] }).to_string()
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "kid": "one"});
        let parts = [&header, claims].map(|part| encode(part.to_string().as_bytes()));
        let message = parts.join(".");
        let signature = self.0.sign(message.as_bytes()).unwrap();
        format!("{message}.{}", encode(&signature))
    }
}

/// As base64url without padding. gRPC has binary metadata as base64 without padding.
fn encode(bytes: &[u8]) -> String {
    let base64 = BinaryMetadataValue::from_bytes(bytes);
    let base64 = str::from_utf8(base64.as_encoded_bytes()).unwrap();
    base64.replace('+', "-").replace('/', "_")
}

/// The claims of a good token, but for one of them.
fn claims(key: &str, value: impl Into<Value>) -> Value {
    let mut claims = json!({
        "sub": "web",
        "iss": "https://issuer",
        "aud": ["lockkeeper"],
        "exp": now() + 600,
    });
    claims[key] = value.into();
    claims
}

fn now() -> u64 {
    UnixTime::now().as_secs()
}

/// A coordinator that takes the tokens of this issuer, and a folder with its files.
async fn coordinator(issuer: &Issuer) -> (Coordinator, TempDir) {
    let folder = TempDir::new().unwrap();
    let (config, keys) = (folder.path().join("config"), folder.path().join("jwks"));
    std::fs::write(&config, RULES).unwrap();
    std::fs::write(&keys, issuer.keys()).unwrap();
    let settings = Settings::on("embedded:")
        .with("auth.jwks_file", &keys.display().to_string())
        .with("auth.jwt_issuer", "https://issuer")
        .with("auth.jwt_audience", "lockkeeper")
        .with("auth.jwt_lifetime_max", "1h")
        .with_file(&config);
    (Coordinator::start(&settings).await, folder)
}

#[tokio::test]
async fn a_jwt_lets_in_and_one_that_is_not_for_us_now_by_our_issuer_does_not() {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let (coordinator, folder) = coordinator(&issuer).await;
    let channel = coordinator.client().await.channel();
    let good = issuer.sign(&claims("sub", "web"));
    assert!(
        try_acquire(&channel, "web/1", "o", Some(&good))
            .await
            .unwrap()
    );
    let refused = async |token: Option<&str>, why: &str| {
        let refused = try_acquire(&channel, "web/2", "o", token).await;
        let refused = refused.expect_err(why);
        assert_eq!(refused.code(), Code::Unauthenticated, "{why}: {refused}");
        assert_eq!(reason(&refused), "UNAUTHENTICATED");
        assert!(refused.message().contains(why), "{why}: {refused}");
    };
    refused(None, "show a bearer token").await;
    for (claims, why) in [
        (claims("exp", now() - 60), "has expired"),
        (claims("aud", "vault"), "for another audience"),
        (claims("iss", "https://other"), "another issuer"),
        (claims("exp", now() + 3700), "more than 3600 s"),
    ] {
        refused(Some(&issuer.sign(&claims)), why).await;
    }
    let forged = stranger.sign(&claims("sub", "web"));
    refused(Some(&forged), "not signed by a key").await;

    // The keys are replaced, and an accepted token is not remembered beyond that.
    std::fs::write(folder.path().join("jwks"), stranger.keys()).unwrap();
    eventually("the new key is known", || async {
        try_acquire(&channel, "web/3", "o", Some(&forged))
            .await
            .is_ok()
    })
    .await;
    refused(Some(&good), "not signed by a key").await;
    assert!(!coordinator.log().contains(&good), "a token in the log");
}

#[tokio::test]
async fn the_subject_of_a_jwt_is_the_identity_that_rules_and_owners_go_by() {
    let issuer = Issuer::new();
    let (coordinator, _folder) = coordinator(&issuer).await;
    let channel = coordinator.client().await.channel();
    let [web, api] = ["web", "api"].map(|subject| issuer.sign(&claims("sub", subject)));
    let tried = async |name: &str, token: &str| {
        let tried = try_acquire(&channel, name, "o", Some(token)).await;
        tried.map_err(|refused| refused.code())
    };
    assert_eq!(tried("web/1", &web).await, Ok(true));
    assert_eq!(tried("web/2", &api).await, Err(Code::PermissionDenied));
    assert_eq!(tried("api/1", &web).await, Err(Code::PermissionDenied));
    // The owner of the same name is another one of each identity, and the same with a later token.
    assert_eq!(tried("shared/1", &web).await, Ok(true));
    assert_eq!(tried("shared/1", &api).await, Ok(false));
    let later = issuer.sign(&claims("exp", now() + 900));
    assert_eq!(tried("shared/1", &later).await, Ok(true));
}

#[tokio::test]
async fn a_jwt_that_ends_ends_its_streams() {
    const LIVES_SECONDS: u64 = 3;
    let issuer = Issuer::new();
    let (coordinator, _folder) = coordinator(&issuer).await;
    let channel = coordinator.client().await.channel();
    let token = issuer.sign(&claims("exp", now() + LIVES_SECONDS - LEEWAY_SECONDS));
    let session = open(&channel, Some(&token), "web/1").await;
    let (was_announced, status) = end(session).await;
    assert!(was_announced, "{status:?}");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
}
