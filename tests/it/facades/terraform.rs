//! The locking of Terraform's http backend.

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use lockkeeper_access::{Access, Config, Port, Quotas, Right};
use lockkeeper_testkit::client::Caller;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::body::Body;
use tower::{Service as _, ServiceExt as _};

use super::etcd::options;
use crate::access::rule;
use crate::support::prelude::*;

const PATH: &str = "/terraform/team%2Fnet";
const NAME: &str = "team/net";

/// Terraform, with the password of its configuration.
struct Terraform {
    caller: Caller,
    password: &'static str,
}

impl Terraform {
    fn of(client: &Client) -> Self {
        Self::with("", client)
    }

    fn with(password: &'static str, client: &Client) -> Self {
        let caller = client.caller();
        Self { caller, password }
    }

    async fn ask(&mut self, method: &str, path: &str, body: String) -> (StatusCode, Value) {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header("content-type", "application/json");
        if !self.password.is_empty() {
            request = request.header("authorization", basic(self.password));
        }
        let request = request.body(Body::new(body)).unwrap();
        let caller = self.caller.ready().await.unwrap();
        let answer = caller.call(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn lock(&mut self, id: &str) -> (StatusCode, Value) {
        self.ask("LOCK", PATH, info(id).to_string()).await
    }

    async fn unlock(&mut self, id: &str) -> (StatusCode, Value) {
        self.ask("UNLOCK", PATH, info(id).to_string()).await
    }

    async fn force_unlock(&mut self) -> (StatusCode, Value) {
        self.ask("UNLOCK", PATH, String::new()).await
    }
}

/// What Terraform 1.11 sends, but for the fields that are empty.
fn info(id: &str) -> Value {
    json!({
        "ID": id,
        "Operation": "OperationTypeApply",
        "Who": "me@here",
        "Version": "1.11.4",
        "Created": "2026-11-24T02:23:28.493456371Z",
    })
}

/// `me` and this password, which is one of the two below.
fn basic(password: &str) -> &'static str {
    match password {
        DEPLOYER => "Basic bWU6MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        OPERATOR => "Basic bWU6ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=",
        _ => "Basic bWU6d3Jvbmc=",
    }
}

const DEPLOYER: &str = "0123456789abcdef0123456789abcdef";
const OPERATOR: &str = "fedcba9876543210fedcba9876543210";

fn tokens() -> Access {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, format!("deployer {DEPLOYER}\noperator {OPERATOR}\n")).unwrap();
    let config = Config {
        token_file: Some(file),
        rules: vec![
            rule("deployer", "team/", &[Right::Acquire, Right::Release]),
            rule("operator", "", &Right::ALL),
        ],
        quotas: Quotas::default(),
        ..Config::default()
    };
    let port = Port {
        admits_anonymous: false,
        ..Port::OPEN
    };
    Access::new(config, port).unwrap()
}

fn with_tokens() -> World {
    World::with(&Options {
        access: tokens(),
        ..options()
    })
}

