//! Who may do what: nobody uses, resumes, renews, releases or sees what belongs to another
//! identity, and nobody does what no rule allows.

mod admin;
mod locks;
mod matrix;
mod permits;
mod quotas;
mod raw;
mod revoked;
mod rules;
mod sessions;
mod shares;

use lockkeeper_access::{Access, Config, Port, Quotas, Right, Rule};

use crate::support::prelude::*;

/// Who owns what, and who would like to.
const ALICE: &str = "spiffe://prod/alice";
const MALLORY: &str = "spiffe://prod/mallory";

pub(crate) fn rule(identity: &str, prefix: &str, allow: &[Right]) -> Rule {
    Rule {
        identity: identity.to_owned(),
        prefix: prefix.to_owned(),
        allow: allow.to_vec(),
    }
}

/// Certificates are asked for; callers without one are refused.
pub(crate) fn access(rules: Vec<Rule>, quotas: Quotas) -> Access {
    let config = Config {
        certificates: true,
        rules,
        quotas,
        ..Config::default()
    };
    let port = Port {
        admits_anonymous: false,
        ..Port::OPEN
    };
    Access::new(config, port).unwrap()
}

fn world_with(rules: Vec<Rule>, quotas: Quotas) -> World {
    World::with(&Options::with(|it| {
        it.coordinators = 2;
        it.access = access(rules, quotas);
    }))
}

/// A world in which both may use every name, with a client of each.
async fn both() -> (World, Client, Client) {
    let world = world_with(Vec::new(), Quotas::default());
    let alice = world.client_as(0, ALICE).await;
    let mallory = world.client_as(0, MALLORY).await;
    (world, alice, mallory)
}

#[track_caller]
fn assert_no_session<T>(answer: Result<T, Status>) {
    expect_refused(answer, Code::NotFound, "SESSION_NOT_FOUND");
}

#[track_caller]
fn assert_not_owner<T>(answer: Result<T, Status>) {
    expect_refused(answer, Code::FailedPrecondition, "NOT_OWNER");
}
