//! Rules: a call is allowed if any rule allows it. There are no deny rules.

use super::Identity;

/// A right that a rule can grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Acquire, wait, renew, resume, and set permits and counts.
    Acquire,
    /// Release one's own grants.
    Release,
    /// See holders and waiters, and check tokens.
    Describe,
    /// Take locks away from holders that were asked to yield.
    Preempt,
    /// List, watch and force-release locks held by other callers.
    Admin,
}

/// The rights of some identities to some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A name, or with `*` at its end a prefix of names. `*` matches every named identity,
    /// `anonymous` the callers without a name.
    pub identity: String,
    /// The prefix of names of locks, semaphores and latches; empty: all.
    pub prefix: String,
    /// The rights.
    pub allow: Vec<Right>,
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

// === impl Right ===

impl Right {
    /// All rights.
    pub const ALL: [Self; 5] = [
        Self::Acquire,
        Self::Release,
        Self::Describe,
        Self::Preempt,
        Self::Admin,
    ];

    /// Its name in rules and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Describe => "describe",
            Self::Preempt => "preempt",
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

    /// Whether a rule is for this identity.
    pub(super) fn know(&self, identity: &Identity) -> bool {
        self.0.iter().any(|rule| rule.is_for(identity))
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
    fn rights_have_the_names_that_rules_use() {
        let names = Right::ALL.map(Right::name);
        assert_eq!(
            names,
            ["acquire", "release", "describe", "preempt", "admin"]
        );
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
