//! Three coordinators in front of one Redis are restarted one after the other while resuming
//! clients work: nothing is lost, nobody is in together, and nothing fails that a client would take
//! for final.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use deadpool_redis::redis::Value;
use lockkeeper_client::{Client, Guard, Session};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::prelude::*;

const SESSIONS: usize = 200;
const GRANTS_OF_SESSION: usize = 5;
/// Names that everybody takes and gives back meanwhile.
const CONTESTED: usize = 40;

/// Debug builds on a busy machine take seconds to begin; a lease has time for that.
const LEASE: Duration = secs(20);

/// What happens on a contested name.
#[derive(Default)]
struct Contested {
    inside: AtomicUsize,
    last_token: AtomicU64,
}

/// What all clients share.
struct Stage {
    contested: Vec<Contested>,
    stop: AtomicBool,
    turns: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

// === impl Stage ===

impl Stage {
    fn wrong(&self, what: String) {
        self.wrong.lock().push(what);
    }

    /// Takes and gives back contested locks until told to stop; nothing may fail.
    async fn work(&self, session: &Session, number: usize) {
        let mut turn = number;
        while !self.stop.load(Ordering::Relaxed) {
            turn += 7;
            let at = turn % CONTESTED;
            let acquired = session.lock(format!("contested-{at}")).acquire().await;
            let guard = match acquired {
                Ok(guard) => guard,
                Err(error) => return self.wrong(format!("acquire: {error}")),
            };
            self.hold(&guard, at).await;
            if let Err(error) = guard.release().await {
                return self.wrong(format!("release: {error}"));
            }
            self.turns.fetch_add(1, Ordering::Relaxed);
            sleep(millis(20)).await;
        }
    }

    async fn hold(&self, guard: &Guard, at: usize) {
        let contested = &self.contested[at];
        if contested.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            self.wrong(format!("contested-{at}: two are in"));
        }
        let token = guard.fencing_token();
        if contested.last_token.swap(token, Ordering::SeqCst) >= token {
            self.wrong(format!("contested-{at}: the token did not grow"));
        }
        sleep(millis(5)).await;
        contested.inside.fetch_sub(1, Ordering::SeqCst);
        if guard.lost().is_cancelled() {
            self.wrong(format!("contested-{at}: lost"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_no_grant_and_breaks_no_exclusion() {
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url())
        .with("session.secret", "a secret of all the coordinators here")
        .with("server.drain_grace", "5s");
    let mut coordinators = join_all((0..3).map(|_| Coordinator::start(&settings))).await;
    let stage = Arc::new(Stage {
        contested: (0..CONTESTED).map(|_| Contested::default()).collect(),
        stop: AtomicBool::new(false),
        turns: AtomicUsize::new(0),
        wrong: Mutex::default(),
    });
    let clients: Vec<_> = (0..3).map(|first| client(&coordinators, first)).collect();
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let session = clients[number % 3].session().lease(LEASE).open();
        sessions.push(session.await.unwrap());
    }
    let guards = sessions
        .iter()
        .enumerate()
        .map(|(number, session)| async move {
            let names = (0..GRANTS_OF_SESSION).map(|it| format!("kept-{number}-{it}"));
            join_all(names.map(|name| session.lock(name).acquire())).await
        });
    let guards: Vec<Guard> = join_all(guards)
        .await
        .into_iter()
        .flatten()
        .map(Result::unwrap)
        .collect();
    assert_eq!(guards.len(), SESSIONS * GRANTS_OF_SESSION);
    let working: Vec<_> = sessions
        .iter()
        .cloned()
        .enumerate()
        .map(|(number, session)| {
            let stage = Arc::clone(&stage);
            spawn_detached("working", async move { stage.work(&session, number).await })
        })
        .collect();

    for coordinator in &mut coordinators {
        until_turns(&stage, 200).await;
        let begun = Instant::now();
        coordinator.signal(Signal::SIGTERM);
        assert!(coordinator.exit().await.success());
        coordinator.restart_on_same_address().await;
        measured("one coordinator restarted", begun.elapsed());
    }
    // Longer than a lease: whatever was not resumed would be lost by now.
    let over = Instant::now() + LEASE + secs(2);
    while Instant::now() < over {
        until_turns(&stage, 50).await;
    }
    stage.stop.store(true, Ordering::Relaxed);
    join_all(working).await;
    assert_eq!(*stage.wrong.lock(), Vec::<String>::new());
    let lost = guards.iter().filter(|it| it.lost().is_cancelled()).count();
    assert_eq!(lost, 0, "grants were lost");
    let released = join_all(guards.into_iter().map(Guard::release)).await;
    let refused: Vec<_> = released.into_iter().filter_map(Result::err).collect();
    assert!(refused.is_empty(), "{refused:?}");
    join_all(sessions.into_iter().map(Session::close)).await;
    expect_all_free(&redis).await;
}

async fn expect_all_free(redis: &RedisServer) {
    let kept = (0..SESSIONS)
        .flat_map(|number| (0..GRANTS_OF_SESSION).map(move |it| format!("kept-{number}-{it}")));
    let names: Vec<_> = kept
        .chain((0..CONTESTED).map(|at| format!("contested-{at}")))
        .collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(names.iter().map(String::as_str));
    eventually("every lock is free", || async {
        redis.command(&exists).await == Value::Int(0)
    })
    .await;
}

fn client(coordinators: &[Coordinator], first: usize) -> Client {
    let addresses = (0..coordinators.len()).map(|it| coordinators[(first + it) % 3].url());
    let builder = addresses.fold(Client::builder(), |builder, url| {
        builder.endpoint(&url).unwrap()
    });
    builder.build().unwrap()
}

/// Work goes on: so many more contested locks were taken and given back.
async fn until_turns(stage: &Stage, more: usize) {
    let wanted = stage.turns.load(Ordering::Relaxed) + more;
    let give_up = Instant::now() + Duration::from_secs(30);
    while stage.turns.load(Ordering::Relaxed) < wanted {
        assert!(
            Instant::now() < give_up,
            "nothing goes on: {:?}",
            stage.wrong.lock()
        );
        sleep(millis(20)).await;
    }
}
