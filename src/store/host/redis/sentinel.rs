//! A master that sentinels watch over, and that another one may take over from.
//!
//! All sentinels are asked at an interval, after each new connection, and when one of them
//! announces an election; the one with the newest configuration is believed: one that was cut off
//! goes on naming the old master. Where several are as new, most of them are. Sentinels that were
//! set up anew count from the beginning, so another master without a newer configuration is
//! believed in time if most of them name it. Connections to a master that was replaced are given up
//! at once, also if it still answers.

use std::{sync::Arc, time::Duration};

use deadpool_redis::redis::{
    PushInfo, PushKind, RedisError, RedisResult, ServerError, Value,
    aio::{MultiplexedConnection, SendError},
    cmd, pipe,
};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    ConfigError, RedisConfig,
    address::Address,
    endpoint::Endpoint,
    reply, round, single,
    target::{Elected, Election, Target},
    url::SentinelUrl,
};
use crate::host::{Connected, Wake, WakeSender};

/// How often the sentinels are asked. They themselves need seconds to agree.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// For so long most sentinels must have named the same master with no newer configuration than is
/// known. After an election the others hear of it within about two seconds.
const OLDER_FOR: Duration = Duration::from_secs(10);

/// What sentinels publish when there is another master: who led the election at once, the others
/// when they hear of it.
const ELECTIONS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// What a sentinel says of a service that it does not know.
const UNKNOWN_SERVICE: &str = "No such master";

/// A master, as a sentinel names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    /// Grows with every election.
    epoch: u64,
    address: Address,
}

struct Watcher {
    url: SentinelUrl,
    config: RedisConfig,
    sentinels: Vec<round::Asked>,
    election: watch::Sender<Election>,
    /// Has them asked now.
    ask: Arc<Notify>,
    wakes: WakeSender,
    known: Option<Named>,
    older: Older,
}

/// The master that most sentinels name with no newer configuration than is known, and since when.
#[derive(Debug, Default)]
struct Older(Option<(Address, Instant)>);

/// A client of the master of a service.
pub(super) fn connect(config: &RedisConfig) -> Result<Connected, ConfigError> {
    let url = SentinelUrl::parse(&config.url)?;
    let endpoint = |url: String| {
        Endpoint::new(&RedisConfig {
            url,
            scripts: &[],
            ..config.clone()
        })
    };
    let sentinels = url.sentinels.iter();
    let sentinels = sentinels.map(|url| endpoint(url.clone()).map(round::Asked::new));
    let sentinels = sentinels.collect::<Result<Vec<_>, ConfigError>>()?;
    // Shows now, and not at the first election, if the rest of the URL cannot be used.
    let anywhere = Address {
        host: "localhost".to_owned(),
        port: 1,
    };
    endpoint(url.master_url(&anywhere))?;
    let (election, elected) = watch::channel(Election {
        master: None,
        trouble: None,
        asked_at: None,
    });
    let ask = Arc::new(Notify::new());
    let (wakes, incoming) = WakeSender::channel();
    let watcher = Watcher {
        url,
        config: config.clone(),
        sentinels,
        election,
        ask: Arc::clone(&ask),
        wakes: wakes.clone(),
        known: None,
        older: Older::default(),
    };
    let watcher = spawn_detached("redis-sentinels", watcher.run());
    let host = single::host(
        config,
        &Target::Elected(Elected {
            election: elected,
            ask,
        }),
        wakes,
        Some(AbortOnDropHandle::new(watcher)),
    )?;
    Ok((host, incoming))
}

// === impl Watcher ===

impl Watcher {
    async fn run(mut self) {
        loop {
            let begun = Instant::now();
            let service = self.url.service.as_str();
            let ask = &self.ask;
            let asked = self.sentinels.len();
            let asking = self.sentinels.iter_mut();
            let asking = asking.map(|sentinel| asked_of(sentinel, service, ask));
            // One that is silent must not delay what most of them say.
            let mut answers = round::answers(asking, begun + self.config.connect_timeout).await;
            answers.resize(asked, Err(reply::SILENT.to_owned()));
            self.tell(trouble(&answers, service));
            let answers: Vec<Named> = answers.into_iter().flatten().flatten().collect();
            let known = self.known.as_ref();
            let named = newest(&answers, known);
            if let Some(named) = named
                && self.older.believes(&named, known, &answers, asked)
            {
                self.follow(named);
            }
            self.election
                .send_modify(|election| election.asked_at = Some(begun));
            let _ = timeout_at(begun + ASK_INTERVAL, self.ask.notified()).await;
        }
    }

    /// Logs what is wrong with the sentinels, when that changes.
    fn tell(&self, trouble: Option<String>) {
        self.election.send_if_modified(|election| {
            let before = std::mem::replace(&mut election.trouble, trouble.map(Arc::from));
            match (before, &election.trouble) {
                (Some(before), Some(now)) if is_logged(&before, now) => {}
                (_, Some(trouble)) => {
                    tracing::warn!(%trouble, "not all sentinels can be queried");
                }
                (Some(_), None) => tracing::info!("all sentinels answer"),
                (None, None) => {}
            }
            // Who waits for another master is not concerned.
            false
        });
    }

    /// Goes over to this master if another one is known.
    fn follow(&mut self, named: Named) {
        if let Some(known) = &mut self.known
            && named.address == known.address
        {
            known.epoch = named.epoch;
            return;
        }
        let url = self.url.master_url(&named.address);
        let config = RedisConfig {
            url,
            ..self.config.clone()
        };
        let endpoint = match Endpoint::new(&config) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                tracing::warn!(%error, "the master that the sentinels name cannot be used");
                return;
            }
        };
        tracing::info!(master = ?endpoint, epoch = named.epoch, "master elected");
        self.election
            .send_modify(|election| election.master = Some(endpoint));
        if self.known.replace(named).is_some() {
            self.wakes.send(Wake::TakenOver);
        }
    }
}

