//! Finds out who serves what. One task asks several nodes, each with a time limit, at an interval
//! and whenever something looks as if it had changed. The answer with the newest epoch is believed,
//! so that a node that was cut off is not.

use std::{sync::Arc, time::Duration};

use deadpool_redis::redis::{RedisError, Value, cmd};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{
    super::{ConfigError, address::Address, endpoint::Endpoint, reply, round},
    channels::Channels,
    router::{Router, View},
    topology::Topology,
};
use crate::host::{Wake, metrics::Share};

/// How often the nodes are asked. They themselves need seconds to agree on a failover.
const INTERVAL: Duration = Duration::from_millis(500);

/// Between two rounds when something seems to have changed.
const PAUSE: Duration = Duration::from_millis(50);

/// Between two lines of the same problem, which goes on.
const LOGGED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Between two lines that only say that slots have moved between the same masters.
const MOVES_LOGGED_AFTER: Duration = Duration::from_secs(10);

/// Nodes that are asked in one round; in a larger cluster others come next.
const ASKED_MAX: usize = 9;

/// The time limit of one answer. Opening a connection may take more than one round.
const ANSWER_MAX: Duration = Duration::from_millis(500);

pub(super) struct Refresher {
    router: Arc<Router>,
    channels: Arc<Channels>,
    seats: Vec<Seat>,
    known: Option<(u64, Topology)>,
    /// What keeps all nodes from answering, and when that was logged last.
    problem: Option<(String, Instant)>,
    /// Commands that no node allows, while it is not known who the masters are, which check their
    /// users' rights themselves.
    lacks: Option<Share>,
    /// When the masters and their slots were logged last.
    logged_at: Option<Instant>,
    uncovered: Option<(u16, u16)>,
}

/// A node that can be asked.
struct Seat {
    address: Address,
    server: round::Asked,
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    /// Whether it takes itself for a part of the cluster's majority.
    healthy: bool,
    /// Grows with every election and every slot that moves.
    epoch: u64,
    topology: Topology,
}

// === impl Refresher ===

impl Refresher {
    pub(super) fn new(router: Arc<Router>, channels: Arc<Channels>) -> Result<Self, ConfigError> {
        let seeds = router.seeds().iter();
        let seats = seeds.map(|seed| Seat::new(seed, &router));
        let seats = seats.collect::<Result<_, _>>()?;
        Ok(Self {
            router,
            channels,
            seats,
            known: None,
            problem: None,
            lacks: None,
            logged_at: None,
            uncovered: None,
        })
    }

    pub(super) async fn run(mut self) {
        let router = Arc::clone(&self.router);
        loop {
            let next = Instant::now() + INTERVAL;
            self.refresh().await;
            tokio::select! {
                () = sleep_until(next) => {}
                () = router.stale() => sleep(PAUSE).await,
            }
        }
    }

    async fn refresh(&mut self) {
        let (answers, problem, asked) = self.ask().await;
        let known = self.known.as_ref();
        match believed(&answers, asked, known) {
            Some(answer) => {
                self.problem = None;
                self.lacks = None;
                let answer = answer.clone();
                self.follow(answer);
            }
            None if answers.is_empty() => self.tell_problem(problem),
            None => {
                tracing::debug!("what the nodes of the cluster say is older than what is known");
            }
        }
    }

    /// What the nodes say; what kept the others from answering; how many were asked.
    async fn ask(&mut self) -> (Vec<Answer>, Option<String>, usize) {
        let limit = Instant::now() + ANSWER_MAX;
        self.seats.rotate_left(1);
        let asked = self.seats.len().min(ASKED_MAX);
        let seats = self.seats.iter_mut().take(asked);
        let came = round::answers(seats.map(|seat| seat.ask(limit)), limit).await;
        let (mut answers, mut problem) = (Vec::new(), None);
        for answer in came {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => problem = problem.max(Some(error)),
            }
        }
        (answers, problem, asked)
    }

    fn tell_problem(&mut self, problem: Option<String>) {
        let problem = problem.unwrap_or_else(|| "no node of the cluster answers".to_owned());
        let last = self.problem.as_ref();
        let is_logged = last.is_some_and(|(last, at)| {
            reply::is_same_failure(last, &problem) && at.elapsed() < LOGGED_AGAIN_AFTER
        });
        if is_logged {
            return;
        }
        let knows_masters = self.known.is_some();
        tracing::warn!(
            %problem,
            knows_masters,
            "the cluster cannot be queried, and changes of its masters are not seen, retrying"
        );
        if self.known.is_none() {
            self.router.show(View::Unknown(problem.as_str().into()));
            let is_refused = problem.contains(" answers NOPERM ");
            let lacks = || self.router.config().metrics.lacks();
            self.lacks.get_or_insert_with(lacks).set(is_refused.into());
        }
        self.problem = Some((problem, Instant::now()));
    }

    fn follow(&mut self, answer: Answer) {
        let Answer {
            epoch, topology, ..
        } = answer;
        let before = self.known.replace((epoch, topology.clone()));
        let before = before.map(|(_, topology)| topology);
        if before.as_ref() == Some(&topology) {
            self.router.close_others(&topology.masters());
            return;
        }
        self.warn_of_uncovered(&topology);
        self.reseat(&topology);
        let same_masters = before
            .as_ref()
            .is_some_and(|it| topology.has_same_masters(it));
        if !same_masters {
            let masters = topology.masters();
            // Slots move one by one: a line for each would be two in a second, for minutes.
            let is_recent = before.as_ref().is_some_and(|it| it.masters() == masters)
                && self
                    .logged_at
                    .is_some_and(|at| at.elapsed() < MOVES_LOGGED_AFTER);
            let masters = masters.len();
            if is_recent {
                tracing::debug!(epoch, masters, "slots of the cluster have moved");
            } else {
                tracing::info!(epoch, masters, "the cluster's masters and their slots");
                self.logged_at = Some(Instant::now());
            }
        }
        let promoted = before.is_some_and(|before| topology.has_promoted_since(&before));
        self.router.show(View::Known(Arc::new(topology.clone())));
        self.channels.follow(&topology);
        self.router.keep_only(&topology.masters());
        if promoted {
            self.router.wakes().send(Wake::TakenOver);
        }
    }

    fn warn_of_uncovered(&mut self, topology: &Topology) {
        let uncovered = topology.uncovered();
        if let Some((first, count)) = uncovered.filter(|_| uncovered != self.uncovered) {
            tracing::warn!(
                first,
                count,
                "the cluster has slots that no node serves: calls for them fail"
            );
        }
        self.uncovered = uncovered;
    }

    /// Asks these nodes from now on, and those that the URL names.
    fn reseat(&mut self, topology: &Topology) {
        let seeds = self.router.seeds();
        let nodes = topology.nodes();
        self.seats
            .retain(|seat| nodes.contains(&seat.address) || seeds.contains(&seat.address));
        for address in nodes {
            if self.seats.iter().all(|seat| seat.address != *address)
                && let Ok(seat) = Seat::new(address, &self.router)
            {
                self.seats.push(seat);
            }
        }
    }
}

