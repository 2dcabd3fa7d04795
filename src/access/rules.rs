//! What is allowed. Rules only add up: a call is allowed if any rule allows it, and refused if none
//! does.

use super::Identity;

/// What a rule can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Acquire, wait, renew, resume, and set what a semaphore or a latch has.
    Acquire,
    /// Give back what is one's own.
    Release,
    /// See who holds a name and who waits for it, and check tokens.
    Describe,
    /// List, watch and release what is others'.
    Admin,
}

/// What some identities may do with some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A name; one that ends in `*` stands for all that begin so. `*` is everybody with a name,
    /// `anonymous` is whoever has none.
    pub identity: String,
    /// What names of locks, semaphores and latches begin with; empty: all.
    pub prefix: String,
    /// What is allowed.
    pub allow: Vec<Right>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

// === impl Right ===

impl Right {
    /// All rights.
    pub const ALL: [Self; 4] = [Self::Acquire, Self::Release, Self::Describe, Self::Admin];

    /// As rules and errors call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Describe => "describe",
            Self::Admin => "admin",
        }
    }
}

// === impl Rule ===

impl Rule {
    fn is_for(&self, identity: &Identity) -> bool {
        if identity.is_anonymous() {
            return self.identity == Identity::ANONYMOUS;
        }
        match self.identity.strip_suffix('*') {
            Some(start) => identity.as_str().starts_with(start),
            None => self.identity == identity.as_str(),
        }
    }
}

// === impl Rules ===

impl Rules {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn allow(&self, identity: &Identity, right: Right, name: &str) -> bool {
        self.0.iter().any(|rule| {
            rule.allow.contains(&right) && name.starts_with(&rule.prefix) && rule.is_for(identity)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(identity: &str, prefix: &str, allow: &[Right]) -> Rule {
        Rule {
            identity: identity.to_owned(),
            prefix: prefix.to_owned(),
            allow: allow.to_vec(),
        }
    }

    #[test]
    fn what_no_rule_allows_is_refused() {
        let rules = Rules::new(vec![
            rule(
                "spiffe://prod/*",
                "orders/",
                &[Right::Acquire, Right::Release],
            ),
            rule("ops", "", &[Right::Admin]),
            rule("*", "public/", &[Right::Describe]),
            rule("anonymous", "guests/", &[Right::Acquire]),
        ]);
        let may = |identity: &str, right, name: &str| {
            rules.allow(&Identity::named(identity), right, name)
        };
        assert!(may("spiffe://prod/web", Right::Acquire, "orders/1"));
        assert!(may("spiffe://prod/web", Right::Describe, "public/1"));
        assert!(may("ops", Right::Admin, "orders/1"));
        assert!(may("", Right::Acquire, "guests/1"));
        assert!(!may("spiffe://prod/web", Right::Describe, "orders/1"));
        assert!(!may("spiffe://prod/web", Right::Acquire, "order"));
        assert!(!may("spiffe://test/web", Right::Acquire, "orders/1"));
        assert!(!may("ops", Right::Acquire, "orders/1"));
        assert!(!may("opsx", Right::Admin, "orders/1"));
        assert!(!may("", Right::Describe, "public/1"));
        assert!(!may("anonymous-not", Right::Acquire, "guests/1"));
    }
}
