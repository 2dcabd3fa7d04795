//! What concerns others' locks, wherever they are held.

use std::collections::BTreeSet;

use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;

use super::world::{LEASE, World};
use crate::modes::wait;
use crate::prelude::*;

const NAME: &str = "admin:taken";

pub(super) async fn a_lock_is_listed_and_taken_away_and_its_holder_is_told_why(world: World) {
    let open = pb::OpenSession::default().lasting(LEASE);
    let mut holder = world.client(0).await.open_with(open).await.unwrap();
    let held = holder.acquire(NAME).await;
    let mut client = world.client(1).await;
    let mut admin = LockAdminServiceClient::new(client.channel());
    for number in 0..30 {
        let name = format!("admin:{number}");
        client.try_acquire(&name, "x", LEASE * 20).await.unwrap();
    }
    let mut names = BTreeSet::new();
    let mut request = pb::ListLocksRequest {
        prefix: "admin:".to_owned(),
        page_size: 7,
        ..Default::default()
    };
    loop {
        let page = admin.list_locks(request.clone()).await.unwrap();
        let page = page.into_inner();
        assert!(page.locks.len() <= 7);
        names.extend(page.locks.into_iter().map(|lock| lock.name));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(names.len(), 31, "{names:?}");
    let waiting = wait(NAME, "y", LockMode::Exclusive);
    let mut waiting = client.waits(waiting).await;
    let force = pb::ForceReleaseRequest::named(NAME).because("it hangs");
    let released = admin.force_release(force).await.unwrap().into_inner();
    assert_eq!((released.released, released.holder_count), (true, 1));
    let next = waiting.expect_granted().await;
    assert!(next.fencing_token > held.fencing_token);
    let lost = holder.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::ForceReleased, "{lost:?}");
    assert_eq!(lost.detail, "it hangs");
    client.release(NAME, "y").await.unwrap();
    for name in names.iter().filter(|name| *name != NAME) {
        client.release(name, "x").await.unwrap();
    }
}
