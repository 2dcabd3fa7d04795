//! Waits until the replicas of one server have what was written on it.
//!
//! `WAIT` counts for what its own connection has done, and holds that connection up until it is
//! over; so it is sent on connections of a pool, after a small write. Replication is one ordered
//! stream, so replicas that have that write have everything that was written on the server before
//! it, over whichever connection. (Seen on Redis 7.0 with the replica stopped: `WAIT 1` after the
//! write of another connection is 0, and 1 as soon as the replica goes on.) One such write and one
//! `WAIT` serve all callers that wait at that moment for the same number of replicas.
//!
//! The same connection shows the id of the process that it leads to. Where that is not the one on
//! which the script ran, because another server took over in between, nothing is acknowledged: the
//! script's writes may not be in that server's stream.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use deadpool_redis::{
    Pool,
    redis::{self, RedisError, Value, aio::ConnectionLike as _},
};
use futures::{FutureExt as _, future::BoxFuture, stream::FuturesUnordered};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tokio_stream::StreamExt as _;
use tokio_util::task::AbortOnDropHandle;

use super::{reply::info_field, target::Target};
use crate::host::{Acks, Replicas};

/// Connections on which replicas are waited for: so many different numbers of replicas can be
/// waited for at once.
const CONNECTIONS: usize = 4;

/// How long the key stays that is written for the replicas to acknowledge. Renewing its time to
/// live is a write that a full Redis allows.
const MARKER_LIVES: Duration = Duration::from_secs(60);

/// What is sent to have replicas counted.
const COMMANDS: usize = 4;

/// An answer may come so much later than the time for which replicas are waited for.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// The acknowledgements of the replicas of one server, or of those that follow it.
#[derive(Debug)]
pub(super) struct Acknowledger {
    asks: mpsc::UnboundedSender<Ask>,
    /// How long replicas are waited for.
    timeout: Duration,
    _task: AbortOnDropHandle<()>,
}

/// A caller that waits.
struct Ask {
    replicas: Replicas,
    marker: Arc<str>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Heard, Arc<str>>>,
}

/// What a server said of its replicas.
#[derive(Clone, Debug)]
struct Heard {
    acknowledged: u32,
    required: u32,
    /// Which process it was.
    run_id: Arc<str>,
}

/// Waiting calls, by what they wait for.
struct Desk {
    target: Target,
    timeout: Duration,
    waiting: HashMap<Replicas, Vec<Ask>>,
    /// What is being waited for.
    busy: HashSet<Replicas>,
    /// Connections to the server at this address.
    pool: Option<(String, Pool)>,
}

// === impl Acknowledger ===

impl Acknowledger {
    /// Nothing is sent before the first call.
    pub(super) fn new(target: Target, timeout: Duration) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let desk = Desk {
            target,
            timeout,
            waiting: HashMap::new(),
            busy: HashSet::new(),
            pool: None,
        };
        let task = spawn_detached("redis-acknowledger", desk.run(asked));
        Self {
            asks,
            timeout,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Waits until these replicas have what the process with this id has written so far. `marker`
    /// is a key for that server to write.
    pub(super) async fn wait(
        &self,
        run_id: Option<&str>,
        replicas: Replicas,
        marker: &Arc<str>,
    ) -> Acks {
        let Some(run_id) = run_id else {
            let why = "the store's user may not run INFO, without which replicas cannot be counted";
            return Acks::none(replicas, why);
        };
        let deadline = Instant::now() + self.timeout;
        let (answer, heard) = oneshot::channel();
        let ask = Ask {
            replicas,
            marker: Arc::clone(marker),
            deadline,
            answer,
        };
        if self.asks.send(ask).is_err() {
            return Acks::none(replicas, "the store is being closed");
        }
        match timeout_at(deadline + ANSWER_MARGIN, heard).await {
            Ok(Ok(Ok(heard))) if heard.run_id.as_ref() == run_id => Acks {
                acknowledged: heard.acknowledged,
                required: heard.required,
                problem: None,
            },
            Ok(Ok(Ok(_))) => Acks::none(replicas, "another server has taken over"),
            Ok(Ok(Err(problem))) => Acks::none(replicas, problem),
            Ok(Err(_)) | Err(_) => Acks::none(replicas, "the server did not say in time"),
        }
    }
}

// === impl Desk ===

impl Desk {
    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Ask>) {
        let mut rounds: FuturesUnordered<BoxFuture<'static, Replicas>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(over) = rounds.next(), if !rounds.is_empty() => {
                    self.busy.remove(&over);
                }
                ask = asked.recv() => match ask {
                    Some(ask) => self.waiting.entry(ask.replicas).or_default().push(ask),
                    None => return,
                },
            }
            // Calls that came meanwhile go along.
            while let Ok(ask) = asked.try_recv() {
                self.waiting.entry(ask.replicas).or_default().push(ask);
            }
            while let Some(round) = self.next_round() {
                rounds.push(round);
            }
        }
    }

    /// Waits for the replicas on behalf of all that wait for the same number of them; none if that
    /// is under way, or no connection is free.
    fn next_round(&mut self) -> Option<BoxFuture<'static, Replicas>> {
        if self.busy.len() >= CONNECTIONS {
            return None;
        }
        let startable = self
            .waiting
            .iter()
            .filter(|(replicas, _)| !self.busy.contains(replicas));
        // The longest wait is first.
        let replicas = *startable.min_by_key(|(_, asks)| asks[0].deadline)?.0;
        let asks = self.waiting.remove(&replicas)?;
        self.busy.insert(replicas);
        let pool = self.pool();
        let round = async move {
            let until = asks.iter().map(|ask| ask.deadline).max();
            let left = until.map_or(Duration::ZERO, |until| {
                until.saturating_duration_since(Instant::now())
            });
            let heard = match pool {
                Ok(pool) => ask_server(&pool, replicas, &asks[0].marker, left).await,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = &heard {
                tracing::warn!(problem, "replicas cannot be counted");
            }
            for ask in asks {
                let _ = ask.answer.send(heard.clone().map_err(Arc::from));
            }
            replicas
        };
        Some(round.boxed())
    }

    /// Connections to the server that is to be asked now.
    fn pool(&mut self) -> Result<Pool, String> {
        let endpoint = self.target.endpoint()?;
        let address = endpoint.address();
        match &self.pool {
            Some((known, pool)) if *known == address => Ok(pool.clone()),
            _ => {
                let pool = endpoint
                    .pool(CONNECTIONS, self.timeout + ANSWER_MARGIN)
                    .map_err(|error| error.to_string())?;
                self.pool = Some((address, pool.clone()));
                Ok(pool)
            }
        }
    }
}

