//! An election: candidates that lead for a moment, and observers that see every term in order.

use std::time::Duration;

use lockkeeper_client::{Error, LockMode, Observed, Session};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use super::user::User;
use crate::history::At;

const NAME: &str = "kind-election";

/// How long an observer still listens at the end of a run.
const LISTENS: Duration = Duration::from_secs(3);

/// What candidates and observers of a run say.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    led: Mutex<Vec<Led>>,
    seen: Mutex<Vec<Vec<Seen>>>,
}

/// A term whose value was proclaimed, while it lasted.
#[derive(Clone, Copy, Debug)]
struct Led {
    term: u64,
    from: At,
    until: At,
}

/// What an observer was told.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Leader {
        term: u64,
        revision: u64,
    },
    /// There is a gap, or the observer cannot know.
    Missed,
}

// === impl User ===

impl User {
    /// Leads for a moment.
    pub(super) async fn lead(&mut self, session: &Session) -> Result<(), Error> {
        let owner = self.owner();
        let (attempt, guard) = self
            .acquire(session, "lock", NAME, &owner, LockMode::Fair)
            .await?;
        let (term, from) = (guard.fencing_token(), self.ring.history.now());
        let granted = Instant::now();
        let election = session.election(NAME);
        let leadership = election.lead(guard, owner.as_str()).await;
        let leadership = match leadership {
            Ok(leadership) => leadership,
            Err(error) => {
                // A candidate relies on nothing before it leads. The guard was dropped, so its lock
                // is released.
                self.relied(attempt, granted);
                self.note(attempt, "release_sent", 0, 0);
                self.note(attempt, "failed", 0, 0);
                return Err(error);
            }
        };
        let busy = self.random.random_range(2..60);
        tokio::select! {
            () = sleep(Duration::from_millis(busy)) => {}
            () = leadership.lost().cancelled() => {}
        }
        let until = leadership.guard().valid_until().min(Instant::now());
        self.relied(attempt, until);
        let late = Instant::now().saturating_duration_since(until);
        let until = self.ring.history.now().saturating_sub(late);
        self.ring.terms.led.lock().push(Led { term, from, until });
        self.note(attempt, "release_sent", 0, 0);
        let resigned = leadership.resign().await;
        self.ended(attempt, "released", resigned)
    }

    /// Observes until the run ends, and a little longer.
    pub(super) async fn observe(&mut self) -> Result<(), Error> {
        let mut observer = self.client.observe(NAME, 0);
        let mut seen = Vec::new();
        let ended = loop {
            let next = observer.next();
            let patience = async {
                self.ring.stop.cancelled().await;
                sleep(LISTENS).await;
            };
            let event = tokio::select! {
                event = next => event,
                () = patience => break Ok(()),
            };
            match event {
                Ok(Observed::Leader(it)) => seen.push(Seen::Leader {
                    term: it.term,
                    revision: it.revision,
                }),
                Ok(Observed::Missed(_)) => seen.push(Seen::Missed),
                Ok(Observed::NoLeader(_)) if self.ring.stop.is_cancelled() => break Ok(()),
                Ok(Observed::NoLeader(_)) => {}
                Err(error) => break Err(error),
            }
        };
        self.ring.terms.seen.lock().push(seen);
        ended
    }
}

// === impl Terms ===

impl Terms {
    /// The longest time without a leader after the first one, until everybody was told to stop.
    pub(crate) fn leaderless(&self, stopped: At) -> Duration {
        let mut led = self.led.lock().clone();
        led.sort_by_key(|it| it.from);
        let next = led.iter().skip(1).map(|it| it.from).chain([stopped]);
        let gaps = led.iter().zip(next);
        let gaps = gaps.map(|(it, next)| next.saturating_sub(it.until));
        gaps.max().unwrap_or_default()
    }

    /// Terms and values that were seen in another order than they came in. If the store forgets
    /// nothing, also terms that an observer was not told of.
    pub(crate) fn problems(&self, keeps_all: bool) -> Vec<String> {
        let led: Vec<_> = self.led.lock().iter().map(|it| it.term).collect();
        let mut problems = Vec::new();
        for seen in self.seen.lock().iter() {
            if seen.is_empty() && !led.is_empty() {
                problems.push(format!("an observer saw none of {} terms", led.len()));
            }
            problems.extend(out_of_order(seen));
            if keeps_all {
                problems.extend(passed_over(seen, &led));
            }
        }
        problems
    }
}

/// A store that forgets what it acknowledged goes back, which an observer is told as a gap.
fn out_of_order(seen: &[Seen]) -> Vec<String> {
    let mut problems = Vec::new();
    for pair in seen.windows(2) {
        let [
            Seen::Leader { term, revision },
            Seen::Leader {
                term: next,
                revision: newer,
            },
        ] = *pair
        else {
            continue;
        };
        if next < term || newer <= revision {
            problems.push(format!(
                "{next} as {newer} was seen after {term} as {revision}"
            ));
        }
    }
    problems
}

fn passed_over(seen: &[Seen], led: &[u64]) -> Vec<String> {
    let mut problems = Vec::new();
    for pair in seen.windows(2) {
        if let [
            Seen::Leader { term: from, .. },
            Seen::Leader { term: to, .. },
        ] = pair
        {
            let between = led.iter().filter(|it| *from < **it && **it < *to);
            problems.extend(between.map(|it| format!("{it} was not seen between {from} and {to}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(term: u64, revision: u64) -> Seen {
        Seen::Leader { term, revision }
    }

    #[test]
    fn the_time_without_a_leader_ends_with_the_run_at_the_latest() {
        let terms = Terms::default();
        let leaderless = |stopped: u64| terms.leaderless(Duration::from_secs(stopped)).as_secs();
        assert_eq!(leaderless(9), 0);
        for (term, [from, until]) in [(2, [5, 6]), (1, [1, 3])] {
            let [from, until] = [from, until].map(Duration::from_secs);
            terms.led.lock().push(Led { term, from, until });
        }
        assert_eq!([5, 7, 9].map(leaderless), [2, 2, 3]);
    }

    #[test]
    fn what_is_seen_twice_or_too_late_is_found() {
        let fine = [leader(3, 1), leader(3, 2), Seen::Missed, leader(7, 9)];
        assert_eq!(out_of_order(&fine), Vec::<String>::new());
        let back = [leader(7, 9), Seen::Missed, leader(3, 2)];
        assert_eq!(out_of_order(&back), Vec::<String>::new());
        assert_eq!(out_of_order(&[leader(3, 2), leader(3, 2)]).len(), 1);
        assert_eq!(out_of_order(&[leader(4, 2), leader(3, 3)]).len(), 1);
    }

    #[test]
    fn a_term_that_is_not_seen_is_found_unless_a_gap_is_told() {
        let led = [3, 5, 7];
        assert_eq!(passed_over(&[leader(3, 1), leader(7, 3)], &led).len(), 1);
        let told = [leader(3, 1), Seen::Missed, leader(7, 3)];
        assert_eq!(passed_over(&told, &led), Vec::<String>::new());
    }
}
