use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::json;

use super::*;

struct Issuer(EcdsaKeyPair);

impl Issuer {
    fn new() -> Self {
        let (random, by) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let key = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(by, key.as_ref(), &random).unwrap())
    }

    /// Its public key, as a JWKS has it.
    fn key(&self, id: &str) -> Value {
        let point = self.0.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": id, "x": x, "y": y})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", encode(signature.unwrap().as_ref()))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| encode(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

fn jwts(keys: &[Value]) -> Jwts {
    let config = JwtConfig {
        file: PathBuf::new(),
        issuer: "https://issuer".to_owned(),
        audience: "lockkeeper".to_owned(),
        lifetime_max: Some(Duration::from_secs(3600)),
    };
    let set = json!({ "keys": keys }).to_string().into_bytes();
    config.parser()(&[set]).unwrap()
}

fn claims() -> Value {
    let exp = get_current_timestamp() + 60;
    json!({"sub": "web", "iss": "https://issuer", "aud": ["lockkeeper"], "exp": exp})
}

fn with(key: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[key] = value.into();
    claims
}

fn header() -> Value {
    json!({"alg": "ES256", "kid": "one"})
}

#[test]
fn the_subject_of_a_good_token_is_who_calls() {
    let (one, two) = (Issuer::new(), Issuer::new());
    let jwts = jwts(&[one.key("one"), two.key("two")]);
    for _ in 0..2 {
        let token = one.sign(&header(), &claims());
        assert_eq!(jwts.verify(&token).unwrap().as_str(), "web");
    }
    let of_two = two.sign(&json!({"alg": "ES256", "kid": "two"}), &with("sub", "api"));
    assert_eq!(jwts.verify(&of_two).unwrap().as_str(), "api");
}

#[test]
fn a_token_that_was_not_made_for_us_now_by_our_issuer_is_refused() {
    let (one, stranger) = (Issuer::new(), Issuer::new());
    let jwts = jwts(&[one.key("one"), stranger.key("two")]);
    let now = get_current_timestamp();
    let refused = |token: &str, why: &str| {
        let refused = jwts.verify(token).unwrap_err();
        assert!(refused.0.contains(why), "{why}: {refused}");
    };
    let mut late = with("exp", now + 7200);
    late["iat"] = (now + 7100).into();
    for (claims, why) in [
        (with("exp", now - 60), "expired"),
        (with("nbf", now + 60), "not valid yet"),
        (with("aud", "vault"), "another audience"),
        (with("iss", "https://other"), "another issuer"),
        (with("sub", "uid:0"), "uid:"),
        (with("exp", now + 3700), "more than 3600 s"),
        (with("exp", u64::MAX), "expires too late"),
        (with("exp", 1_u64 << 63), "expires too late"),
        (with("iat", "now"), "of the wrong type"),
        (with("iat", now - 3600), "more than 3600 s"),
        (late, "more than 3600 s"),
        (
            with("iss", json!(["https://issuer", "https://other"])),
            "of the wrong type",
        ),
        (with("exp", Value::Null), "must have"),
        (with("aud", Value::Null), "must have"),
    ] {
        refused(&one.sign(&header(), &claims), why);
    }
    refused(&stranger.sign(&header(), &claims()), "not signed by a key");
    let unknown = json!({"alg": "ES256", "kid": "three"});
    refused(&one.sign(&unknown, &claims()), "not signed by a key");
    let nameless = json!({"alg": "ES256"});
    refused(&one.sign(&nameless, &claims()), "not signed by a key");
    refused("0123456789abcdef", "not a JWT");
    let critical = json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": true});
    refused(&one.sign(&critical, &claims()), "crit");
    let mut altered = one.sign(&header(), &claims()).into_bytes();
    let last = altered.len() - 2;
    altered[last] ^= 1;
    let altered = String::from_utf8(altered).unwrap();
    assert!(jwts.verify(&altered).is_err());
}

#[test]
fn what_a_token_says_of_its_signature_is_not_believed() {
    let one = Issuer::new();
    let jwts = jwts(&[one.key("one")]);
    let none = json!({"alg": "none", "kid": "one"});
    let unsigned = format!("{}.", message(&none, &claims()));
    assert!(jwts.verify(&unsigned).is_err());
    // The public key, which is no secret, used as a shared secret.
    let shared = json!({"alg": "HS256", "kid": "one"});
    let message = message(&shared, &claims());
    let key = hmac::Key::new(hmac::HMAC_SHA256, one.0.public_key().as_ref());
    let signature = hmac::sign(&key, message.as_bytes());
    let forged = format!("{message}.{}", encode(signature.as_ref()));
    let refused = jwts.verify(&forged).unwrap_err();
    assert!(refused.0.contains("its key does not allow"), "{refused}");
}

#[test]
fn keys_that_check_nothing_are_refused() {
    let parse = |text: &str| {
        let config = JwtConfig {
            file: PathBuf::new(),
            issuer: "i".to_owned(),
            audience: "a".to_owned(),
            lifetime_max: None,
        };
        config.parser()(&[text.as_bytes().to_vec()]).err()
    };
    let secret = r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]}"#;
    assert!(parse(secret).unwrap().contains("no key"));
    let one = Issuer::new();
    let twice = json!({"keys": [one.key("one"), one.key("two"), one.key("one")]});
    assert!(parse(&twice.to_string()).unwrap().contains("\"one\""));
    let encrypts = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "enc",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    assert!(parse(encrypts).unwrap().contains("no key"));
    let mut other = one.key("one");
    other["alg"] = "ES384".into();
    let other = json!({"keys": [other]}).to_string();
    assert!(parse(&other).unwrap().contains("no key"), "P-256 cannot");
    assert!(parse("nonsense").unwrap().contains("JWKS"));
    assert!(parse(&encrypts.replace("enc", "sig")).is_none());
}

