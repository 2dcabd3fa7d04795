//! Identities of client certificates.

use x509_parser::{
    objects::oid_registry,
    prelude::{FromDer as _, GeneralName, X509Certificate, X509Name},
};

use super::Identity;

/// The identity of a verified certificate (DER): its first URI (as in SPIFFE), else its first DNS
/// name, else its subject. None if it has none of them, or if its subject is ambiguous.
pub fn of_certificate(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.map_or(&[][..], |it| it.value.general_names.as_slice());
    let uri = names.iter().find_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let dns = || {
        names.iter().find_map(|name| match name {
            GeneralName::DNSName(dns) => Some(*dns),
            _ => None,
        })
    };
    let name = match uri.or_else(dns) {
        Some(name) => name.to_owned(),
        None => subject(certificate.subject())?,
    };
    // A subject may contain blanks, as in `O=Example, CN=web`.
    let is_usable = !name.chars().any(char::is_control)
        && name != Identity::ANONYMOUS
        && !name.starts_with(Identity::UID_PREFIX);
    (is_usable && !name.is_empty()).then(|| Identity::named(&name))
}

/// A subject as text. None if an attribute is not text, or looks like several attributes: two
/// certificates must not have the same identity by chance.
fn subject(name: &X509Name<'_>) -> Option<String> {
    let looks_like_several = |value: &[u8]| {
        value.contains(&b'=') && value.iter().any(|byte| matches!(byte, b',' | b'+'))
    };
    if name
        .iter_attributes()
        .any(|it| looks_like_several(it.as_slice()))
    {
        return None;
    }
    name.to_string_with_registry(oid_registry()).ok()
}

/// When a certificate (DER) ends, in seconds since 1970.
pub fn end_of_certificate(der: &[u8]) -> Option<u64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn identity(names: Vec<SanType>, common_name: Option<&str>) -> Option<String> {
        let mut subject = DistinguishedName::new();
        if let Some(name) = common_name {
            subject.push(DnType::CommonName, name);
        }
        of_subject(names, subject)
    }

    fn of_subject(names: Vec<SanType>, subject: DistinguishedName) -> Option<String> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name = subject;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        of_certificate(certificate.der()).map(|it| it.as_str().to_owned())
    }

    #[test]
    fn a_certificate_ends_when_it_says() {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2040, 1, 2);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(end_of_certificate(certificate.der()), Some(2_209_075_200));
        assert_eq!(end_of_certificate(b"no certificate"), None);
    }

    #[test]
    fn a_uri_goes_before_a_dns_name_and_both_before_the_subject() {
        let uri = || SanType::URI("spiffe://prod/web".try_into().unwrap());
        let dns = || SanType::DnsName("web.prod".try_into().unwrap());
        let of = |names, subject| identity(names, subject).unwrap_or_default();
        assert_eq!(of(vec![dns(), uri()], Some("x")), "spiffe://prod/web");
        assert_eq!(of(vec![dns()], Some("x")), "web.prod");
        assert_eq!(of(vec![], Some("web of ours")), "CN=web of ours");
        assert_eq!(identity(vec![], None), None);
        for reserved in ["uid:0", "anonymous", "a\tb"] {
            let name = SanType::URI(reserved.try_into().unwrap());
            assert_eq!(identity(vec![name], Some("x")), None, "{reserved:?}");
        }
        assert_eq!(of_certificate(b"no certificate"), None);
    }

    #[test]
    fn a_subject_stands_for_one_certificate() {
        let of = |names: &[(DnType, &str)]| {
            let mut subject = DistinguishedName::new();
            for (kind, value) in names {
                subject.push(kind.clone(), *value);
            }
            of_subject(vec![], subject)
        };
        let (name, company) = (DnType::CommonName, DnType::OrganizationName);
        let two = of(&[(name.clone(), "web"), (company.clone(), "prod")]);
        assert_eq!(two.as_deref(), Some("CN=web, O=prod"));
        for one in ["web, O=prod", "web + O=prod"] {
            assert_eq!(of(&[(name.clone(), one)]), None, "{one}");
        }
        let clear = of(&[(company, "Example, Inc."), (name, "web")]);
        assert_eq!(clear.as_deref(), Some("O=Example, Inc., CN=web"));
    }

    #[test]
    fn a_subject_that_is_no_text_is_no_identity() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "caf~");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let mut der = certificate.der().to_vec();
        assert!(of_certificate(&der).is_some());
        // In Latin-1. The signature is not looked at here.
        for at in 0..der.len() - 4 {
            if der[at..].starts_with(b"caf~") {
                der[at + 3] = 0xe9;
            }
        }
        assert_eq!(of_certificate(&der), None);
    }
}
