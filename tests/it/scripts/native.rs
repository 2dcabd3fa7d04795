//! The plain case without scripts, and the same with them: what the lock looks like, and what comes
//! of everything else that may have happened to it.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::future::BoxFuture;
use lockkeeper_store::{
    host::{
        Call, Commands, Numbers, Replicas, ScriptHost,
        embedded::{Clock, EmbeddedStore},
    },
    script::{
        Acquired, Attempt, CallError, Config, Hold, Mode, Refusal, Released, ReplicationStatus,
        Scripts,
    },
};

use super::{lock_story::check, story::config};
use crate::support::hosts::TWINS;
use crate::support::prelude::*;

fn with_commands(host: Arc<dyn ScriptHost>) -> Scripts {
    let config = Config {
        native_commands: true,
        ..config()
    };
    Scripts::new(host, config)
}

/// The same with scripts and without: both take a lock whose counter they have seen.
#[tokio::test]
async fn a_grant_that_its_field_names() {
    check(ROWS).await;
    let native = ROWS.trim_start().lines().map(|line| {
        if line.starts_with(' ') {
            line.to_owned()
        } else {
            format!("{line}\n    native")
        }
    });
    check(&native.collect::<Vec<_>>().join("\n")).await;
}

/// A lock that was taken is given back if there is no token for it.
#[tokio::test]
async fn a_counter_that_is_no_number_leaves_the_lock_free() {
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = with_commands(client);
        for (grant, counter) in [(1, None), (2, Some("x")), (3, None)] {
            if let Some(counter) = counter {
                store.command(&["SET", COUNTER, counter]).await;
            }
            let field = keys::grant_field(OWNER, grant).unwrap();
            let hold = Hold::new("lock", Mode::Exclusive, &field).of_grant();
            let acquired = scripts.acquire(hold, secs(100), &ATTEMPT, Refusal::Forgotten);
            match (counter, acquired.await) {
                (None, Ok(Acquired::Granted { hold_count: 1, .. })) => {
                    let released = scripts.release_last(hold, None, secs(100)).await;
                    assert!(
                        matches!(released, Ok(Released::Done { held: 0, .. })),
                        "{host:?}"
                    );
                }
                (Some(_), Err(CallError::WrongKind)) => {
                    assert_eq!(store.command(&["EXISTS", "lock"]).await, Value::Int(0));
                    store.command(&["DEL", COUNTER]).await;
                }
                (_, other) => panic!("{host:?}: {other:?}"),
            }
        }
    }
}

/// Commands without a script are not what replicas are waited for.
#[tokio::test]
async fn where_replicas_must_know_of_it_no_commands_run_without_a_script() {
    let replicas = Replicas {
        at_least: 1,
        all: false,
    };
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes) = store.connect();
        let scripts = with_commands(client);
        // The counter is seen by the first, so the other one needs no script.
        for is_replicated in [false, true] {
            let field = keys::grant_field(OWNER, u64::from(is_replicated)).unwrap();
            let hold = Hold::new("lock", Mode::Exclusive, &field).of_grant();
            let replicas = is_replicated.then_some(replicas);
            let (scripts, acks) = scripts.replicated(replicas);
            let acquired = scripts.acquire(hold, secs(100), &ATTEMPT, Refusal::Forgotten);
            acquired.await.unwrap();
            let has_none = |acks: &ReplicationStatus| acks.acknowledged().is_err();
            assert_eq!(has_none(&acks), is_replicated, "{host:?}: acquire");
            let (scripts, acks) = scripts.replicated(replicas);
            let released = scripts.release_last(hold, None, secs(100)).await;
            assert!(matches!(released, Ok(Released::Done { held: 0, .. })));
            assert_eq!(has_none(&acks), is_replicated, "{host:?}: release");
        }
    }
}

/// A store that loses keys after a lock was created, and is away when a script would take it.
#[derive(Debug)]
struct Forgetful {
    store: EmbeddedStore,
    host: Arc<dyn ScriptHost>,
    what: &'static [&'static str],
    forgets: AtomicBool,
}

#[async_trait]
impl ScriptHost for Forgetful {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        if self.forgets.load(Ordering::Relaxed) && call.script.name == "lock_acquire" {
            return Err(HostError::Unavailable("by the test".to_owned()));
        }
        self.host.eval(call).await
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        commands: &'a Commands<'a>,
        begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        Box::pin(async move {
            let creates = matches!(commands, Commands::Create { .. });
            let answer = self.host.run(commands, begun).await;
            if creates && self.forgets.load(Ordering::Relaxed) {
                for key in self.what {
                    self.store.command(&["DEL".as_bytes(), key.as_bytes()])?;
                }
            }
            answer
        })
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.host.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.host.unsubscribe(channel);
    }
}

/// There is no grant. The step of a counter that is gone makes one, which ends as every idle
/// counter does.
#[tokio::test]
async fn a_lock_that_is_lost_before_its_token_is_made_is_not_granted() {
    for what in [&["lock", COUNTER][..], &["lock"]] {
        let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
        let host = Arc::new(Forgetful {
            host: store.connect().0,
            store: store.clone(),
            what,
            forgets: AtomicBool::new(false),
        });
        let scripts = with_commands(Arc::clone(&host) as _);
        let take = async |grant| {
            let field = keys::grant_field(OWNER, grant).unwrap();
            let hold = Hold::new("lock", Mode::Exclusive, &field).of_grant();
            let acquired = scripts.acquire(hold, secs(100), &ATTEMPT, Refusal::Forgotten);
            let acquired = acquired.await?;
            scripts.release_last(hold, None, secs(100)).await?;
            Ok::<_, CallError>(acquired)
        };
        take(1).await.unwrap();
        host.forgets.store(true, Ordering::Relaxed);
        let refused = take(2).await;
        assert!(
            matches!(refused, Err(CallError::Unavailable(_))),
            "{what:?}: {refused:?}"
        );
        let left = store
            .command(&[b"PTTL".as_ref(), COUNTER.as_bytes()])
            .unwrap();
        assert!(
            matches!(left, Value::Int(left) if left > 0 || left == -2),
            "{what:?}: {left:?}"
        );
    }
}

