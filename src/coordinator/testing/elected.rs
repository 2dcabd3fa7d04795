//! Elections whose store does not answer, or where nobody waits.

use std::{iter, sync::Arc};

use lockkeeper_access::{Account, Identity};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::script::{CallError, Mode};
use tokio::time::sleep;

use super::{
    Caller, Fault, SECOND, acquire, config, granted, holders, in_session, name, one_hold, open,
    settle, start_faulty,
};
use crate::{
    admin::Reason,
    election::{
        lead,
        request::{Campaign, ElectionValue, Transfer},
    },
    error::{Error, Limit},
    lock,
    lock::{describe::inspect, outcome::NotGranted},
    stream::Opened,
    yields::{RequestYield, YieldRequested},
};

fn campaign(opened: &Opened) -> Campaign {
    Campaign {
        acquire: acquire("e", Mode::Fair, &in_session(opened, "")),
        wait: None,
        value: ElectionValue::parse("v").unwrap(),
    }
}

/// To the first in line.
fn transfer() -> Transfer {
    Transfer {
        to: String::new(),
        ask: RequestYield {
            name: name("e"),
            by: String::new(),
            reason: Reason::parse("why").unwrap(),
            within: SECOND,
            preempt: Some(SECOND * 60),
            for_owner: None,
            account: Account::default(),
        },
    }
}

/// Whether the answer says that nothing has changed.
fn is_unavailable(answer: &Result<YieldRequested, Error>) -> bool {
    matches!(answer, Err(Error::Store(CallError::Unavailable(_))))
}

#[tokio::test(start_paused = true)]
async fn a_leadership_is_not_taken_away_for_nobody() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let core = &coordinator.core;
    let free = lead::transfer(core, &transfer()).await.unwrap();
    assert_eq!(free.holder_count, 0);
    let (leader, candidate) = (open(&coordinator), open(&coordinator));
    let leading = acquire("e", Mode::Fair, &in_session(&leader, ""));
    granted(&coordinator, &leading).await.take().unwrap();
    let refused = lead::transfer(core, &transfer()).await;
    assert_eq!(refused.err(), Some(Error::CandidateNotWaiting));
    sleep(SECOND * 5).await;
    assert_eq!(holders(core, "e").await, [("0".to_owned(), 1)]);
    let (shared, waits) = (Arc::clone(core), campaign(&candidate));
    let waits = spawn_detached("waits", async move {
        let elected = lead::campaign(&shared, &waits, &mut Caller::default()).await;
        elected.map(|it| it.map(|it| it.delivery.take().unwrap()).is_ok())
    });
    settle().await;
    let asked = lead::transfer(core, &transfer()).await.unwrap();
    assert_eq!(asked.holder_count, 1);
    sleep(SECOND * 90).await;
    assert_eq!(waits.await.unwrap(), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_refused_transfer_leaves_the_candidates_in_their_order() {
    let (faults, coordinator, store) = start_faulty(config());
    let core = &coordinator.core;
    let sessions = [(); 3].map(|()| open(&coordinator));
    let leading = acquire("e", Mode::Fair, &in_session(&sessions[0], ""));
    granted(&coordinator, &leading).await.take().unwrap();
    for candidate in &sessions[1..] {
        let (core, waits) = (Arc::clone(core), campaign(candidate));
        spawn_detached("waits", async move {
            drop(lead::campaign(&core, &waits, &mut Caller::default()).await);
        });
        settle().await;
    }
    let queue = async || inspect(core, &name("e"), 10).await.unwrap().queue;
    let before = queue().await;
    let to_last = Transfer {
        to: in_session(&sessions[2], "").digest(),
        ..transfer()
    };
    let others = iter::repeat_with(|| core.yields.place(&Identity::anonymous()));
    let others: Vec<_> = others.map_while(|place| place).collect();
    let refused = lead::transfer(core, &to_last).await;
    assert_eq!(refused.err(), Some(Error::LimitReached(Limit::Yields)));
    assert_eq!(queue().await, before);
    drop(others);
    faults.next("lock_inspect", Fault::Unavailable);
    let refused = lead::transfer(core, &to_last).await;
    assert!(is_unavailable(&refused));
    assert_eq!(queue().await, before);
    // The leader is at another coordinator.
    let elsewhere = faults.start(config(), &store);
    faults.next("holders_tell", Fault::Unavailable);
    let unknown = lead::transfer(&elsewhere.core, &to_last).await;
    assert!(!is_unavailable(&unknown), "{unknown:?}");
    assert_ne!(queue().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_keeps_its_place_if_its_value_is_not_taken_at_once() {
    for (faults_in_a_row, is_elected) in [(1, true), (3, true), (400, false)] {
        let (faults, coordinator, _store) = start_faulty(config());
        let (leader, candidate) = (open(&coordinator), open(&coordinator));
        let leading = acquire("e", Mode::Fair, &in_session(&leader, ""));
        granted(&coordinator, &leading).await.take().unwrap();
        let (core, request) = (Arc::clone(&coordinator.core), campaign(&candidate));
        let waits = spawn_detached("waits", async move {
            let elected = lead::campaign(&core, &request, &mut Caller::default()).await?;
            elected.map_err(|NotGranted { .. }| Error::Draining)
        });
        settle().await;
        for _ in 0..faults_in_a_row {
            faults.next("election_proclaim", Fault::Unavailable);
        }
        let back = one_hold("e", Mode::Fair, &leading.owner);
        let released = lock::release::release(&coordinator.core, &back).await;
        assert_eq!(released, Ok(0));
        let elected = waits.await.unwrap();
        assert_eq!(elected.is_ok(), is_elected, "{:?}", elected.err());
    }
}
