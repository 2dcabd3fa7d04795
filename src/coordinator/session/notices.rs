//! Unsolicited notices of a session. They are state, not a queue, so that a slow listener misses
//! nothing and nothing piles up.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    session::{
        asked::YieldRequest,
        session::{EndedBy, Session},
    },
    types::{Grant, Holding, LostReason, PermitGrant},
};

/// An unsolicited notice to a session.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A grant is no longer held.
    Lost(Box<Grant>, LostReason),
    /// Permits are no longer held.
    PermitsLost(Box<PermitGrant>, LostReason),
    /// The holder of a grant is asked to release it.
    YieldRequested(Box<Grant>, Arc<YieldRequest>),
    /// Renewals are failing; carries the remaining safe window of the grant closest to its end.
    AtRisk(Duration),
    /// No renewal is failing any more: they succeed again, or the grants concerned have ended.
    Recovered,
    /// The coordinator is stopping.
    GoingAway,
}

/// An operator has ended the session, for this reason. All notices have been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedByForce(pub Arc<str>);

// === impl Session ===

impl Session {
    /// Notifies the session that the coordinator is stopping.
    pub(crate) fn go_away(&self) {
        self.state.lock().going_away = true;
        self.news.notify_one();
    }

    /// The next notice; waits until there is one. Notices are derived from the session's state, so
    /// a slow listener misses nothing and nothing piles up. May be dropped at any instant.
    pub async fn notice(&self) -> Result<Notice, EndedByForce> {
        loop {
            if let Some(notice) = self.next_notice() {
                return Ok(notice);
            }
            if let Some(EndedBy::Operator(reason)) = &self.state.lock().ended_by {
                return Err(EndedByForce(Arc::clone(reason)));
            }
            self.news.notified().await;
        }
    }

    fn next_notice(&self) -> Option<Notice> {
        let mut state = self.state.lock();
        if let Some((grant, reason)) = state.lost.pop_front() {
            return Some(match grant {
                Holding::Lock(grant) => Notice::Lost(Box::new(grant), reason),
                Holding::Permits(grant) => Notice::PermitsLost(Box::new(grant), reason),
            });
        }
        if let Some((grant, request)) = state.next_asked() {
            return Some(Notice::YieldRequested(Box::new(grant), request));
        }
        if std::mem::take(&mut state.at_risk) {
            let first = state
                .grants
                .values()
                .map(|held| held.grant.terms().safe_until)
                .min();
            // If nothing is left, the grant was lost meanwhile, and a notice has said so.
            if let Some(until) = first {
                state.told_at_risk = true;
                return Some(Notice::AtRisk(
                    until.saturating_duration_since(Instant::now()),
                ));
            }
        }
        if state.is_safe_again() {
            state.told_at_risk = false;
            return Some(Notice::Recovered);
        }
        std::mem::take(&mut state.going_away).then_some(Notice::GoingAway)
    }
}