/// Has a server write something and wait until its replicas have it.
async fn ask_server(
    pool: &Pool,
    replicas: Replicas,
    marker: &str,
    timeout: Duration,
) -> Result<Heard, String> {
    let mut connection = pool.get().await.map_err(|error| error.to_string())?;
    let failed = |error: RedisError| error.to_string();
    let connected = if replicas.all {
        let role: Value = redis::cmd("ROLE")
            .query_async(&mut connection)
            .await
            .map_err(failed)?;
        connected_replicas(&role)?
    } else {
        0
    };
    let required = replicas.required(connected);
    let lives = MARKER_LIVES.as_millis().to_string();
    // Zero would mean without limit.
    let limit = timeout.as_millis().max(1).to_string();
    let mut pipeline = redis::pipe();
    // One of the first two is a write.
    pipeline.cmd("PEXPIRE").arg(marker).arg(&lives);
    pipeline
        .cmd("SET")
        .arg(marker)
        .arg("1")
        .arg("NX")
        .arg("PX")
        .arg(&lives);
    pipeline.cmd("WAIT").arg(required).arg(limit);
    pipeline.cmd("INFO").arg("server");
    let answers = connection
        .req_packed_commands(&pipeline, 0, COMMANDS)
        .await
        .map_err(failed)?;
    heard(answers, required)
}

/// Reads the answers to `PEXPIRE`, `SET`, `WAIT` and `INFO`.
fn heard(answers: Vec<Value>, required: u32) -> Result<Heard, String> {
    let Ok([renewed, written, acknowledged, info]) = <[Value; COMMANDS]>::try_from(answers) else {
        return Err("the server's answer is of an unexpected kind".to_owned());
    };
    if renewed != Value::Int(1) {
        // That the key is there already is no error, and the renewal was a write.
        refused("SET", written)?;
    }
    let acknowledged = refused("WAIT", acknowledged)?;
    let info = refused("INFO", info)?;
    let run_id = redis::from_redis_value::<String>(info)
        .ok()
        .and_then(|info| info_field(&info, "run_id").map(Arc::from));
    match (redis::from_redis_value::<u32>(acknowledged), run_id) {
        (Ok(acknowledged), Some(run_id)) => Ok(Heard {
            acknowledged,
            required,
            run_id,
        }),
        _ => Err("the server's answer is of an unexpected kind".to_owned()),
    }
}

/// An answer, if it is none that refuses the command.
fn refused(command: &str, answer: Value) -> Result<Value, String> {
    match answer {
        Value::ServerError(error) => Err(format!("{command} was refused: {error}")),
        answer => Ok(answer),
    }
}

/// How many replicas `ROLE` says are connected.
fn connected_replicas(role: &Value) -> Result<u32, String> {
    let Value::Array(parts) = role else {
        return Err("the server does not say which role it has".to_owned());
    };
    match parts.as_slice() {
        [Value::BulkString(role), _offset, Value::Array(replicas)] if role == b"master" => {
            Ok(u32::try_from(replicas.len()).unwrap_or(u32::MAX))
        }
        _ => Err("the server is not a master".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_marker_that_was_not_written_proves_nothing() {
        let info = || text("# Server\r\nrun_id:abc\r\n");
        let oom = || {
            let error = redis::parse_redis_value(b"-OOM full\r\n").unwrap();
            assert!(matches!(error, Value::ServerError(_)));
            error
        };
        let answers = |renewed, written| vec![Value::Int(renewed), written, Value::Int(2), info()];
        let counted = heard(answers(0, Value::Okay), 1).unwrap();
        assert_eq!((counted.acknowledged, counted.run_id.as_ref()), (2, "abc"));
        assert_eq!(heard(answers(1, Value::Nil), 1).unwrap().acknowledged, 2);
        assert_eq!(heard(answers(1, oom()), 1).unwrap().acknowledged, 2);
        let refused = heard(answers(0, oom()), 1).unwrap_err();
        assert!(refused.starts_with("SET was refused"), "{refused}");
        assert!(heard(vec![Value::Int(1)], 1).is_err());
    }

    #[test]
    fn replicas_that_are_connected_are_counted() {
        let replica = Value::Array(vec![text("10.0.0.2"), text("6379"), text("7")]);
        let master = |replicas| Value::Array(vec![text("master"), Value::Int(7), replicas]);
        let two = master(Value::Array(vec![replica.clone(), replica]));
        assert_eq!(connected_replicas(&two), Ok(2));
        assert_eq!(connected_replicas(&master(Value::Array(vec![]))), Ok(0));
        assert!(connected_replicas(&Value::Array(vec![text("slave")])).is_err());
    }
}
