//! Static tokens from a file: each line has an identity, a space and the token. An identity may
//! have several tokens, so that they can be rotated without a gap.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::Identity;

/// A shorter token can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

type Digest = [u8; 32];

/// The digests of the tokens.
pub(super) struct Tokens(Vec<(Digest, Identity)>);

// === impl Tokens ===

impl Tokens {
    /// Errors give the line number and never show its contents.
    pub(super) fn parse(contents: &[Vec<u8>]) -> Result<Self, String> {
        let text = contents.first().map_or(&[][..], Vec::as_slice);
        let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
        let mut tokens: Vec<(Digest, Identity)> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |why: &str| format!("line {number}: {why}");
            let mut words = line.split_whitespace();
            let (Some(identity), Some(token), None) = (words.next(), words.next(), words.next())
            else {
                return Err(refuse("must have an identity and a token"));
            };
            if token.len() < TOKEN_BYTES_MIN {
                let why = format!("a token must have at least {TOKEN_BYTES_MIN} bytes");
                return Err(refuse(&why));
            }
            let identity = Identity::of_token(identity).map_err(refuse)?;
            let digest = Sha256::digest(token).into();
            if tokens.iter().any(|(known, _)| *known == digest) {
                return Err(refuse("an earlier line has the same token"));
            }
            tokens.push((digest, identity));
        }
        Ok(Self(tokens))
    }

    /// The identities that have tokens in one file only. Says nothing of the tokens.
    pub(super) fn compare(&self, new: &Self) -> String {
        let only = |of: &Self, others: &Self| {
            let is_new = |token: &&(Digest, Identity)| !others.0.contains(token);
            let names = of.0.iter().filter(is_new).map(|(_, it)| it.as_str());
            names.collect::<Vec<_>>().join(" ")
        };
        format!("added: {}; removed: {}", only(new, self), only(self, new))
    }

    /// The token's identity. Compares with every known token in constant time, so that timing
    /// reveals nothing.
    pub(super) fn find(&self, token: &str) -> Option<Identity> {
        let digest: Digest = Sha256::digest(token).into();
        let mut found = None;
        for (known, identity) in &self.0 {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(identity);
            }
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(&[text.as_bytes().to_vec()])
    }

    #[test]
    fn a_token_stands_for_its_identity() {
        let tokens =
            parse("# ours\n\nci  0123456789abcdef\nci 0123456789abcdeg\r\nweb fedcba9876543210\n");
        let tokens = tokens.unwrap();
        let find = |token| tokens.find(token).map(|it| it.as_str().to_owned());
        assert_eq!(find("0123456789abcdef").as_deref(), Some("ci"));
        assert_eq!(find("0123456789abcdeg").as_deref(), Some("ci"));
        assert_eq!(find("fedcba9876543210").as_deref(), Some("web"));
        assert_eq!(find("0123456789abcde"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn files_are_compared_by_whose_tokens_came_and_went() {
        let old = parse("ci 0123456789abcdef\nweb fedcba9876543210").unwrap();
        let new = parse("ci 0123456789abcdef\napi aaaaaaaaaaaaaaaa").unwrap();
        assert_eq!(old.compare(&new), "added: api; removed: web");
        assert_eq!(old.compare(&old), "added: ; removed: ");
        let moved = parse("api 0123456789abcdef\nweb fedcba9876543210").unwrap();
        assert_eq!(old.compare(&moved), "added: api; removed: ci");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_its_line_and_not_shown() {
        for (bad, line) in [
            ("ci", "line 1"),
            ("# x\nci short", "line 2"),
            ("ci 0123456789abcdef x", "line 1"),
            ("uid:0 0123456789abcdef", "line 1"),
            ("anonymous 0123456789abcdef", "line 1"),
            ("a 0123456789abcdef\nb 0123456789abcdef", "line 2"),
        ] {
            let refused = parse(bad).err().unwrap();
            assert!(refused.starts_with(line), "{bad:?}: {refused}");
            assert!(!refused.contains("0123456789abcdef"), "{refused}");
        }
    }
}
