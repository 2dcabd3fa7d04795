//! What a run of a row comes to.

use std::{fs, iter, path::Path, sync::atomic::Ordering, time::Duration};

use crate::{
    checker::{Bounds, Findings, NOTICE_MAX},
    contender::{self, Ring},
    fault::Fault,
    heartbeat::Lateness,
    history::Event,
    kinds,
    line::{Header, Line, micros},
    row::{Promise, Row, Usage},
    witness::Registers,
};

/// What a machine takes at once, and of each second, while a run still shows something.
const STALL_MAX: Duration = Duration::from_millis(500);
const SHARE_MAX: f64 = 0.1;

/// So many tokens may be given twice where there are two stores: some twenty grants of a lock in a
/// second by each make one in a few hundred runs, and bursts more.
const TWINS_MAX: usize = 2;

/// By so much what a coordinator uses may differ from one moment to another: all clients of the
/// other one come to it.
const MEMORY_SPREAD: u64 = 16 << 20;
const FILES_SPREAD: usize = 64;

/// What a run comes to.
pub(crate) enum Verdict {
    Kept,
    /// Something took too long, and the fault and the coordinators need not have been what took it.
    Void(String),
    Broken(String),
    /// Something is not there that the run needs.
    Skipped(String),
}

/// What a run showed.
pub(crate) struct Outcome<'a> {
    pub(crate) row: &'a Row,
    pub(crate) seed: u64,
    pub(crate) strikes: u32,
    /// Another server took over once more.
    pub(crate) struck_again: bool,
    /// What the last coordinator used, early and at the end.
    pub(crate) used: [Usage; 2],
    pub(crate) findings: Findings,
    pub(crate) bounds: Bounds,
    /// How many contenders and users did not come to an end.
    pub(crate) unended: usize,
    pub(crate) ring: &'a Ring,
    /// What the users of all kinds did, for another checker.
    pub(crate) kinds: Vec<Line>,
}

/// What a run did not keep to.
#[derive(Default)]
struct Problems {
    /// Whatever the machine did.
    always: Vec<String>,
    /// Unless the machine, or another fault than was meant, took the time.
    in_time: Vec<String>,
}

// === impl Outcome ===

