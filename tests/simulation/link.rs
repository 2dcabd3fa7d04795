//! A coordinator's way to the store, and everything that can go wrong on it. Calls are carried out
//! one after the other by a task of the link's own, so that one whose caller has given up is still
//! carried out, late but in order, as a frozen server does it.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::host::{
    Acks, Call, Commands, Connected, HostError, Numbers, Replicas, ScriptHost, Value, Wake,
    WakeSender, Words,
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    ledger::Ledger,
    mutants::{Mutant, Owed},
    plan::{Plan, millis, mix},
    run::has_failed,
};

/// Of a thousand times that replicas are waited for they say nothing so often.
const REPLICAS_AWAY: u64 = 60;

/// The scripts whose last word may be the note of a holder.
const SHOWS_NOTES: [&str; 6] = [
    "lock_acquire",
    "fair_acquire",
    "read_acquire",
    "write_acquire",
    "multi_acquire",
    "fair_vouch",
];

/// One coordinator's link. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Link(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    node: usize,
    plan: Arc<Plan>,
    mutant: Mutant,
    ledger: Ledger,
    pub(super) host: Arc<dyn ScriptHost>,
    wakes: WakeSender,
    calls: mpsc::UnboundedSender<Item>,
    weather: Mutex<Weather>,
    /// The coordinator behind it is dead: nothing comes back any more.
    pub(super) cut: CancellationToken,
    pub(super) wanted: Mutex<BTreeSet<String>>,
    /// How often each thing happened. Chance is drawn from what a call is and its number among its
    /// like: calls for different locks that are made in the same instant may come in any order, and
    /// that must not change what happens to them.
    counts: Mutex<HashMap<u64, u64>>,
}

/// What is wrong now.
#[derive(Debug)]
struct Weather {
    healed: bool,
    frozen_until: Instant,
    unavailable_until: Instant,
    slow_until: Instant,
    slow_by: Duration,
}

/// A call on its way.
#[derive(Debug)]
struct Item {
    due: Instant,
    work: Work,
}

/// What is to be done, and where the answer goes.
#[derive(Debug)]
pub(super) enum Work {
    Script(Call, AnswerTo<Value>),
    Commands(Commands<'static>, AnswerTo<Numbers>),
}

pub(super) type AnswerTo<T> = oneshot::Sender<Result<T, HostError>>;

/// The coordinator's end of a link.
#[derive(Debug)]
pub(super) struct FaultyHost(pub(super) Link);

// === impl Link ===

impl Link {
    /// A link, and what a coordinator connects to.
    pub(crate) fn new(
        node: usize,
        plan: &Arc<Plan>,
        mutant: Mutant,
        ledger: &Ledger,
    ) -> (Self, Connected) {
        let (host, inner_wakes) = ledger.store().connect();
        let (wakes, outer_wakes) = WakeSender::channel();
        let (calls, queue) = mpsc::unbounded_channel();
        let now = Instant::now();
        let link = Self(Arc::new(Shared {
            node,
            plan: Arc::clone(plan),
            mutant,
            ledger: ledger.clone(),
            host,
            wakes,
            calls,
            weather: Mutex::new(Weather {
                healed: false,
                frozen_until: now,
                unavailable_until: now,
                slow_until: now,
                slow_by: Duration::ZERO,
            }),
            cut: CancellationToken::new(),
            wanted: Mutex::default(),
            counts: Mutex::default(),
        }));
        spawn_detached("link", link.clone().carry_out(queue));
        spawn_detached("messages", link.clone().deliver(inner_wakes));
        let host = Arc::new(FaultyHost(link.clone()));
        (link, (host, outer_wakes))
    }

    pub(crate) fn freeze(&self, span: Duration) {
        let mut weather = self.0.weather.lock();
        weather.frozen_until = weather.frozen_until.max(Instant::now() + span);
    }

    pub(crate) fn fail(&self, span: Duration) {
        self.0.weather.lock().unavailable_until = Instant::now() + span;
    }

    pub(crate) fn slow_down(&self, span: Duration, by: Duration) {
        let mut weather = self.0.weather.lock();
        weather.slow_until = Instant::now() + span;
        weather.slow_by = by;
    }

    pub(crate) fn gap(&self) {
        self.0.wakes.send(Wake::Gap);
    }

    pub(crate) fn heal(&self) {
        let now = Instant::now();
        *self.0.weather.lock() = Weather {
            healed: true,
            frozen_until: now,
            unavailable_until: now,
            slow_until: now,
            slow_by: Duration::ZERO,
        };
    }

