//! Requests to yield. The holders of a lock are asked to release it, through the coordinators that
//! have their sessions. If the request preempts, those who still hold it at its end lose it.
//!
//! A message to other coordinators may be missed, and a holder that was reached may go on at
//! another one. So the message is repeated until the end of the request, or until none of the
//! holders that were asked holds the lock any more. A session that knows the request ignores it.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Account, Counted, Quota};
use lockkeeper_store::script::{Asked, Moved, ToHolders};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    admin::Reason,
    coordinator::Coordinator,
    core::Core,
    error::{Error, Limit},
    lock::{describe::look, outcome::HolderSeen},
    session::YieldRequest,
    types::{Invalid, LockName, LostReason, Owner},
    yield_room::YieldPlace,
};

/// How long a request stands unless it says so, and at most.
const YIELD_WITHIN: Duration = Duration::from_secs(30);
const YIELD_WITHIN_MAX: Duration = Duration::from_secs(3600);

/// Holders that are asked; the others are only counted.
const ASKED_MAX: u32 = 100;

/// How long the caller waits for other coordinators to say that they have reached the holders.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Pauses between repeats double from this one to a tenth of the request's time, within these
/// bounds.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);
const REPEAT_PAUSE_MAX: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// A request to yield a lock.
#[derive(Clone, Debug)]
pub struct RequestYield {
    /// The lock.
    pub name: LockName,
    /// Who asks, for people; may be empty.
    pub by: String,
    /// Why, for people.
    pub reason: Reason,
    /// How long it stands; see [`RequestYield::within`].
    pub within: Duration,
    /// If the lock is taken away at the end, how long it stays closed then, unless its former
    /// holders acknowledge; at most for the lease that is left.
    pub preempt: Option<Duration>,
    /// The owner that is to have the lock, which is not asked if it has the lock by now.
    pub for_owner: Option<Owner>,
    /// The account that it counts for while it stands.
    pub account: Account,
}

/// The holders that were asked to yield.
#[derive(Clone, Debug)]
pub struct YieldRequested {
    /// The lock.
    pub name: LockName,
    /// The first holders, and whether the request has reached them.
    pub holders: Vec<(HolderSeen, bool)>,
    /// The number of holders; 0: the lock is free.
    pub holder_count: usize,
}

/// What a request takes up as long as it stands.
pub(crate) type CountedYield = (YieldPlace, Counted);

/// A request that stands.
#[derive(Debug)]
struct Standing {
    core: Arc<Core>,
    request: RequestYield,
    /// The owners that were asked.
    asked: Vec<String>,
    /// To holders that were not reached yet; later to all that have a session.
    message: ToHolders,
    until: Instant,
    pause: Duration,
    _counted: CountedYield,
}

// === impl Coordinator ===

impl Coordinator {
    /// Asks the holders of a lock to release it. Answers when all of them are reached, or after a
    /// short time; the request then goes on by itself.
    pub async fn request_yield(&self, request: RequestYield) -> Result<YieldRequested, Error> {
        let core = Arc::clone(&self.core);
        let work = Box::pin(async move { core.request_yield(request).await });
        self.core.tasks.detach_on_drop("request_yield", work).await
    }
}

// === impl RequestYield ===

impl RequestYield {
    /// How long a request stands: 30 s unless it says so, and at most 1 h.
    pub fn within(asked: Option<Duration>) -> Result<Duration, Invalid> {
        let within = asked.unwrap_or(YIELD_WITHIN);
        if within.is_zero() || within > YIELD_WITHIN_MAX {
            return Err(Invalid::new(
                "within",
                "must be more than 0 and at most 1 h",
            ));
        }
        Ok(within)
    }
}

// === impl Core ===

impl Core {
    pub(crate) async fn request_yield(
        self: &Arc<Self>,
        request: RequestYield,
    ) -> Result<YieldRequested, Error> {
        let counted = self.count_yield(&request)?;
        self.request_counted_yield(request, counted).await
    }

    /// Refuses a request that has no room.
    pub(crate) fn count_yield(&self, request: &RequestYield) -> Result<CountedYield, Error> {
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let place = self.yields.place(request.account.identity());
        let place = place.ok_or(Error::LimitReached(Limit::Yields))?;
        let counted = request.account.count(Quota::Waiters, 1)?;
        Ok((place, counted))
    }

