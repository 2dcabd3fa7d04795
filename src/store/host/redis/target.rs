//! Which server to talk to: always the same one, or the one that sentinels name.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_redis::redis::{Pipeline, Value, from_redis_value, pipe};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use super::{endpoint::Endpoint, reply::info_field};

/// The oldest Redis that has all that the scripts use.
const OLDEST: (u32, u32) = (6, 2);

/// Sentinels that answer do so in a moment. After this callers get an error: none of them does.
const FIRST_NAMED_MAX: Duration = Duration::from_secs(1);

/// For so long a connection waits for a word of the sentinels. Where none of them answers, what
/// they said last has to do.
const CONFIRMED_MAX: Duration = Duration::from_secs(1);

/// Which server to connect to.
#[derive(Clone)]
pub(super) enum Target {
    /// This one.
    Fixed(Box<Endpoint>),
    /// The master, by who last was elected.
    Elected(Elected),
}

/// A master that is elected, and the way to have the sentinels asked.
#[derive(Clone)]
pub(super) struct Elected {
    pub(super) election: watch::Receiver<Election>,
    /// Has the sentinels asked at once.
    pub(super) ask: Arc<Notify>,
}

/// What sentinels say.
#[derive(Clone)]
pub(super) struct Election {
    /// The master that was named last, if one ever was.
    pub(super) master: Option<Endpoint>,
    /// What is wrong with those that were asked last.
    pub(super) trouble: Option<Arc<str>>,
    /// When the last asking began that has ended.
    pub(super) asked_at: Option<Instant>,
}

// === impl Target ===

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endpoint() {
            Ok(endpoint) => endpoint.fmt(f),
            Err(_) => f.write_str("no master"),
        }
    }
}

impl Target {
    /// Waits for the first word of who is the master, if it has to be asked for.
    pub(super) async fn first_named(&self) {
        if let Self::Elected(elected) = self {
            let mut election = elected.election.clone();
            let named = election.wait_for(|it| it.master.is_some() || it.trouble.is_some());
            let _ = timeout(FIRST_NAMED_MAX, named).await;
        }
    }

    /// Where to connect now.
    pub(super) fn endpoint(&self) -> Result<Endpoint, String> {
        match self {
            Self::Fixed(endpoint) => Ok(Endpoint::clone(endpoint)),
            Self::Elected(elected) => {
                let Election {
                    master, trouble, ..
                } = elected.election.borrow().clone();
                let unknown = || "no sentinel has named a master yet".to_owned();
                master.ok_or_else(|| trouble.map_or_else(unknown, |why| why.to_string()))
            }
        }
    }

    /// Why there is no connection, and what else is known that may have to do with it.
    pub(super) fn explain(&self, failure: String) -> String {
        match self {
            Self::Fixed(_) => failure,
            Self::Elected(elected) => match &elected.election.borrow().trouble {
                Some(trouble) if **trouble != failure => format!("{failure}; {trouble}"),
                _ => failure,
            },
        }
    }

    /// Looks at what the server at the other end answers to [`questions`]: it must be new enough
    /// and take writes. Its process' id, if it may be asked for.
    pub(super) async fn check(
        &self,
        endpoint: &Endpoint,
        asked: impl Future<Output = Result<Vec<Value>, String>>,
    ) -> Result<Option<Arc<str>>, String> {
        let answers = timeout(endpoint.connect_timeout(), asked)
            .await
            .map_err(|_elapsed| "the server does not report its role".to_owned())??;
        let mut run_id = None;
        for (which, answer) in answers.into_iter().enumerate() {
            match answer {
                // A client that may not ask goes on: a replica refuses what is written all the
                // same.
                Value::ServerError(error) => tracing::debug!(%error, "the server is not checked"),
                info if which == 0 => {
                    let info: String = from_redis_value(info).unwrap_or_default();
                    refuse_old(&info)?;
                    run_id = info_field(&info, "run_id").map(Arc::from);
                }
                role => self.refuse_replica(&role)?,
            }
        }
        Ok(run_id)
    }

