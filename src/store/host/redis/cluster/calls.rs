//! One evaluation in a cluster: on the master of its slot, wherever that is by then.
//!
//! Nothing is sent twice that may have run. What a node refuses because of where the slot is, or
//! because the cluster is about to change, has not run; that is tried again inside the call's time
//! limit.

use std::{sync::Arc, time::Duration};

use futures::future::select_ok;
use tokio::time::{Instant, sleep_until};

use super::{
    super::{
        address::Address,
        eval::{evaluate as evaluate_on, evaluate_asking},
    },
    router::{Node, Router},
    slot::slot,
};
use crate::host::{Call, HostError, Value};

/// Pauses between tries double from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

/// Redirections that are followed at once. More mean that nodes disagree, which takes them a
/// moment.
const REDIRECTIONS_MAX: usize = 3;

/// Refusals that waiting for a little does not change: they are not about the cluster.
const ABOUT_THE_SERVER: [&str; 4] = ["NOREPLICAS", "MISCONF", "BUSY", "MAXCLIENTS"];

/// Where to send a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    /// The slot's master, by what is known.
    Master,
    /// The node that another one has named as the master.
    Named(Address),
    /// The node that a slot is being moved to.
    Next(Address),
}

/// What to do after an error.
#[derive(Debug, PartialEq, Eq)]
enum After {
    GiveUp,
    Wait,
    Redirected(Route),
}

/// Where a script ran.
pub(super) struct Ran {
    pub(super) node: Arc<Node>,
    /// Which process that was, if that is known.
    pub(super) run_id: Option<Arc<str>>,
}

/// Runs a script. Also returns where it ran, if it has keys.
pub(super) async fn evaluate(
    router: &Router,
    call: &Call,
    deadline: Instant,
) -> Result<(Value, Option<Ran>), HostError> {
    let Some(key) = call.keys.first() else {
        let value = Box::pin(evaluate_anywhere(router, call, deadline)).await?;
        return Ok((value, None));
    };
    let slot = slot(key);
    match attempt(router, call, slot, &Route::Master, deadline).await {
        Ok((value, ran)) => Ok((value, Some(ran))),
        // Boxed, as it is rare: every evaluation would carry its state otherwise.
        Err(failed) => Box::pin(go_on(router, call, slot, deadline, failed)).await,
    }
}

/// An error, and the node that it came from.
struct Failed {
    error: HostError,
    asked: Option<Address>,
}

async fn attempt(
    router: &Router,
    call: &Call,
    slot: u16,
    to: &Route,
    deadline: Instant,
) -> Result<(Value, Ran), Failed> {
    let node = match to {
        Route::Master => router.master(slot, deadline).await,
        Route::Named(address) | Route::Next(address) => router.node(address),
    };
    let node = node.map_err(|error| Failed { error, asked: None })?;
    let asked = async {
        let link = node.links.of(call);
        let live = if *to == Route::Master {
            tokio::select! {
                biased;
                live = link.live(deadline) => live?,
                () = router.other_master(slot, &node.address) => {
                    return Err(HostError::Unavailable("another master has taken over".into()));
                }
            }
        } else {
            link.live(deadline).await?
        };
        let value = match to {
            Route::Next(_) => evaluate_asking(&live, call, deadline).await?,
            Route::Master | Route::Named(_) => evaluate_on(&live, call, deadline).await?,
        };
        Ok((value, live.run_id()))
    };
    match asked.await {
        Ok((value, run_id)) => Ok((value, Ran { node, run_id })),
        Err(error) => Err(Failed {
            error,
            asked: Some(node.address.clone()),
        }),
    }
}