/// The answer to believe: that of a node in the majority with the newest epoch, and if those
/// differ, what most say. One that is older than what is known counts only if most of all that were
/// asked agree, as after the cluster was set up anew.
fn believed<'a>(
    answers: &'a [Answer],
    asked: usize,
    known: Option<&(u64, Topology)>,
) -> Option<&'a Answer> {
    let votes = |answer: &Answer| {
        let same = |other: &&Answer| other.topology.has_same_masters(&answer.topology);
        answers.iter().filter(same).count()
    };
    let is_known = |answer: &Answer| known.is_some_and(|known| known.1 == answer.topology);
    let rank = |answer: &&Answer| {
        (
            answer.healthy,
            answer.epoch,
            votes(answer),
            is_known(answer),
        )
    };
    let best = answers.iter().max_by_key(rank)?;
    let is_older = known.is_some_and(|(epoch, _)| best.epoch < *epoch);
    (!is_older || votes(best) * 2 > asked).then_some(best)
}

// === impl Seat ===

impl Seat {
    fn new(address: &Address, router: &Router) -> Result<Self, ConfigError> {
        Ok(Self {
            address: address.clone(),
            server: round::Asked::new(router.endpoint(address)?),
        })
    }

    /// What the node says, or why it does not.
    async fn ask(&mut self, limit: Instant) -> Result<Answer, String> {
        let address = self.address.clone();
        match timeout_at(limit, self.ask_without_limit()).await {
            Ok(Ok(answer)) => {
                self.server.answered();
                answer.map_err(|problem| format!("{address} {problem}"))
            }
            Ok(Err(error)) => {
                self.server.give_up();
                Err(format!("{address}: {}", reply::asking_failure(&error)))
            }
            Err(_) => Err(format!("{address}: {}", reply::SILENT)),
        }
    }

    async fn ask_without_limit(&mut self) -> Result<Result<Answer, String>, RedisError> {
        let open = |node: Endpoint| async move {
            let no_pushes = |_| Ok::<(), RedisError>(());
            node.connect(no_pushes).await
        };
        let connection = self.server.connection(open).await?;
        let ask = async |what| {
            let mut connection = connection.clone();
            connection
                .send_packed_command(cmd("CLUSTER").arg(what))
                .await
        };
        let (info, slots) = futures::try_join!(ask("INFO"), ask("SLOTS"))?;
        Ok(Answer::parse(&info, &slots, &self.address))
    }
}

// === impl Answer ===

impl Answer {
    fn parse(info: &Value, slots: &Value, asked: &Address) -> Result<Self, String> {
        let refused = [slots, info].into_iter().find_map(|answer| match answer {
            Value::ServerError(error) => Some(error),
            _ => None,
        });
        if let Some(error) = refused {
            let text = error.details().unwrap_or_default();
            return Err(if text.contains("cluster support disabled") {
                "is not part of a cluster".to_owned()
            } else {
                format!("answers {} {text}", error.code())
            });
        }
        let unreadable = || "answers what cannot be read".to_owned();
        let info = match info {
            Value::BulkString(bytes) => str::from_utf8(bytes).map_err(|_| unreadable())?,
            Value::VerbatimString { text, .. } => text,
            _ => return Err(unreadable()),
        };
        let field = |name: &str| {
            let lines = info.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(field, _)| *field == name);
            found.next().map(|(_, value)| value.trim())
        };
        let epoch = field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok());
        Ok(Self {
            healthy: field("cluster_state") == Some("ok"),
            epoch: epoch.ok_or_else(unreadable)?,
            topology: Topology::parse(slots, asked).map_err(|_| unreadable())?,
        })
    }
}

#[cfg(test)]
#[path = "refresher_tests.rs"]
mod tests;
