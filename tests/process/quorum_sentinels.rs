//! A quorum whose members are masters that sentinels replace.

use crate::prelude::*;
use crate::sentinel::until_replicated;

#[tokio::test]
async fn a_member_that_fails_over_keeps_its_vote_and_the_lock_holds() {
    let mut members = join_all((0..3).map(|_| Sentinels::start())).await;
    // Only the first one is to fail over.
    for member in &members[1..] {
        member.be_patient().await;
    }
    let urls: Vec<_> = members.iter().map(Sentinels::url).collect();
    let settings = Settings::on_quorum(&urls.join(" "))
        .with("session.lease", "20s")
        .with("store.quorum_member_timeout", "1s");
    let coordinator = Coordinator::start(&settings).await;
    expect_serving(&coordinator).await;
    let mut client = coordinator.client().await;
    let mut holder = client.open().await;
    let held = holder.acquire("build").await;
    // A renewal does not copy the lock to a member that has lost it.
    until_replicated(&members[0], "build").await;

    let before = members[0].master().await.expect("there is a master");
    members[0].servers[before].kill();
    let elected = members[0].until_another_than(before).await;
    eventually("the grant is renewed on the new master", || async {
        let left = members[0].servers[elected].lease_left("build").await;
        left.is_some_and(|left| left > secs(19))
    })
    .await;
    let tried = client.try_acquire("build", "other", secs(9)).await;
    assert!(!tried.unwrap().acquired, "it is held");

    // From here on there is no majority without the vote of the new master.
    for server in &mut members[1].servers {
        server.kill();
    }
    assert!(holder.release("build").await.released);
    let elected = &members[0].servers[elected];
    assert_eq!(elected.lease_left("build").await, None);
    let again = holder.acquire("build").await;
    assert!(again.fencing_token > held.fencing_token);
    assert!(elected.lease_left("build").await.is_some());
}