impl Outcome<'_> {
    /// The run as a line of the log.
    pub(crate) fn line(&self) -> String {
        let (row, it) = (self.row, &self.findings);
        let lateness = self.bounds.lateness;
        let [outage, back, one, leaderless, late, in_all] = [
            it.outage,
            it.back,
            it.outage_of_one,
            self.ring.terms.leaderless(self.bounds.stopped),
            lateness.most,
            lateness.total,
        ]
        .map(|it| format!("{:.2}s", it.as_secs_f64()));
        [
            format!("row {:<34} seed={}", row.name, self.seed),
            format!("strikes={}", self.strikes),
            format!("grants={} failed={} lost={}", it.grants, it.failed, it.lost),
            format!("| violations={} ({:?})", it.violations.len(), row.promise),
            format!("late={}", it.late_notices),
            format!("unfenced_lost={}", self.sum(Registers::unfenced_lost)),
            format!("| fenced_lost={}", self.sum(Registers::fenced_lost)),
            format!("refused={}", self.sum(|it| it.refused)),
            format!("tokens={}", it.tokens.len() + it.twins.len()),
            format!("stuck={} silent={}", it.stuck.len(), it.silent.len()),
            format!(
                "unaware={} not_owner={}",
                it.unaware.len(),
                it.refused.len()
            ),
            format!("| outage={outage} back={back} one={one} leaderless={leaderless}"),
            format!(
                "| MiB={}..{}",
                self.used[0].memory >> 20,
                self.used[1].memory >> 20
            ),
            format!("files={}..{}", self.used[0].files, self.used[1].files),
            format!("| machine late={late} in all={in_all}"),
        ]
        .join(" ")
    }

    fn sum(&self, of: impl Fn(&Registers) -> u64) -> u64 {
        self.ring.witness.registers().iter().map(of).sum()
    }

    /// Writes the history down, too. That of a run that was not kept stays, under its seed.
    pub(crate) fn judge(&self, events: &[Event]) -> Verdict {
        let mut problems = self.problems();
        if problems.always.is_empty() && problems.in_time.is_empty() {
            self.keep(self.row.name, events);
            return Verdict::Kept;
        }
        let file = self.keep(&format!("{} seed {}", self.row.name, self.seed), events);
        let excuse = excuse(&self.bounds, self.struck_again);
        if let Some(why) = excuse.filter(|_| problems.always.is_empty()) {
            let problems = problems.in_time.join(", ");
            return Verdict::Void(format!("{why}, history in {file}; {problems}"));
        }
        problems.always.append(&mut problems.in_time);
        problems.always.truncate(20);
        let problems = problems.always.join("\n");
        Verdict::Broken(format!("history in {file}:\n{problems}"))
    }

    /// Writes the history to a file, for people and for the other checker.
    fn keep(&self, name: &str, events: &[Event]) -> String {
        let header = Header {
            run: self.row.name.to_owned(),
            promise: match self.row.promise {
                Promise::Exclusion => "exclusion",
                Promise::TokensOnly => "tokens",
                Promise::TwoStores => "two_stores",
            },
            seed: self.seed,
            notice_us: micros(NOTICE_MAX + self.bounds.lateness.most),
        };
        let lines = events.iter().map(|event| {
            let client = format!("contender-{}", event.client);
            Line::of(event, &client, &contender::name(event.name))
        });
        let lines = lines.chain(self.kinds.iter().cloned());
        let lines = lines.map(|line| serde_json::to_string(&line).expect("a line"));
        let header = serde_json::to_string(&header).expect("a header");
        let lines: Vec<_> = iter::once(header).chain(lines).collect();
        let name = name.replace(' ', "-");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.history"));
        fs::write(&path, lines.join("\n") + "\n").expect("written");
        path.display().to_string()
    }

    fn problems(&self) -> Problems {
        let (row, it) = (self.row, &self.findings);
        let unfenced = self.sum(Registers::unfenced_lost);
        let fenced = self.sum(Registers::fenced_lost);
        let late = self.bounds.lateness.total;
        let Problems {
            mut always,
            mut in_time,
        } = Problems::default();
        if row.promise == Promise::Exclusion {
            always.extend(it.violations.iter().cloned());
            if unfenced > 0 {
                always.push(format!(
                    "{unfenced} updates of the unfenced registers are lost"
                ));
            }
        }
        // Two stores that count from the same clock give the same token if they grant in the same
        // microsecond.
        let by_chance =
            row.promise == Promise::TwoStores && (1..=TWINS_MAX).contains(&it.twins.len());
        if !by_chance {
            always.extend(it.twins.iter().cloned());
            if fenced > 0 {
                always.push(format!("{fenced} updates of the fenced registers are lost"));
            }
        }
        always.extend(it.tokens.iter().cloned());
        always.extend(self.of_replicas());
        if row.promise != Promise::TwoStores {
            always.extend(it.unaware.iter().cloned());
            let keeps_all = row.promise == Promise::Exclusion;
            always.extend(self.ring.terms.problems(keeps_all));
        }
        let [early, last] = self.used;
        let grown =
            last.memory > early.memory + MEMORY_SPREAD || last.files > early.files + FILES_SPREAD;
        if matches!(row.fault, Fault::AnyOf(_)) && grown {
            always.push(format!("a coordinator grows from {early:?} to {last:?}"));
        }
        in_time.extend(it.stuck.iter().chain(&it.silent).cloned());
        if it.outage > row.outage_max + late {
            in_time.push(format!("no grant for {:?}", it.outage));
        }
        if it.outage_of_one > row.outage_of_one_max + late {
            in_time.push(format!("no grant of a lock for {:?}", it.outage_of_one));
        }
        in_time.extend(self.of_users());
        // Calls and leases end by the clock.
        if it.failed > 0 && !row.may_fail {
            let why = self.ring.failures.lock().clone();
            in_time.push(format!("{} calls failed: {why:#?}", it.failed));
        }
        if !row.may_lose {
            in_time.extend(it.refused.iter().cloned());
            if it.lost > 0 {
                in_time.push(format!("{} grants were lost", it.lost));
            }
        }
        Problems { always, in_time }
    }

    /// What was granted although too few replicas acknowledged it.
    fn of_replicas(&self) -> Vec<String> {
        let required = self.row.setup.replica_acks();
        let fewest = self.ring.acks_min.load(Ordering::Relaxed);
        let mut problems = Vec::new();
        if fewest < required {
            problems.push(format!(
                "a grant has {fewest} of {required} acknowledgements"
            ));
        }
        // No replica acknowledges anything for long enough that all who contend ask for a lock.
        let are_silent = matches!(self.row.fault, Fault::ReplicasFrozen(_));
        let refusal = format!("0 of {required} replicas acknowledged");
        let failures = self.ring.failures.lock();
        let is_refused = failures.keys().any(|why| why.contains(&refusal));
        if required > 0 && are_silent && !is_refused {
            problems.push("nothing was refused while no replica acknowledged".to_owned());
        }
        problems
    }

    /// What went wrong with all who contend, and with the users of each kind.
    fn of_users(&self) -> Vec<String> {
        let (row, late) = (self.row, self.bounds.lateness.total);
        let mut problems = Vec::new();
        if self.unended > 0 {
            problems.push(format!(
                "{} contenders or users have not ended",
                self.unended
            ));
        }
        let leaderless = self.ring.terms.leaderless(self.bounds.stopped);
        if leaderless > row.outage_of_one_max + late {
            problems.push(format!("no leader for {leaderless:?}"));
        }
        // A user tries anew when its wait is over.
        let patience = row.outage_of_one_max + kinds::WAIT + late;
        let idle = kinds::idle(&self.kinds, [self.bounds.fault, self.bounds.stopped]);
        let idle = idle.into_iter().filter(|(_, time)| *time > patience);
        problems.extend(idle.map(|(kind, time)| format!("no success with {kind} for {time:?}")));
        problems
    }
}