// === impl Older ===

impl Older {
    /// Whether to believe the newest of these answers.
    fn believes(
        &mut self,
        newest: &Named,
        known: Option<&Named>,
        answers: &[Named],
        asked: usize,
    ) -> bool {
        // Each election has an epoch of its own: another master with the same one is named by
        // sentinels that know nothing of these.
        let is_older = known.is_some_and(|known| {
            (newest.epoch, newest.address == known.address) < (known.epoch, true)
        });
        let votes = answers.iter().filter(|it| it.address == newest.address);
        if !is_older || votes.count() * 2 <= asked {
            self.0 = None;
            return !is_older;
        }
        let now = Instant::now();
        let same = self.0.take_if(|(address, _)| *address == newest.address);
        let (_, since) = self.0.insert(same.unwrap_or((newest.address.clone(), now)));
        now - *since >= OLDER_FOR
    }
}

/// The master that a sentinel knows, none if it does not know the service; or why it does not say.
/// From then on it has itself asked when it announces an election.
async fn asked_of(
    sentinel: &mut round::Asked,
    service: &str,
    again: &Arc<Notify>,
) -> Result<Option<Named>, String> {
    let asked = async {
        let open = |endpoint| open(endpoint, Arc::clone(again));
        let mut connection = sentinel.connection(open).await?;
        let mut both = pipe();
        let words = |word: &str| cmd("SENTINEL").arg(word).arg(service).take();
        both.add_command(words("MASTER"));
        both.add_command(words("GET-MASTER-ADDR-BY-NAME"));
        connection.send_packed_commands(&both, 0, 2).await
    };
    let answers: Result<Vec<Value>, RedisError> = asked.await;
    match answers {
        Ok(answers) => {
            sentinel.answered();
            named(&answers)
        }
        Err(error) => {
            sentinel.give_up();
            Err(reply::asking_failure(&error))
        }
    }
}

async fn open(sentinel: Endpoint, again: Arc<Notify>) -> RedisResult<MultiplexedConnection> {
    let limit = sentinel.connect_timeout();
    let pushes = move |push: PushInfo| {
        if push.kind == PushKind::Message {
            again.notify_one();
        }
        Ok::<(), SendError>(())
    };
    let mut connection = sentinel.connect(pushes).await?;
    // One that does not allow it is asked at the interval.
    match timeout(limit, connection.subscribe(&ELECTIONS)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a sentinel does not tell of elections"),
        Err(_elapsed) => return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
    Ok(connection)
}

/// The one to believe: of the newest configuration, and where several are as new, whom most name,
/// or who is known already.
fn newest(answers: &[Named], known: Option<&Named>) -> Option<Named> {
    let newest = answers.iter().max_by_key(|named| {
        let votes = answers.iter().filter(|other| other == named).count();
        let is_known = known.is_some_and(|known| named.address == known.address);
        (named.epoch, votes, is_known, *named)
    });
    newest.cloned()
}

/// What is wrong with sentinels that answered so, if anything.
fn trouble(answers: &[Result<Option<Named>, String>], service: &str) -> Option<String> {
    let failures: Vec<&String> = answers.iter().filter_map(|it| it.as_ref().err()).collect();
    let ignorant = answers.iter().filter(|it| matches!(it, Ok(None))).count();
    let mut parts = Vec::new();
    if let Some(failure) = failures.first() {
        parts.push(format!("{} failed ({failure})", failures.len()));
    }
    if ignorant > 0 {
        parts.push(format!("{ignorant} do not know the service {service}"));
    }
    let asked = answers.len();
    (!parts.is_empty()).then(|| format!("of {asked} sentinels {}", parts.join(", ")))
}

/// Whether so many sentinels failed in the same way before.
fn is_logged(before: &str, now: &str) -> bool {
    counts(before) == counts(now) && reply::is_same_failure(before, now)
}

/// What stands before and after the failure, which may contain the time.
fn counts(trouble: &str) -> (Option<&str>, Option<&str>) {
    (trouble.split('(').next(), trouble.rsplit(')').next())
}

/// Reads the epoch from the answer to `SENTINEL MASTER`, names and values by turns or a map, and
/// the address from that to `SENTINEL GET-MASTER-ADDR-BY-NAME`: who leads an election knows the new
/// epoch seconds before the first of them names the new master. In this order, so that an old
/// address never comes with a new epoch. None if the sentinel does not know the service; an error
/// is how it refuses to say.
fn named(answers: &[Value]) -> Result<Option<Named>, String> {
    let mut refusals = answers.iter().filter_map(|answer| match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    });
    let text = |error: &ServerError| error.details().unwrap_or_default().to_owned();
    match refusals.find(|error| !text(error).starts_with(UNKNOWN_SERVICE)) {
        Some(error) => Err(format!("{} {}", error.code(), text(error))),
        None => Ok(read(answers)),
    }
}

fn read(answers: &[Value]) -> Option<Named> {
    let [master, Value::Array(address)] = answers else {
        return None;
    };
    let pairs: Vec<(&Value, &Value)> = match master {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(items) => items
            .chunks_exact(2)
            .map(|pair| (&pair[0], &pair[1]))
            .collect(),
        _ => return None,
    };
    let mut texts = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    let (_, epoch) = texts.find(|(name, _)| *name == "config-epoch")?;
    let [host, port] = address.as_slice() else {
        return None;
    };
    Some(Named {
        epoch: epoch.parse().ok()?,
        address: Address {
            host: text(host)?.to_owned(),
            port: text(port)?.parse().ok()?,
        },
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
#[path = "sentinel_tests.rs"]
mod tests;
