//! The secrets of resume tokens.

use super::Session;

/// A shorter secret can be guessed.
const BYTES_MIN: usize = 32;

/// The one that signs, and one that is still or already accepted.
const SECRETS_MAX: usize = 2;

/// Parts of secrets that stand in examples, where everybody can read them.
const PLACEHOLDERS: [&str; 4] = ["replace this", "replace-this", "changeme", "change me"];

// === impl Session ===

impl Session {
    /// The secrets of resume tokens, of which the first signs; none: a random one per start.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        lines(self.secret.expose()).map(Into::into).collect()
    }
}

/// The secrets in the text of a file. An error does not show them.
pub(crate) fn parse(text: &str) -> Result<Vec<Vec<u8>>, String> {
    match problem(text) {
        Some(why) => Err(why),
        None if lines(text).next().is_none() => Err("is empty".to_owned()),
        None => Ok(lines(text).map(Into::into).collect()),
    }
}

/// Why the text is no list of secrets; none also if it has no secret.
pub(super) fn problem(text: &str) -> Option<String> {
    let known = text.to_lowercase();
    if PLACEHOLDERS.iter().any(|it| known.contains(it)) {
        return Some("is a placeholder; openssl rand -base64 32 generates a secret".to_owned());
    }
    if lines(text).any(|secret| secret.len() < BYTES_MIN) {
        return Some(format!(
            "must have at least {BYTES_MIN} bytes in each line; leave it empty for a random one \
             per start"
        ));
    }
    (lines(text).count() > SECRETS_MAX)
        .then(|| format!("must have at most {SECRETS_MAX} lines, each of them a secret"))
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_secret_or_two_that_nobody_guesses() {
        let (one, two) = ("0123456789abcdef0123456789abcdef", "x".repeat(32));
        let both = vec![one.as_bytes().to_vec(), two.as_bytes().to_vec()];
        assert_eq!(parse(&format!("\n{one} \n\n{two}\n")), Ok(both));
        for bad in [
            "",
            &one[1..],
            &format!("{one}\nshort"),
            &format!("{one}\n{two}\n{two}"),
            &format!("{one} changeme"),
        ] {
            let refused = parse(bad).unwrap_err();
            assert!(!refused.contains(one), "{refused}");
        }
    }
}
