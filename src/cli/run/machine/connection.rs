//! The connection: open, resume, try again.

use std::time::Duration;

use tokio::time::Instant;

use super::{Action, Held, LinkState, Machine, Phase};
use crate::{
    cli::{exit, failure::Failure},
    grpc::pb::{
        OnDisconnect, OpenSession, ResumeSession, SessionRequest, session_request::Request,
    },
};

/// Between two attempts to resume a session.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How long the first attempt may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(6);

/// How long an attempt to resume may take; a coordinator that does not answer may hide one that would.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);

/// A wait whose stream broke may take this long beyond its limit, because a grant may have been lost with the stream.
const RESUME_GRACE: Duration = Duration::from_secs(2);

impl Machine {
    /// Opens a session, or resumes the one there is.
    pub(super) fn connect(&mut self, now: Instant) {
        let (request, timeout) = match &self.session {
            None => {
                let open = OpenSession {
                    lease: self.plan.lease.and_then(|lease| lease.try_into().ok()),
                    client_name: self.plan.client_name.clone(),
                    // The command goes on when the stream breaks, so the lock must too.
                    on_disconnect: OnDisconnect::Keep.into(),
                };
                (Request::Open(open), OPEN_TIMEOUT)
            }
            Some(session) => {
                let resume = ResumeSession {
                    session_id: session.session_id.clone(),
                    resume_token: session.resume_token.clone(),
                    // Whatever else was granted, to a wait whose stream broke, is released by not naming it.
                    grants: self.held.as_ref().map(Held::grants).unwrap_or_default(),
                    permits: self.held.as_ref().map(Held::permits).unwrap_or_default(),
                };
                (Request::Resume(resume), RESUME_TIMEOUT)
            }
        };
        let first = SessionRequest {
            op_id: 0,
            request: Some(request),
            ..SessionRequest::default()
        };
        self.link = LinkState::Opening {
            sent_at: now,
            until: now + timeout,
        };
        self.actions.push(Action::Connect(first));
    }

    pub(super) fn meet_link_deadlines(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        match self.link {
            LinkState::Opening { until, .. } if until <= now => {
                self.on_link_ended(
                    now,
                    Some(Failure::unavailable("the coordinator does not answer")),
                );
            }
            LinkState::Down { retry_at } if retry_at <= now => self.connect(now),
            _ => {}
        }
    }

    pub(super) fn on_link_ended(&mut self, now: Instant, failure: Option<Failure>) {
        let was_up = matches!(self.link, LinkState::Up);
        self.actions.push(Action::Disconnect);
        // The first retry comes at once: most streams break because a proxy or a coordinator was restarted.
        let retry_at = if was_up { now } else { now + RETRY_INTERVAL };
        self.link = LinkState::Down { retry_at };
        if let Some(held) = &mut self.held {
            for item in &mut held.items {
                item.renewing = None;
            }
        }
        let ended_well = was_up && failure.is_none();
        let is_refused = failure.as_ref().is_some_and(|failure| failure.is_final);
        let why =
            failure.unwrap_or_else(|| Failure::unavailable("the coordinator ended the stream"));
        match self.phase {
            // The end that was asked for, or a session that has ended already. One that breaks instead is resumed, to be ended.
            Phase::Closing { code, asked, .. } if is_refused || (asked && ended_well) => {
                self.end(code);
            }
            Phase::Waiting { .. } if self.session.is_none() => {
                self.say(why.message);
                self.end(why.exit);
            }
            Phase::Waiting { .. } => self.wait_on(now, &why),
            Phase::Confirming { .. } | Phase::Running => self.say_broken(now, &why),
            _ => {}
        }
        // So that what must not take any time does not wait for a tick.
        self.meet_link_deadlines(now);
    }

    /// The wait has ended with its stream; it starts anew on another.
    fn wait_on(&mut self, now: Instant, why: &Failure) {
        if why.is_final {
            self.session = None;
        }
        let lease = self.session.as_ref().and_then(|session| session.lease);
        let lease = lease
            .and_then(|lease| lease.try_into().ok())
            .unwrap_or(RESUME_GRACE);
        let patience = self.wait_until.map_or(lease, |until| {
            lease.min(until.saturating_duration_since(now).max(RESUME_GRACE))
        });
        if let Phase::Waiting { give_up_at, .. } = &mut self.phase
            && give_up_at.is_none()
        {
            *give_up_at = Some(now + patience);
        }
        if !self.said_broken {
            self.said_broken = true;
            self.say(format!("connection lost while waiting: {}", why.message));
        }
    }

    fn say_broken(&mut self, now: Instant, why: &Failure) {
        if self.said_broken {
            return;
        }
        self.said_broken = true;
        let left = self.validity();
        let left = left.map_or(Duration::ZERO, |it| it.until.saturating_duration_since(now));
        self.say(format!(
            "connection lost: {}; held for sure for {:.1} s more, trying to resume",
            why.message,
            left.as_secs_f64()
        ));
    }

    /// The wait cannot go on; there is nothing to give back that closing would not.
    pub(super) fn refuse_wait(&mut self, now: Instant, failure: Failure) {
        if failure.reason == "DRAINING" {
            // Another coordinator, or this one after its restart, may have the session resumed and the wait start anew.
            self.on_link_ended(now, Some(Failure::unavailable(failure.message)));
            return;
        }
        let code = if failure.exit == exit::OK {
            exit::INTERNAL
        } else {
            failure.exit
        };
        self.say(failure.message);
        self.close(now, code);
    }
}