async fn go_on(
    router: &Router,
    call: &Call,
    slot: u16,
    deadline: Instant,
    mut failed: Failed,
) -> Result<(Value, Option<Ran>), HostError> {
    let mut redirections = 0;
    let mut pause = PAUSE.0;
    loop {
        let to = match failed.after() {
            After::GiveUp => {
                if let HostError::OutcomeUnknown(_) = failed.error {
                    router.refresh_soon();
                }
                return Err(failed.error);
            }
            After::Redirected(to) if redirections < REDIRECTIONS_MAX => {
                redirections += 1;
                if let Route::Named(_) = to {
                    router.refresh_soon();
                }
                to
            }
            After::Redirected(_) | After::Wait => {
                router.refresh_soon();
                redirections = 0;
                let until = Instant::now() + pause;
                if until >= deadline {
                    return Err(given_up(failed.error, slot));
                }
                tokio::select! {
                    () = sleep_until(until) => {}
                    () = router.changed() => {}
                }
                pause = (pause * 2).min(PAUSE.1);
                Route::Master
            }
        };
        match attempt(router, call, slot, &to, deadline).await {
            Ok((value, ran)) => return Ok((value, Some(ran))),
            Err(error) => failed = error,
        }
    }
}

/// A call without keys asks for nothing that a node would have: the first answer of any master
/// counts.
async fn evaluate_anywhere(
    router: &Router,
    call: &Call,
    deadline: Instant,
) -> Result<Value, HostError> {
    let topology = router.topology(deadline).await?;
    let nodes = topology.masters().into_iter().map(|it| router.node(it));
    let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
    if nodes.is_empty() {
        return Err(HostError::Unavailable(
            "the cluster has no master that serves slots".into(),
        ));
    }
    let on = |node: Arc<Node>| {
        Box::pin(async move {
            let live = node.links.of(call).live(deadline).await?;
            evaluate_on(&live, call, deadline).await
        })
    };
    let (value, _rest) = select_ok(nodes.into_iter().map(on)).await?;
    Ok(value)
}

/// The error of a call whose time is over, though it has not run.
fn given_up(error: HostError, slot: u16) -> HostError {
    match error {
        HostError::Unavailable(why) if why.starts_with("slot ") => HostError::Unavailable(why),
        HostError::Unavailable(why) => HostError::Unavailable(format!("slot {slot}: {why}")),
        _ => HostError::Unavailable(format!("slot {slot} is being moved")),
    }
}

// === impl Failed ===