    /// The coordinator dies: its connections are closed; what it has sent may still be carried out.
    pub(crate) fn cut(&self) {
        self.0.cut.cancel();
        for channel in std::mem::take(&mut *self.0.wanted.lock()) {
            self.0.host.unsubscribe(&channel);
        }
    }

    async fn carry_out(self, mut queue: mpsc::UnboundedReceiver<Item>) {
        let mut owed = Owed::default();
        while let Some(item) = queue.recv().await {
            loop {
                let due = item.due.max(self.0.weather.lock().frozen_until);
                if due <= Instant::now() {
                    break;
                }
                sleep_until(due).await;
            }
            let (call, answer_to) = match item.work {
                Work::Script(call, answer_to) => (call, answer_to),
                Work::Commands(commands, answer_to) => {
                    let answer = self.run(&commands, &mut owed).await;
                    let _ = answer_to.send(answer);
                    continue;
                }
            };
            let Call {
                mut script,
                keys,
                args,
            } = call;
            if let Some(broken) = self.0.mutant.script(script.name) {
                script = broken;
            }
            let (names, said) = (owned(&keys), owned(&args));
            let waiter = waiter(script.name, &said);
            // A lock that is handed on has more keys if it is fair.
            let is_fair = script.name.starts_with("fair_")
                || (script.name == "lock_hand_on" && keys.len() > 3);
            let is_proclaimed = script.name == "election_proclaim";
            let answer = self.0.host.eval(Call { script, keys, args }).await;
            if let Err(error @ HostError::Rejected { .. }) = &answer {
                has_failed(format!("{}: {error}", script.name));
            }
            self.0.ledger.look(&names, script.name);
            if let Ok(answer) = &answer
                && SHOWS_NOTES.contains(&script.name)
            {
                self.0.ledger.told(&names, script.name, answer);
            }
            if let Ok(answer) = &answer
                && is_fair
            {
                self.0.ledger.lines_up(script.name, &names, &said, answer);
            }
            if let Ok(Value::Array(answer)) = &answer
                && is_proclaimed
                && answer.first() == Some(&Value::Int(1))
            {
                self.0.ledger.proclaims(&names, &said);
            }
            if let (Some(field), Ok(Value::Array(answer))) = (waiter, &answer)
                && answer.first() == Some(&Value::Int(0))
            {
                self.0.ledger.waits(&names, &field);
            }
            // Nobody waits if the caller has given up.
            let _ = answer_to.send(answer);
        }
    }

    /// Carries out commands that are no script.
    async fn run(&self, commands: &Commands<'_>, owed: &mut Owed) -> Result<Numbers, HostError> {
        let Shared { ledger, host, .. } = &*self.0;
        let instead = match self.0.mutant {
            Mutant::Native(hole) => hole.run(ledger.store(), owed, commands).await,
            _ => None,
        };
        let answer = match instead {
            Some(answer) => answer,
            None => host.run(commands, Instant::now()).await,
        };
        let key = Bytes::copy_from_slice(commands.key());
        ledger.look(&[key], commands.name());
        answer
    }

    async fn deliver(self, mut wakes: mpsc::Receiver<Wake>) {
        while let Some(wake) = wakes.recv().await {
            let Wake::Message { channel, .. } = &wake else {
                self.0.wakes.send(wake);
                continue;
            };
            let messages = &self.0.plan.messages;
            let channel = self.0.ledger.same_in_every_run(channel);
            if self.chance("message", &channel, messages.lost) {
                continue;
            }
            let mut delay = self.0.plan.latency;
            if self.chance("delay", &channel, messages.delayed) {
                delay += messages.delay;
            }
            if delay.is_zero() {
                self.tell(wake);
            } else {
                let link = self.clone();
                spawn_detached("message", async move {
                    sleep(delay).await;
                    link.tell(wake);
                });
            }
        }
    }

    fn tell(&self, wake: Wake) {
        if !self.0.cut.is_cancelled() {
            self.0.wakes.send(wake);
        }
    }

    /// What tells a call from others that may be made in the same instant.
    pub(super) fn spot(&self, call: &Call) -> String {
        call.keys.first().map_or_else(String::new, |key| {
            let lock = String::from_utf8_lossy(key);
            let owner = call.args.first().map(|field| self.0.ledger.owner(field));
            format!("{} {lock} {owner:?}", call.script.name)
        })
    }

