//! Pages of the console, as other coordinators read them.

use lockkeeper_access::{Quotas, Right};
use serde_json::Value;

use super::{Admin, admin};
use crate::access::{access, rule};
use crate::support::prelude::*;

async fn read(admin: &mut Admin, page: &str, query: &str) -> Result<Value, Status> {
    let request = pb::ReadPageRequest {
        page: page.to_owned(),
        query: query.to_owned(),
    };
    let read = admin.read_page(request).await?.into_inner();
    Ok(serde_json::from_slice(&read.json).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_history_goes_back_from_an_event_without_repeating_it() {
    let (world, client) = World::with_client().await;
    let mut session = client.clone().open().await;
    // Consoles ask for it.
    world.coordinator(0).keep_history();
    for name in ["a", "b", "c"] {
        session.acquire(name).await;
    }
    let mut admin = admin(&client);
    let mut numbers = async |query: &str| {
        let page = read(&mut admin, "history", query).await.unwrap();
        let events = page["events"].as_array().unwrap().iter();
        let numbers: Vec<_> = events.map(|it| it["number"].as_u64().unwrap()).collect();
        (numbers, page["more"] == true)
    };
    let (all, _) = numbers("").await;
    let [last, middle, first] = all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(numbers("limit=1").await, (vec![last], true));
    let before = |number| format!("limit=1&before={number}");
    assert_eq!(numbers(&before(last)).await, (vec![middle], true));
    assert_eq!(numbers(&before(middle)).await, (vec![first], false));
    assert_eq!(numbers(&format!("after={first}")).await.0, [last, middle]);
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_name_needs_the_right_to_that_name_only() {
    let rules = vec![rule("ops", "team/", &[Right::Admin])];
    let world = World::with(&Options::with(|it| {
        it.access = access(rules, Quotas::default());
    }));
    let mut admin = admin(&world.client_as(0, "ops").await);
    for page in ["lock", "semaphore", "latch"] {
        let own = read(&mut admin, page, "name=team/a").await;
        let code = own.err().map(|it| it.code());
        assert!([None, Some(Code::NotFound)].contains(&code), "{page}");
        let refused = read(&mut admin, page, "name=a").await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{page}");
    }
}