    pub(crate) async fn request_counted_yield(
        self: &Arc<Self>,
        request: RequestYield,
        counted: CountedYield,
    ) -> Result<YieldRequested, Error> {
        let until = Instant::now() + request.within;
        let mut seen = look(self, &request.name, ASKED_MAX).await?;
        seen.holders
            .retain(|it| Some(&it.owner) != request.for_owner.as_ref());
        let holders = seen.holders.iter().map(|it| it.owner.field().to_owned());
        let asked: Vec<String> = holders.collect();
        let mut standing = Standing {
            core: Arc::clone(self),
            message: ToHolders {
                id: self.attempts.next(),
                by: request.by.clone(),
                token: seen.fencing_token,
                within: request.within,
                preempts: request.preempt.is_some(),
                handed_over: false,
                name: request.name.store_key().to_owned(),
                reason: request.reason.as_str().to_owned(),
                holders: asked.clone(),
            },
            asked,
            request,
            until,
            pause: REPEAT_PAUSE,
            _counted: counted,
        };
        standing.ask_here();
        standing
            .ask_until(until.min(Instant::now() + ANSWER_WITHIN))
            .await?;
        let is_reached = |seen: &HolderSeen| {
            let field = seen.owner.field();
            !standing.message.holders.iter().any(|it| it == field)
        };
        let holders = seen.holders.into_iter().map(|seen| {
            let reached = seen.owner.session.is_some() && is_reached(&seen);
            (seen, reached)
        });
        let answer = YieldRequested {
            name: seen.name,
            holders: holders.collect(),
            holder_count: seen.holder_count,
        };
        let has_reason = standing.asks_all() || standing.request.preempt.is_some();
        if answer.holder_count > 0 && has_reason {
            let stop = self.tasks.stop().clone();
            self.tasks.spawn("yield", async move {
                stop.run_until_cancelled(standing.stand()).await;
            });
        }
        Ok(answer)
    }

    /// Follows a message from another coordinator.
    pub(crate) fn on_message(self: &Arc<Self>, message: &[u8]) {
        if let Some(moved) = Moved::parse(message) {
            self.on_moved(&moved);
            return;
        }
        let Some(message) = ToHolders::parse(message) else {
            return;
        };
        let reached = self.tell_here(&message);
        if reached.is_empty() {
            return;
        }
        let reached: Vec<String> = reached.into_iter().map(str::to_owned).collect();
        let core = Arc::clone(self);
        self.tasks.spawn("reached", async move {
            let ToHolders { id, name, .. } = &message;
            let reached: Vec<&str> = reached.iter().map(String::as_str).collect();
            let retention = message.within.min(YIELD_WITHIN_MAX) + ANSWER_WITHIN;
            // A message that is repeated is answered again.
            if let Err(error) = core
                .scripts
                .holders_reached(name, id, &reached, retention)
                .await
            {
                tracing::debug!(%error, "a request to yield is not answered");
            }
        });
    }

    /// Notifies the holders that have a session here; returns those that were asked to yield.
    fn tell_here<'a>(&self, message: &'a ToHolders) -> Vec<&'a str> {
        let limits = &self.config.limits;
        let public = message.name.strip_prefix(limits.key_prefix.as_ref());
        let Some(name) = public.and_then(|name| LockName::parse(name, limits).ok()) else {
            return Vec::new();
        };
        let within = message.within.min(limits.lease_max.max(YIELD_WITHIN_MAX));
        let until = Instant::now() + within;
        let request = Arc::new(YieldRequest {
            id: message.id.clone(),
            by: message.by.clone(),
            reason: message.reason.clone(),
            until,
            preempts: message.preempts,
        });
        let lost = if message.handed_over {
            LostReason::HandedOver
        } else {
            LostReason::ForceReleased {
                reason: message.reason.as_str().into(),
                closed_until: (!within.is_zero()).then_some(until),
                preempted: message.preempts,
            }
        };
        let mut reached = Vec::new();
        for holder in &message.holders {
            let owner = Owner::from_field(holder);
            let Ok(Some(session)) = self.session_of(&owner) else {
                continue;
            };
            if message.id.is_empty() {
                session.lose_forced(&self.deadlines, &name, message.token, &lost);
            } else if session.ask_to_yield(&name, &owner, message.token, &request) {
                reached.push(holder.as_str());
            }
        }
        reached
    }

    /// Sends a message to the coordinators of these holders. Returns which of them an earlier one
    /// has reached.
    pub(crate) async fn tell_holders(&self, message: &ToHolders) -> Result<Vec<bool>, Error> {
        Ok(self
            .scripts
            .tell_holders(&self.holders_channel, message)
            .await?)
    }
}

// === impl Standing ===