/// What may have taken the time in a run besides the fault and the coordinators.
fn excuse(bounds: &Bounds, struck_again: bool) -> Option<String> {
    let Lateness { most, total } = bounds.lateness;
    if struck_again {
        // It cannot be told from when on the store could be used.
        Some("another server took over once more".to_owned())
    } else if most > STALL_MAX || total > bounds.end.mul_f64(SHARE_MAX) {
        Some(format!(
            "the machine was late by {most:?}, {total:?} in all"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::single;

    fn in_time(row: &Row, unended: usize, refused: usize) -> Vec<String> {
        problems(row, &Ring::of(Vec::new()), unended, refused).in_time
    }

    /// The problems of a run of ten seconds without faults.
    fn problems(row: &Row, ring: &Ring, unended: usize, refused: usize) -> Problems {
        let second = Duration::from_secs(1);
        let outcome = Outcome {
            row,
            seed: 0,
            strikes: 1,
            struck_again: false,
            used: [Usage {
                memory: 0,
                files: 0,
            }; 2],
            findings: Findings {
                refused: vec!["lock 0: 1 could not give back what it had".to_owned(); refused],
                ..Findings::default()
            },
            bounds: Bounds {
                lease: 5 * second,
                busy: 0,
                fault: Duration::ZERO,
                healed: Duration::ZERO,
                stopped: 10 * second,
                end: 10 * second,
                lateness: Lateness::NONE,
            },
            unended,
            ring,
            kinds: Vec::new(),
        };
        outcome.problems()
    }

    #[test]
    fn who_does_not_end_is_a_problem_and_a_refusal_is_unless_grants_may_be_lost() {
        let row = single("row", Fault::MasterKilled);
        assert_eq!(in_time(&row, 0, 0), Vec::<String>::new());
        assert_eq!(
            in_time(&row, 2, 0),
            ["2 contenders or users have not ended"]
        );
        assert_eq!(in_time(&row, 0, 1).len(), 1);
        assert_eq!(in_time(&row.may_lose(), 0, 1), Vec::<String>::new());
    }

    #[test]
    fn a_grant_that_too_few_replicas_acknowledged_is_a_problem() {
        const ACKS: &[(&str, &str)] = &[("store.replica_acks", "1")];
        let killed = single("row", Fault::MasterKilled);
        let frozen = single("row", Fault::ReplicasFrozen(Duration::from_secs(1)));
        let found = |row: Row, acks: u32, failure: &str| {
            let ring = Ring::of(Vec::new());
            ring.acks_min.store(acks, Ordering::Relaxed);
            ring.failures.lock().insert(failure.to_owned(), 1);
            problems(&row, &ring, 0, 0).always
        };
        let refusal = "Unavailable: 0 of 1 replicas acknowledged: too few";
        assert_eq!(found(killed, 0, ""), [""; 0]);
        assert_eq!(found(killed.settings(ACKS), 1, ""), [""; 0]);
        assert_eq!(found(frozen.settings(ACKS), 1, refusal), [""; 0]);
        let unacknowledged = ["a grant has 0 of 1 acknowledgements"];
        assert_eq!(found(killed.settings(ACKS), 0, ""), unacknowledged);
        let all_granted = found(frozen.settings(ACKS), 1, "Unavailable: gone");
        assert_eq!(
            all_granted,
            ["nothing was refused while no replica acknowledged"]
        );
    }

    #[test]
    fn a_busy_machine_or_another_fault_is_an_excuse() {
        let excused = |most: u64, total: u64, struck_again: bool| {
            let bounds = Bounds {
                lease: Duration::from_secs(5),
                busy: 0,
                fault: Duration::ZERO,
                healed: Duration::ZERO,
                stopped: Duration::from_secs(10),
                end: Duration::from_secs(10),
                lateness: Lateness {
                    most: Duration::from_millis(most),
                    total: Duration::from_millis(total),
                },
            };
            excuse(&bounds, struck_again).is_some()
        };
        assert!(!excused(0, 0, false));
        assert!(!excused(400, 900, false));
        assert!(excused(600, 600, false));
        assert!(excused(100, 1100, false));
        assert!(excused(0, 0, true));
    }
}