    /// The same of commands.
    pub(super) fn spot_of(&self, commands: &Commands<'_>) -> String {
        let lock = String::from_utf8_lossy(commands.key());
        let owner = self.0.ledger.owner(commands.field());
        format!("{} {lock} {owner:?}", commands.name())
    }

    pub(super) async fn call<T>(
        &self,
        key: String,
        work: impl FnOnce(AnswerTo<T>) -> Work,
    ) -> Result<T, HostError> {
        let Shared { plan, weather, .. } = &*self.0;
        let unknown = || Err(HostError::OutcomeUnknown("by the simulation".to_owned()));
        let now = Instant::now();
        let latency = {
            let weather = weather.lock();
            if now < weather.unavailable_until {
                return Err(HostError::Unavailable("by the simulation".to_owned()));
            }
            let slow = now < weather.slow_until;
            plan.latency
                + if slow {
                    weather.slow_by
                } else {
                    Duration::ZERO
                }
        };
        if self.chance("request", &key, plan.calls.request_lost) {
            self.notice_a_broken_connection(&key).await;
            return unknown();
        }
        let (answer, answered) = oneshot::channel();
        let due = now + latency;
        let work = work(answer);
        let _ = self.0.calls.send(Item { due, work });
        let back = async {
            let answer = answered.await;
            sleep(latency).await;
            answer
        };
        let Ok(Ok(answer)) = timeout(plan.call_timeout, back).await else {
            return unknown();
        };
        if self.chance("answer", &key, plan.calls.answer_lost) {
            self.notice_a_broken_connection(&key).await;
            return unknown();
        }
        answer
    }

    /// What replicas say in the end: mostly that they know, at times nothing.
    pub(super) async fn replicas(&self, spot: &str, wanted: Replicas) -> Acks {
        let required = wanted.required(1);
        sleep(self.0.plan.latency).await;
        // At once: while an attempt waits for replicas the checker would take it for one that
        // should have been granted.
        if self.chance("replica", spot, REPLICAS_AWAY) {
            return Acks::none(wanted, "by the simulation");
        }
        Acks {
            acknowledged: required,
            required,
            problem: None,
        }
    }

    /// A lost connection is noticed at once or only by the time that a call may take.
    async fn notice_a_broken_connection(&self, key: &str) {
        if self.chance("noticed", key, 500) {
            sleep(self.0.plan.call_timeout).await;
        }
    }

    fn chance(&self, what: &str, key: &str, per_mille: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        (what, key, self.0.node).hash(&mut hasher);
        let kind = hasher.finish();
        let mut counts = self.0.counts.lock();
        let count = counts.entry(kind).or_default();
        *count += 1;
        let drawn = mix(self.0.plan.seed ^ mix(kind ^ mix(*count))) % 1000;
        drawn < per_mille && !self.0.weather.lock().healed
    }

    pub(super) async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        let Shared { plan, wanted, .. } = &*self.0;
        wanted.lock().insert(channel.to_owned());
        if self.0.mutant.forgets_to_subscribe() {
            return Ok(());
        }
        let spot = self.0.ledger.same_in_every_run(channel);
        if self.chance("subscribe", &spot, plan.messages.subscribe_fails) {
            let (link, channel) = (self.clone(), channel.to_owned());
            spawn_detached("subscribe-again", async move {
                sleep(millis(700)).await;
                link.subscribe_now(&channel).await;
                link.gap();
            });
            return Err(HostError::OutcomeUnknown("by the simulation".to_owned()));
        }
        if self.chance("late", &spot, plan.messages.subscribe_late) {
            sleep(millis(300)).await;
        }
        sleep(plan.latency).await;
        self.subscribe_now(channel).await;
        sleep(plan.latency).await;
        Ok(())
    }

    async fn subscribe_now(&self, channel: &str) {
        if self.0.wanted.lock().contains(channel) && !self.0.cut.is_cancelled() {
            let _ = self.0.host.subscribe(channel).await;
        }
    }
}

/// The words, which the host is given, for the ledger.
fn owned(words: &Words) -> Vec<Bytes> {
    words.iter().map(Bytes::copy_from_slice).collect()
}

/// The field of the owner that waits if this call does not get the lock, and is known to do so in
/// the store.
fn waiter(script: &str, args: &[Bytes]) -> Option<Bytes> {
    let waits = match script {
        "fair_acquire" => args.get(3)? == "1",
        "write_acquire" => !args.get(3)?.is_empty(),
        _ => false,
    };
    args.first().filter(|_| waits).cloned()
}