impl Standing {
    /// Asks the holders with a session here. Nothing reaches those without a session.
    fn ask_here(&mut self) {
        let reached = self.core.tell_here(&self.message);
        let reached: Vec<String> = reached.into_iter().map(str::to_owned).collect();
        self.message.holders.retain(|holder| {
            Owner::from_field(holder).session.is_some() && !reached.contains(holder)
        });
    }

    /// Asks the others until all are reached, at most until then. An error says that the first
    /// message was not sent.
    async fn ask_until(&mut self, until: Instant) -> Result<(), Error> {
        let mut is_sent = false;
        while !self.message.holders.is_empty() && Instant::now() < until {
            self.message.within = self.until.saturating_duration_since(Instant::now());
            match self.core.tell_holders(&self.message).await {
                Ok(reached) => {
                    let mut reached = reached.into_iter();
                    self.message
                        .holders
                        .retain(|_| reached.next() != Some(true));
                    is_sent = true;
                }
                Err(error) if !is_sent => return Err(error),
                Err(_) => {}
            }
            if !self.message.holders.is_empty() {
                sleep(
                    self.pause
                        .min(until.saturating_duration_since(Instant::now())),
                )
                .await;
                self.pause = (self.pause * 2).min(self.longest_pause());
            }
        }
        Ok(())
    }

    fn longest_pause(&self) -> Duration {
        let [least, most] = REPEAT_PAUSE_MAX;
        (self.request.within / 10).clamp(least, most)
    }

    /// From now on, the message is to all that were asked and have a session. False if none has.
    fn asks_all(&mut self) -> bool {
        if self.message.holders.is_empty() {
            self.pause = self.longest_pause();
        }
        let asked = self.asked.iter();
        let in_session = asked.filter(|it| Owner::from_field(it.as_str()).session.is_some());
        self.message.holders = in_session.cloned().collect();
        !self.message.holders.is_empty()
    }

    /// Whether none of those that were asked holds the lock any more. If that is not known, they
    /// may.
    async fn is_over(&self) -> bool {
        let Ok(seen) = look(&self.core, &self.request.name, ASKED_MAX).await else {
            return false;
        };
        let is_asked = |it: &HolderSeen| self.asked.iter().any(|asked| asked == it.owner.field());
        let shows_all = seen.holders.len() == seen.holder_count;
        seen.fencing_token != self.message.token
            || (shows_all && !seen.holders.iter().any(is_asked))
    }

    /// Goes on to its end.
    async fn stand(mut self) {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            sleep(self.pause.min(left)).await;
            if Instant::now() >= self.until {
                break;
            }
            if self.is_over().await {
                return;
            }
            self.message.within = self.until.saturating_duration_since(Instant::now());
            if let Err(error) = self.core.tell_holders(&self.message).await {
                tracing::debug!(%error, "a request to yield is not repeated");
            }
            self.pause = (self.pause * 2).min(self.longest_pause());
        }
        if let Some(grace) = self.request.preempt {
            sleep_until(self.until).await;
            self.preempt(grace).await;
        }
    }

    /// Takes the lock from those that were asked, and repeats that until the store answers. If they
    /// no longer hold the lock, it finds nothing to take. So it may be late, by as long as the
    /// request stood.
    async fn preempt(&self, grace: Duration) {
        let RequestYield { name, reason, .. } = &self.request;
        let asked = Asked {
            token: self.message.token,
            holders: &self.asked,
        };
        let force = || async {
            match self.core.force(name, reason, grace, Some(asked)).await {
                Err(Error::Store(error)) => Err(error),
                answer => Ok(answer),
            }
        };
        let at_most = self.request.within.max(YIELD_WITHIN);
        match self.core.until_answered(at_most, force).await {
            Some(Ok(forced)) => {
                let holders = forced.holder_count;
                tracing::info!(%name, holders, by = %self.request.by, "preempted");
            }
            Some(Err(error)) => tracing::warn!(%name, %error, "not preempted"),
            None => tracing::warn!(%name, "not preempted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stands_for_half_a_minute_or_for_at_most_an_hour() {
        let nano = Duration::from_nanos(1);
        let rows = [
            (None, Some(YIELD_WITHIN)),
            (Some(Duration::ZERO), None),
            (Some(nano), Some(nano)),
            (Some(YIELD_WITHIN_MAX), Some(YIELD_WITHIN_MAX)),
            (Some(YIELD_WITHIN_MAX + nano), None),
        ];
        for (asked, expected) in rows {
            assert_eq!(RequestYield::within(asked).ok(), expected, "{asked:?}");
        }
    }
}
