//! Each coordinator judges the caller by its own rules, and sees no more of it than its token.

use lockkeeper_access::{Access, Config, Port, Quotas, Right};
use tempfile::TempDir;
use tonic::Request;

use super::{Admin, admin, missing, options};
use crate::access::{access, rule};
use crate::support::prelude::*;

const OPERATOR: &str = "0123456789abcdef0123456789abcdef";
const TENANT: &str = "fedcba9876543210fedcba9876543210";

/// Tokens of a file, and what the operator may do; the tenant may use every name.
fn tokens(folder: &TempDir, operator: &[Right]) -> Access {
    let file = folder.path().join("tokens");
    std::fs::write(&file, format!("operator {OPERATOR}\ntenant {TENANT}\n")).unwrap();
    let config = Config {
        token_file: Some(file),
        rules: vec![
            rule("operator", "", operator),
            rule(
                "tenant",
                "",
                &[Right::Acquire, Right::Release, Right::Describe],
            ),
        ],
        ..Config::default()
    };
    let port = Port {
        admits_anonymous: false,
        ..Port::OPEN
    };
    Access::new(config, port).unwrap()
}

fn with_token<T>(token: &str, request: T) -> Request<T> {
    let mut request = Request::new(request);
    let header = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

async fn coordinators(admin: &Admin, token: &str) -> Result<pb::ListCoordinatorsResponse, Status> {
    let request = with_token(token, pb::ListCoordinatorsRequest { fleet: true });
    Ok(admin.clone().list_coordinators(request).await?.into_inner())
}

#[tokio::test(start_paused = true)]
async fn others_are_shown_the_caller_s_token_and_judge_by_their_own_rules() {
    let folder = TempDir::new().unwrap();
    let mut world = World::with(&Options {
        access: tokens(&folder, &Right::ALL),
        ..options(2)
    });
    world.add_coordinator(&Options {
        access: tokens(&folder, &[Right::Describe]),
        ..options(1)
    });
    let admin = admin(&world, 0).await;
    eventually("they know each other", || async {
        let listed = coordinators(&admin, OPERATOR).await.unwrap();
        listed.coordinators.len() + listed.unasked.len() == 3
    })
    .await;
    let listed = coordinators(&admin, OPERATOR).await.unwrap();
    let names: Vec<_> = listed
        .coordinators
        .iter()
        .map(|it| it.coordinator.as_str())
        .collect();
    assert_eq!(names, ["http://node:0", "http://node:1"]);
    let [(name, why)] = missing(&listed.unasked)[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(name, "http://node:2");
    assert!(why.starts_with("it refuses: "), "{why}");
    // Who has no right at the first one reaches no other.
    let before = world.roads.connections(1);
    let refused = coordinators(&admin, TENANT).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    let listing = pb::ListSessionsRequest {
        fleet: true,
        ..Default::default()
    };
    let refused = admin
        .clone()
        .list_sessions(with_token(TENANT, listing))
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
    assert_eq!(world.roads.connections(1), before);
}

#[tokio::test(start_paused = true)]
async fn the_certificate_of_a_coordinator_that_asks_gives_its_caller_no_rights() {
    const PEER: &str = "spiffe://prod/lockkeeper";
    let world = World::with(&Options {
        access: access(vec![rule(PEER, "", &Right::ALL)], Quotas::default()),
        ..options(1)
    });
    let client = world.client_as(0, PEER).await;
    let mut admin = Admin::new(client.channel());
    let request = pb::ListCoordinatorsRequest { fleet: false };
    assert!(admin.list_coordinators(request).await.is_ok());
    let mut request = with_token("a token that nobody knows", request);
    let caller = "caller".parse().unwrap();
    request
        .metadata_mut()
        .insert("lockkeeper-on-behalf", caller);
    let refused = admin.list_coordinators(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn the_identity_of_a_certificate_is_not_passed_on() {
    const OPS: &str = "spiffe://prod/ops";
    let rules = vec![rule(OPS, "", &Right::ALL)];
    let world = World::with(&Options {
        access: access(rules, Quotas::default()),
        ..options(2)
    });
    let client = world.client_as(0, OPS).await;
    let admin = Admin::new(client.channel());
    let request = pb::ListCoordinatorsRequest { fleet: true };
    eventually("they know each other", || async {
        let listed = admin.clone().list_coordinators(request).await.unwrap();
        listed.into_inner().unasked.len() == 1
    })
    .await;
    let listed = admin
        .clone()
        .list_coordinators(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.coordinators.len(), 1);
    let why = missing(&listed.unasked)[0].1;
    assert!(
        why.starts_with("the caller's certificate or socket counts only here"),
        "{why}"
    );
    assert_eq!(world.roads.connections(1), 0);
}
