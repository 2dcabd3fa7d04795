//! More sessions that are resumed at once than take their turn at once.

use lockkeeper_base::tasks::spawn_detached;
use tokio::task::JoinHandle;

use crate::support::prelude::*;

/// How many sessions are resumed at the same time.
const TURNS: usize = 256;

type Resuming = JoinHandle<Result<Session, Status>>;

/// Opens sessions, and resumes all of them at once on a store that takes a while to answer.
async fn resume(world: &World, faults: &Faults, sessions: usize, delay: Duration) -> Vec<Resuming> {
    let mut opened = Vec::new();
    for _ in 0..sessions {
        let mut client = world.client(0).await;
        let open = pb::OpenSession::default();
        let session = client.open_with(open).await.unwrap();
        opened.push((client, session));
    }
    faults.set_answer_delay(delay);
    let resuming = opened.into_iter().map(|(mut client, session)| {
        spawn_detached("resume", async move {
            client.resume(&session.opened, Vec::new()).await
        })
    });
    let resuming = resuming.collect();
    eventually("all turns are taken", || async {
        faults.calls("session_ended") >= TURNS
    })
    .await;
    resuming
}

#[tokio::test(start_paused = true)]
async fn they_take_turns_and_those_that_have_gone_give_theirs_up() {
    let (faults, world) = World::faulty();
    let mut resuming = resume(&world, &faults, TURNS + 40, secs(1)).await;
    tokio::time::sleep(millis(500)).await;
    assert_eq!(faults.calls("session_ended"), TURNS);
    for gone in resuming.drain(TURNS + 10..) {
        gone.abort();
    }
    for resumed in resuming {
        resumed.await.unwrap().unwrap();
    }
    assert_eq!(faults.calls("session_ended"), TURNS + 10);
}

#[tokio::test(start_paused = true)]
async fn one_whose_turn_does_not_come_within_half_of_its_lease_is_told() {
    let (faults, world) = World::faulty();
    let mut resuming = resume(&world, &faults, TURNS + 1, secs(16)).await;
    let last = resuming.pop().unwrap();
    let refused = last.await.unwrap().err().unwrap();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert!(refused.message().contains("resumed at once"), "{refused}");
    for resumed in resuming {
        resumed.await.unwrap().unwrap();
    }
}