#[test]
fn a_good_token_is_remembered_until_its_end() {
    let one = Issuer::new();
    let jwts = jwts(&[one.key("one")]);
    let remember = |token: &str, exp| {
        let digest = Sha256::digest(token).into();
        jwts.good.insert(digest, (Identity::named("web"), exp));
    };
    let now = get_current_timestamp();
    remember("known", now + 60);
    assert_eq!(jwts.verify("known").unwrap().as_str(), "web");
    assert_eq!(jwts.end_of("known"), Some(now + 60 + LEEWAY_SECONDS));
    assert_eq!(jwts.end_of("unknown"), None);
    remember("over", now - LEEWAY_SECONDS);
    assert!(jwts.verify("over").is_err(), "it is looked at anew");
    let token = one.sign(&header(), &claims());
    assert!(jwts.verify(&token).is_ok() && jwts.verify("known").is_ok());
    let end = jwts.end_of(&token);
    jwts.good.clear();
    assert!(end.is_some());
    assert_eq!(jwts.end_of(&token), end, "others have pushed it out");
}

#[test]
fn tokens_beyond_the_number_are_remembered_anew() {
    let one = Issuer::new();
    let jwts = jwts(&[one.key("one")]);
    for number in 0..REMEMBERED_MAX {
        let digest = Sha256::digest(number.to_be_bytes()).into();
        jwts.good.insert(digest, (Identity::named("web"), 0));
    }
    jwts.verify(&one.sign(&header(), &claims())).unwrap();
    assert_eq!(jwts.good.len(), 1);
}

#[test]
fn keys_are_compared_by_their_ids() {
    let [one, two] = [Issuer::new(), Issuer::new()];
    let old = jwts(&[one.key("one")]);
    let new = jwts(&[one.key("one"), two.key("two")]);
    assert_eq!(old.compare(&new), "before: one; now: one two");
}

#[test]
fn a_token_may_live_as_long_as_is_allowed_and_name_no_key_where_there_is_one() {
    let one = Issuer::new();
    let mut jwts = jwts(&[one.key("one")]);
    let verify = |jwts: &Jwts, claims: &Value| {
        let token = one.sign(&json!({"alg": "ES256"}), claims);
        jwts.verify(&token)
    };
    let now = get_current_timestamp();
    let mut claims = with("exp", now + 3600);
    claims["iat"] = now.into();
    assert!(verify(&jwts, &claims).is_ok());
    jwts.lifetime_max = None;
    claims["exp"] = END_MAX.into();
    assert!(verify(&jwts, &claims).is_ok());
}

#[test]
fn times_of_a_token_may_have_fractions() {
    let one = Issuer::new();
    let mut claims = claims();
    let exp = claims["exp"].as_u64().unwrap();
    claims["exp"] = serde_json::from_str(&format!("{exp}.4")).unwrap();
    claims["iat"] = serde_json::from_str(&format!("{}.789", get_current_timestamp())).unwrap();
    let jwts = jwts(&[one.key("one")]);
    let token = one.sign(&header(), &claims);
    assert_eq!(jwts.verify(&token).unwrap().as_str(), "web");
    assert_eq!(jwts.end_of(&token), Some(exp + LEEWAY_SECONDS));
}

#[tokio::test(start_paused = true)]
async fn access_by_a_signed_token_ends_with_it_or_with_its_key() {
    let [one, two] = [Issuer::new(), Issuer::new()];
    let file = tempfile::NamedTempFile::new().unwrap();
    let keys = json!({ "keys": [one.key("one")] }).to_string();
    std::fs::write(&file, keys).unwrap();
    let jwt = JwtConfig {
        file: file.path().to_owned(),
        issuer: "https://issuer".to_owned(),
        audience: "lockkeeper".to_owned(),
        lifetime_max: None,
    };
    let config = crate::Config {
        jwt: Some(jwt),
        ..crate::Config::default()
    };
    let access = crate::Access::new(config, crate::Port::OPEN).unwrap();
    let claims = claims();
    let token = one.sign(&header(), &claims);
    assert_eq!(access.bearer(Some(&token)).unwrap().as_str(), "web");
    let end = claims["exp"].as_u64().map(|exp| exp + LEEWAY_SECONDS);
    assert_eq!(access.end_of(&token), end);
    assert!(access.bearer(Some("other")).is_err());
    let look = || access.bearer(Some(&token)).map(|_| None);
    let changes = async {
        tokio::task::yield_now().await;
        let keys = json!({ "keys": [two.key("two")] }).to_string();
        std::fs::write(&file, keys).unwrap();
        access.reload();
    };
    let refused = tokio::time::timeout(Duration::from_secs(3600), access.until_refused(look));
    let (refused, ()) = tokio::join!(refused, changes);
    assert!(refused.unwrap().0.contains("not signed by a key"));
}