#[track_caller]
fn expect_reason(answer: &(StatusCode, Value), status: StatusCode, reason: &str) {
    assert_eq!(answer.0, status, "{}", answer.1);
    let given = &answer.1["details"][0]["debug"]["reason"];
    assert_eq!(given, reason, "{}", answer.1);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_until_its_id_unlocks_it_or_its_lease_ends() {
    let world = World::with(&options());
    let mut client = world.client(0).await;
    let mut terraform = Terraform::of(&client);
    assert_eq!(terraform.lock("a").await, (StatusCode::OK, Value::Null));
    assert_eq!(terraform.lock("b").await, (StatusCode::LOCKED, info("a")));
    let repeated = terraform.lock("a").await;
    assert_eq!(repeated.0, StatusCode::OK, "the first answer may be lost");
    let seen = &client.describe(NAME).await.holders[0];
    assert_eq!(&*seen.owner, "a");
    let note = seen.note.as_ref().unwrap();
    assert_eq!(note.reason, "terraform OperationTypeApply");
    expect_reason(
        &terraform.unlock("b").await,
        StatusCode::BAD_REQUEST,
        "NOT_OWNER",
    );
    assert_eq!(terraform.unlock("a").await.0, StatusCode::OK);

    assert_eq!(terraform.lock("b").await.0, StatusCode::OK);
    tokio::time::sleep(secs(3601)).await;
    assert_eq!(terraform.lock("c").await.0, StatusCode::OK, "b has expired");
    expect_reason(
        &terraform.unlock("b").await,
        StatusCode::BAD_REQUEST,
        "NOT_OWNER",
    );
    assert_eq!(terraform.force_unlock().await.0, StatusCode::OK);
    world.expect_nothing_left(&[NAME]).await;
}

#[tokio::test(start_paused = true)]
async fn other_methods_lock_and_what_does_not_fit_is_refused() {
    let world = World::with(&options());
    let mut client = world.client(0).await;
    let mut terraform = Terraform::of(&client);
    for (lock, unlock) in [("POST", "DELETE"), ("PUT", "DELETE"), ("LOCK", "UNLOCK")] {
        let body = || info("a").to_string();
        assert_eq!(terraform.ask(lock, PATH, body()).await.0, StatusCode::OK);
        assert_eq!(terraform.lock("b").await.0, StatusCode::LOCKED);
        let unlocked = terraform.ask(unlock, PATH, body()).await;
        assert_eq!(unlocked.0, StatusCode::OK);
    }
    let state = r#"{"version":4,"serial":1,"lineage":"x"}"#;
    let refused = terraform.ask("POST", PATH, state.to_owned()).await;
    expect_reason(&refused, StatusCode::BAD_REQUEST, "INVALID_LOCK_INFO");
    let refused = terraform.ask("GET", PATH, String::new()).await;
    expect_reason(&refused, StatusCode::METHOD_NOT_ALLOWED, "STATE_NOT_KEPT");
    let body = info("a").to_string();
    for path in ["/terraform/%ff", "/terraform/%2"] {
        let refused = terraform.ask("LOCK", path, body.clone()).await;
        expect_reason(&refused, StatusCode::BAD_REQUEST, "INVALID_NAME");
    }
    let refused = terraform.ask("LOCK", "/terraform/", body).await;
    assert_eq!(refused.0, StatusCode::BAD_REQUEST);

    // A lock of another client is no state, so no `force-unlock` takes it away.
    for id in [None, Some(""), Some("build 7")] {
        let label = id.map(|id| ("ID".to_owned(), id.to_owned()));
        let note = pb::Note {
            labels: label.into_iter().collect(),
            ..pb::Note::default()
        };
        let shown = id.unwrap_or_default();
        let owner = client
            .try_with(try_request(NAME, "other").noted(note))
            .await;
        let owner = owner.unwrap().grant.unwrap().owner;
        let (status, holder) = terraform.lock("a").await;
        assert_eq!((status, &holder["ID"]), (StatusCode::LOCKED, &json!(shown)));
        expect_reason(
            &terraform.force_unlock().await,
            StatusCode::BAD_REQUEST,
            "NOT_OWNER",
        );
        client.release(NAME, &owner).await.unwrap();
    }

    let without = World::new();
    let mut terraform = Terraform::of(&without.client(0).await);
    let refused = terraform.lock("a").await;
    expect_reason(&refused, StatusCode::NOT_FOUND, "NO_SUCH_METHOD");
}

#[tokio::test(start_paused = true)]
async fn the_password_is_the_token_and_refusals_are_never_200() {
    let world = with_tokens();
    let client = world.client(0).await;
    let mut deployer = Terraform::with(DEPLOYER, &client);
    let mut operator = Terraform::with(OPERATOR, &client);
    for password in ["", "wrong"] {
        let mut nobody = Terraform::with(password, &client);
        assert_eq!(nobody.lock("a").await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(nobody.force_unlock().await.0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(deployer.lock("a").await.0, StatusCode::OK);
    let other = deployer
        .ask("LOCK", "/terraform/other", info("a").to_string())
        .await;
    expect_reason(&other, StatusCode::FORBIDDEN, "PERMISSION_DENIED");
    expect_reason(
        &operator.unlock("a").await,
        StatusCode::BAD_REQUEST,
        "NOT_OWNER",
    );
    let forced = deployer.force_unlock().await;
    expect_reason(&forced, StatusCode::FORBIDDEN, "PERMISSION_DENIED");
    assert_eq!(operator.force_unlock().await.0, StatusCode::OK);
    assert_eq!(operator.lock("b").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_retry_is_that_of_its_caller() {
    let world = with_tokens();
    let client = world.client(0).await;
    let mut deployer = Terraform::with(DEPLOYER, &client);
    let mut operator = Terraform::with(OPERATOR, &client);
    assert_eq!(deployer.lock("a").await.0, StatusCode::OK);
    for _ in 0..2 {
        assert_eq!(deployer.unlock("a").await.0, StatusCode::OK);
    }
    let refused = operator.unlock("a").await;
    expect_reason(&refused, StatusCode::BAD_REQUEST, "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn an_unlock_gives_back_all_that_repeats_of_the_lock_have_taken() {
    let world = World::with(&options());
    let client = world.client(0).await;
    let mut terraform = Terraform::of(&client);
    assert_eq!(terraform.lock("A").await.0, StatusCode::OK);
    assert_eq!(terraform.lock("A").await.0, StatusCode::OK);
    assert_eq!(terraform.unlock("A").await.0, StatusCode::OK);
    assert_eq!(terraform.lock("B").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_sent_again_has_the_first_answer() {
    let world = World::with(&options());
    let mut terraform = Terraform::of(&world.client(0).await);
    for (method, id, expected) in [
        ("LOCK", "one", 200),
        ("UNLOCK", "one", 200),
        ("UNLOCK", "one", 200),
        // Also if another run was faster.
        ("LOCK", "two", 200),
        ("UNLOCK", "one", 200),
        ("LOCK", "three", 423),
        ("UNLOCK", "three", 400),
        ("UNLOCK", "two", 200),
        // A script may always use the same ID.
        ("LOCK", "one", 200),
        ("LOCK", "one", 200),
        ("UNLOCK", "one", 200),
        ("LOCK", "four", 200),
        ("UNLOCK", "four", 200),
    ] {
        let answer = terraform.ask(method, PATH, info(id).to_string()).await;
        assert_eq!(answer.0, expected, "{method} {id}: {}", answer.1);
    }
    tokio::time::sleep(secs(61)).await;
    assert_eq!(terraform.unlock("one").await.0, StatusCode::BAD_REQUEST);
}