const OWNER: &str = "6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1:0";
const COUNTER: &str = "redisson_lock_token:{lock}";
const ATTEMPT: Attempt<'static> = Attempt {
    known_holds: Some(0),
    ..Attempt::new("a", 1)
};

/// Without scripts a release is also heard if there was nothing to release: `heard` alone.
const ROWS: &str = "
one hash as Redisson has it, whose field names the grant; a larger token each time
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    state => lock{s#1:0=1}/100s counter=T1/100000s
    release_last s#1:0 100s => done 0, now 0 100s
    heard => 0
    acquire s#2:0 200s known=0 => granted 1 T2 200s
    state => lock{s#2:0=1}/200s counter=T2/100000s
    inspect => s#2:0=1 T2 200s
a lock of another owner, and one of the owner that another coordinator has taken
    acquire s:0 100s known=0
    release s:0 100s
    heard => 0
    acquire z 300s
    acquire s#1:0 100s known=0 => busy 300s
    state => lock{z=1}/300s counter=T2/100000s
    DEL lock
    acquire s#2:0 100s known=0 => granted 1 T3 100s
    acquire s#3:0 100s known=0 => busy 100s
    acquire s:0 100s known=0 => busy 100s
a release that comes late leaves a newer grant of the owner alone
    acquire s#1:0 100s known=0
    DEL lock
    acquire s#2:0 100s known=0 => granted 1 T2 100s
    release_last s#1:0 100s => HeldByAnother
    heard
    state => lock{s#2:0=1}/100s counter=T2/100000s
a release of nothing says why
    acquire s#1:0 100s known=0
    DEL lock
    release_last s#1:0 100s => Expired
    DEL counter
    release_last s#1:0 100s => NeverHeld
    heard
holds are added to the field that there is, whether the caller knows it or not
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    acquire s#1:0 300s known=1 => granted 2 T1 300s
    acquire s:0 100s known=2 => granted 3 T1 300s
    acquire s:0 100s known=3 mode=fair => granted 4 T1 300s
    state => lock{s#1:0=4}/300s counter=T1/100000s
    release s:0 100s => done 3, now 3 300s
    release s#1:0 100s => done 2, now 2 300s
    release s:0 100s mode=fair => done 1, now 1 300s
    heard => nothing
    release_last s#1:0 100s => done 0, now 0 100s
    heard => 0
a session that was resumed elsewhere renews and releases it by its owner
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    renew s:0@lock:400s => 1 T1 400s
    renew s#1:0@lock:500s => 1 T1 500s
    renew s#2:0@lock:500s s:1@lock:500s => HeldByAnother, HeldByAnother
    release s:1 100s => HeldByAnother
    release s:0 100s => done 0, now 0 100s
    heard => 0
a request id is the owner's, whatever the field
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    acquire s#1:0 100s known=1 request=r1 => granted 2 T1 100s
    acquire s:0 100s known=2 request=r1 => repeated 2 T1 100s
    release s#1:0 100s request=r2 => done 1, now 1 100s
    release s:0 100s request=r2 => done 1, now 1 100s
a request with an id is answered again
    acquire s#1:0 100s known=0
    release_last s#1:0 100s
    heard => 0
    acquire s#2:0 100s known=0 request=r1 => granted 1 T2 100s
    acquire s#2:0 100s known=0 request=r1 => repeated 1 T2 100s
an attempt is undone by its field, and other grants of the owner stay
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    undo s:0 known=0 => false
    undo s#2:0 known=0 => false
    undo s#1:0 known=0 => true
    heard => 0
    state => counter=T1/100000s
it is handed on to a field that names the next grant
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    hand_on s#1:0 s#2:1 200s => T2
    state => lock{s#2:1=1}/200s counter=T2/100000s
    release_last s#2:1 100s => done 0, now 0 100s
    heard => 0
it is released by force
    acquire s#1:0 100s known=0 => granted 1 T1 100s
    force why => s#1:0=1 T1 none
    heard => 0
a counter that is lost, set back or raised: the next token is the store's time
    acquire s#1:0 100s known=0
    release_last s#1:0 100s
    heard => 0
    DEL counter
    acquire s#2:0 100s known=0 => granted 1 T2 100s
    state => lock{s#2:0=1}/100s counter=T2/100000s
    release_last s#2:0 100s
    heard => 0
    SET counter 5 PX 100000
    acquire s#3:0 100s known=0 => granted 1 T3 100s
    state => lock{s#3:0=1}/100s counter=T3/100000s
    release_last s#3:0 100s
    heard => 0
    SET counter 4000000000000000 PX 100000000
    acquire s#4:0 100s known=0 => granted 1 t1 100s
    state => lock{s#4:0=1}/100s counter=t1/100000s
a counter that is out of range, and a key of another type: nothing changes
    acquire s#1:0 100s known=0
    release_last s#1:0 100s
    heard => 0
    SET counter 9007199254740991
    acquire s#3:0 100s known=0 => error CounterOutOfRange
    SET lock x
    acquire s#4:0 100s known=0 => error CounterOutOfRange
    DEL counter
    acquire s#5:0 100s known=0 => error WrongKind
    release_last s#5:0 100s => error WrongKind
    heard
";