impl Failed {
    fn after(&self) -> After {
        match &self.error {
            HostError::Unavailable(why) => {
                let code = why.split(' ').next().unwrap_or_default();
                if ABOUT_THE_SERVER.contains(&code) {
                    After::GiveUp
                } else {
                    After::Wait
                }
            }
            HostError::Rejected { code, message } if code == "MOVED" || code == "ASK" => {
                let named = message.split(' ').nth(1).zip(self.asked.as_ref());
                let address = named.and_then(|(named, asked)| Address::redirected(named, asked));
                match address {
                    Some(address) if code == "ASK" => After::Redirected(Route::Next(address)),
                    Some(address) => After::Redirected(Route::Named(address)),
                    None => After::Wait,
                }
            }
            HostError::Rejected { .. } | HostError::OutcomeUnknown(_) | HostError::OutOfMemory => {
                After::GiveUp
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::parse_redis_value;
    use futures::FutureExt as _;
    use parking_lot::Mutex;

    use super::{
        super::{
            super::{fake, url::ClusterUrl},
            router::View,
            topology::Topology,
        },
        *,
    };
    use crate::host::{Script, WakeSender, redis::RedisConfig, words};

    fn after(error: HostError) -> After {
        let asked = Address::parse("asked:1");
        Failed { error, asked }.after()
    }

    fn rejected(code: &str, message: &str) -> HostError {
        HostError::Rejected {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn only_what_has_not_run_is_tried_again() {
        let there = Address::parse("10.0.0.1:7000").unwrap();
        let unavailable = |why: &str| HostError::Unavailable(why.to_owned());
        for (error, expected) in [
            (
                rejected("MOVED", "7 10.0.0.1:7000"),
                After::Redirected(Route::Named(there.clone())),
            ),
            (
                rejected("ASK", "7 10.0.0.1:7000"),
                After::Redirected(Route::Next(there)),
            ),
            (rejected("MOVED", "nonsense"), After::Wait),
            (rejected("WRONGTYPE", "x"), After::GiveUp),
            (unavailable("TRYAGAIN Multiple keys"), After::Wait),
            (unavailable("CLUSTERDOWN Hash slot not served"), After::Wait),
            (unavailable("READONLY"), After::Wait),
            (unavailable("LOADING"), After::Wait),
            (unavailable("Connection refused"), After::Wait),
            (unavailable("NOREPLICAS Not enough"), After::GiveUp),
            (HostError::OutcomeUnknown("x".into()), After::GiveUp),
            (HostError::OutOfMemory, After::GiveUp),
        ] {
            assert_eq!(after(error.clone()), expected, "{error}");
        }
    }

    #[test]
    fn what_is_given_up_names_the_slot() {
        for (error, expected) in [
            (
                HostError::Unavailable("CLUSTERDOWN Hash slot not served".into()),
                "CLUSTERDOWN Hash slot not served",
            ),
            (
                HostError::Unavailable("not connected".into()),
                "slot 7: not connected",
            ),
            (rejected("MOVED", "7 a:1"), "slot 7 is being moved"),
        ] {
            let HostError::Unavailable(why) = given_up(error, 7) else {
                panic!("it has not run");
            };
            assert!(why.contains(expected), "{why}");
        }
    }

    fn served_at(port: u16) -> View {
        let text = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        let slots = parse_redis_value(text.as_bytes()).unwrap();
        let topology = Topology::parse(&slots, &Address::parse("asked:1").unwrap());
        View::Known(Arc::new(topology.unwrap()))
    }

    fn router_to(port: u16) -> Router {
        let config = RedisConfig {
            url: "redis+cluster://127.0.0.1:1".to_owned(),
            connect_timeout: Duration::from_secs(60),
            ..RedisConfig::default()
        };
        let url = ClusterUrl::parse(&config.url).unwrap();
        let router = Router::new(config, url, WakeSender::channel().0);
        router.show(served_at(port));
        router
    }

    fn call() -> (Call, Instant) {
        static NOTHING: Script = Script::new("nothing", "return 0");
        let call = Call {
            script: &NOTHING,
            keys: words!["a"],
            args: words![],
        };
        (call, Instant::now() + Duration::from_secs(10))
    }

    #[tokio::test]
    async fn nodes_are_asked_at_once_after_an_answer_that_shows_a_change() {
        let master = |first: String| {
            let first = Mutex::new(Some(first));
            fake::start(move |words| match words {
                ["EVALSHA", _, "1", "a"] => {
                    first.lock().take().unwrap_or_else(|| ":1\r\n".to_owned())
                }
                _ => fake::OK.to_owned(),
            })
        };
        let other = master(":1\r\n".to_owned());
        for (first, runs) in [
            (format!("-MOVED 0 127.0.0.1:{other}\r\n"), true),
            ("-CLUSTERDOWN The cluster is down\r\n".to_owned(), true),
            ("what is no answer\r\n".to_owned(), false),
        ] {
            let router = router_to(master(first.clone()));
            let (call, deadline) = call();
            let outcome = evaluate(&router, &call, deadline).await;
            assert_eq!(outcome.is_ok(), runs, "{first}");
            assert!(router.stale().now_or_never().is_some(), "{first}");
        }
    }

    #[tokio::test]
    async fn a_call_does_not_wait_for_a_master_that_was_replaced() {
        let silent = fake::start(|_| String::new());
        let router = router_to(silent);
        let (call, deadline) = call();
        let asked = attempt(&router, &call, 0, &Route::Master, deadline);
        let (failed, ()) = tokio::join!(asked, async { router.show(served_at(1)) });
        let error = failed.err().unwrap().error.to_string();
        assert!(error.contains("another master has taken over"), "{error}");
    }
}
