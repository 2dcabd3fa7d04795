use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::jwk::Jwk;
use ring::{
    rand::SystemRandom,
    rsa::PublicKeyComponents,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
        RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
    },
};
use serde_json::{Value, json};

use super::*;

/// What `openssl genpkey -algorithm RSA` made (PKCS #8), because ring makes none. Nobody trusts it.
const RSA: &str = "\
    MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDCU4MX5XlA2d5iKy3H+ugryN6+xuCiSZUwbOnTcO\
    E30fsVzS3vg9f7zbGVsWLhFDHFUoW1ZhAcXV+SWa4zblI/f1Qzd9te5ZpNTaioKia21CQHA+SRPwreDyBDScPpNudT\
    YfHZqsEqjlHZeYvQNoNJxvGO3AfuVQzoennYwNSV/YPpu+6QWtZUEOA8aXFgwjVce+hvxqP7J+WGMCdChKXwz0Mfyv\
    NLTooWQ3fZod5jGd51ZzxfiNIyNlggmKUT939l1MSedc3uXrSR/rgP2Gx4BXGfhSEsqk7m7g1yt0wuTl6LZGa1aqVi\
    qfcNoEgbBbob39xcHZzk+80XOHwwL2NpAgMBAAECggEACn+BewaCHO9INMx5Xi7fYRIqemr7Erlf7mxL24jjGeVlp6\
    FchG5+ehN8LwaUvW0eXTcekxSu9SFUOu9OWmfw2I5T6a3lc4R66Ac0f9U7HzBpu9lJfVFHEIUHrKrtAwncyGPnsWco\
    pVhn8pQ+6eIwCInPXfTkFsuQdXS8ZWnRckLWHBK3ryOyNT8ukTwCKG6x0cgzCaNiZXa3Myd5QgJ4Bgsp2tLZsegU41\
    ffUfKDZ/0AtXGfmeitMmzfISBQrMkUK2mZAdZHYH/xcl9G79ycRjBNeKNRjEDh+UOPmT9iSmvow+CvKfi9V5WIQADA\
    ZO4HJQRJmZwDBHW0VhXIN+b+aQKBgQD61hSedRM3R42M+0dRDBEIFEYmkdkW6aj0uwQX+dpKbiI+bgcPzMclhkityE\
    NISxtneRx62bSpU3s9lITvLePBelGB/oUbrGP0HLaWCLViLdU6xfLhkG68cZYZRRhv7hxyCjn+2qeKO0ZowTLgtKUz\
    GipvVlAu3HQr4w5qY8W3VQKBgQDGU57xZVR3dyLrGnrtEe2SCttZ+YS0YLL9PV3+VEpVHEbbaJOWN26SDGZVO+8HSf\
    bSfiqBDzn+x84LQSv7z8CX0LQ3o5ItOvqTK/J2wrtX44tO9+H9HpsSd0HWi+i35RMk4fN8c1XK6CFMmxirIz8UlDS2\
    Yn2qvIUdHZijzrYTxQKBgFdNj5ufL/L7in7ZLnc89eiT9d6SwLZC2TVkqgYWRi3Fq1GDRh3vrhiXZlBl9VUCHyWid5\
    EimMieb7R9Ls94b171zcyq43VASQG7xKjvmwHy5dYw81oixQf9mLpu3BSJEYl3mbvkKo/oFZd8NtMSzLS+lKpvpjTJ\
    Mf3cZzYMR9KJAoGAQqhaVJIVKK3/K3vT8xhCfAJwJTaLFsElh533mIKmFSMS4a2tZSCuZiIKxv0E4rNGZQsIqCYA/R\
    QUuY2nBdSWy6/W0piEifU3wP1VWfsrUmflK55+8z81KaixlTWi+yPgIlZbKuns3OzWPFQon2SSUA1cBizmRdtk9hs7\
    cVsJsW0CgYEAyF/7faLJCnTmBRO3aIE3KiSrm11r7RbzO217INLhuwc6WJU3L1UoLqNm7m8INqA01el3SJt2e2ENMP\
    pwkNjJNahAsITq/iWX4yPWwfPyLzemb4MnYK38DnCTC7d6lama/TyF79IChuYzbwNyIVna7hbDfUpjq20w6HREnzTe\
    kl8=";

const MESSAGE: &[u8] = b"header.claims";

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn public(key: Value) -> DecodingKey {
    let key: Jwk = serde_json::from_value(key).unwrap();
    DecodingKey::from_jwk(&key).unwrap()
}

/// Fails unless this signature is good by this algorithm and by none of the others of its family.
fn only_good(by: Algorithm, key: &DecodingKey, signature: &[u8], all: &[Algorithm]) {
    for algorithm in all {
        let verifier = verifier(algorithm, key).unwrap();
        assert_eq!(verifier.algorithm(), *algorithm);
        let is_good = verifier.verify(MESSAGE, &signature.to_vec()).is_ok();
        assert_eq!(is_good, *algorithm == by, "{by:?} as {algorithm:?}");
        let is_good = verifier.verify(b"other", &signature.to_vec()).is_ok();
        assert!(!is_good, "{by:?} of another message");
    }
}

#[test]
fn a_signature_by_rsa_is_good_by_its_own_algorithm_only() {
    let pair = RsaKeyPair::from_pkcs8(&STANDARD.decode(RSA).unwrap()).unwrap();
    let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(pair.public());
    let key = public(json!({"kty": "RSA", "n": encode(&n), "e": encode(&e)}));
    let all: [(Algorithm, &dyn RsaEncoding); 6] = [
        (Algorithm::RS256, &RSA_PKCS1_SHA256),
        (Algorithm::RS384, &RSA_PKCS1_SHA384),
        (Algorithm::RS512, &RSA_PKCS1_SHA512),
        (Algorithm::PS256, &RSA_PSS_SHA256),
        (Algorithm::PS384, &RSA_PSS_SHA384),
        (Algorithm::PS512, &RSA_PSS_SHA512),
    ];
    for (by, encoding) in all {
        let mut signature = vec![0; pair.public().modulus_len()];
        let random = SystemRandom::new();
        pair.sign(encoding, &random, MESSAGE, &mut signature)
            .unwrap();
        only_good(by, &key, &signature, &all.map(|(it, _)| it));
    }
}

#[test]
fn a_signature_by_a_curve_is_good_by_its_own_algorithm_only() {
    let random = SystemRandom::new();
    for (by, curve, signing) in [
        (Algorithm::ES256, "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        (Algorithm::ES384, "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
    ] {
        let pair = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(signing, pair.as_ref(), &random).unwrap();
        let (_, point) = pair.public_key().as_ref().split_first().unwrap();
        let (x, y) = point.split_at(point.len() / 2);
        let key = json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)});
        let signature = pair.sign(&random, MESSAGE).unwrap();
        let all = [Algorithm::ES256, Algorithm::ES384];
        only_good(by, &public(key), signature.as_ref(), &all);
    }
    let pair = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
    let x = encode(pair.public_key().as_ref());
    let key = public(json!({"kty": "OKP", "crv": "Ed25519", "x": x}));
    let signature = pair.sign(MESSAGE);
    only_good(
        Algorithm::EdDSA,
        &key,
        signature.as_ref(),
        &[Algorithm::EdDSA],
    );
    assert!(
        verifier(&Algorithm::RS256, &key).is_err(),
        "of another family"
    );
}