    /// Has the sentinels asked whether a server that was just connected to is the master still: one
    /// that was replaced while it was away calls itself a master when it comes back, until they
    /// have said otherwise, and would do again what the new one has done.
    pub(super) async fn confirm(&self, endpoint: &Endpoint) -> Result<(), String> {
        let Self::Elected(Elected { election, ask }) = self else {
            return Ok(());
        };
        let connected_at = Instant::now();
        let mut election = election.clone();
        ask.notify_one();
        let asked = election.wait_for(|it| it.asked_at.is_some_and(|at| at >= connected_at));
        let _ = timeout(CONFIRMED_MAX, asked).await;
        if self.endpoint()?.address() == endpoint.address() {
            Ok(())
        } else {
            Err("another master was elected".to_owned())
        }
    }

    fn refuse_replica(&self, role: &Value) -> Result<(), String> {
        let Value::Array(parts) = role else {
            return Ok(());
        };
        match (parts.as_slice(), self) {
            ([Value::BulkString(role), ..], _) if role == b"master" => Ok(()),
            (_, Self::Elected(_)) => {
                Err("the server that the sentinels name is not a master".to_owned())
            }
            (_, Self::Fixed(node)) if node.probe().in_cluster => {
                Err("the node is a replica, which takes no writes".to_owned())
            }
            ([_, Value::BulkString(host), Value::Int(port), ..], Self::Fixed(_)) => Err(format!(
                "the server is a replica, which takes no writes; name its master ({}:{port}), \
                 or its sentinels with redis+sentinel://",
                String::from_utf8_lossy(host)
            )),
            (_, Self::Fixed(_)) => {
                Err("the server is not a master: name one in the store's URL".to_owned())
            }
        }
    }

    /// Resolves when another server than this one is to be connected to.
    pub(super) async fn superseded(&self, endpoint: &Endpoint) {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Elected(elected) => {
                let mut election = elected.election.clone();
                let other = election.wait_for(|election| {
                    election
                        .master
                        .as_ref()
                        .is_some_and(|master| master.address() != endpoint.address())
                });
                if other.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// What a server is asked about itself.
pub(super) fn questions() -> Pipeline {
    let mut questions = pipe();
    questions.cmd("INFO").arg("server").cmd("ROLE");
    questions
}

/// An error if the server is older than the scripts need. Forks of Redis say with which version of
/// it they are compatible.
pub(super) fn refuse_old(info: &str) -> Result<(), String> {
    let Some(version) = info_field(info, "redis_version") else {
        return Ok(());
    };
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < OLDEST => {
            let (oldest_major, oldest_minor) = OLDEST;
            Err(format!(
                "the server is Redis {version}; {oldest_major}.{oldest_minor} or newer is needed"
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_too_old_are_refused() {
        let info = |version: &str| format!("# Server\r\nredis_version:{version}\r\nos:x\r\n");
        for good in ["6.2.0", "7.0.15", "10.1.0", "255.255.255", "unstable"] {
            assert_eq!(refuse_old(&info(good)), Ok(()), "{good}");
        }
        assert_eq!(refuse_old(""), Ok(()));
        for bad in ["6.0.16", "5.0.14", "3.2.1"] {
            let text = refuse_old(&info(bad)).unwrap_err();
            assert!(text.contains(bad) && text.contains("6.2"), "{text}");
        }
    }

    #[test]
    fn a_replica_is_refused_and_its_master_named() {
        let endpoint = Endpoint::new(&super::super::RedisConfig::default()).unwrap();
        let node = Target::Fixed(Box::new(endpoint.clone().of_cluster()));
        let target = Target::Fixed(Box::new(endpoint));
        let text = |text: &str| Value::BulkString(text.into());
        let replica = vec![
            text("slave"),
            text("10.0.0.1"),
            Value::Int(6379),
            text("connected"),
        ];
        let replica = Value::Array(replica);
        let of_cluster = node.refuse_replica(&replica).unwrap_err();
        assert!(!of_cluster.contains("name its master"), "{of_cluster}");
        let refused = target.refuse_replica(&replica).unwrap_err();
        assert!(
            refused.contains("10.0.0.1:6379") && refused.contains("replica"),
            "{refused}"
        );
        let master = vec![text("master"), Value::Int(0), Value::Array(vec![])];
        assert_eq!(target.refuse_replica(&Value::Array(master)), Ok(()));
        let sentinel = vec![text("sentinel"), Value::Array(vec![])];
        assert!(target.refuse_replica(&Value::Array(sentinel)).is_err());
    }
}
