//! Sessions that go on at another coordinator.
//!
//! Each resume is announced to all coordinators, and ends what an earlier one has left elsewhere: a
//! stream there may be broken without a sign, and what it still waits for would be granted to
//! nobody. If the message is missed, the end of that stream is noticed later.
//!
//! A resume has the generation of its token plus one. A message ends sessions of earlier
//! generations, however late it comes. Two resumes with the same token have the same generation,
//! when the answer to the first was lost. Then the message that comes later decides: a coordinator
//! follows such a message once it has heard its own. All hear the messages of one channel in the
//! same order, so one resume stays, and it is the later one unless its own message was overtaken.
//! Where messages arrive twice or in different orders (a quorum, a repeat after an unknown
//! outcome), both may end. Nothing is lost by that: the client resumes again with its latest token,
//! which any coordinator accepts, and whose generation is higher.

use std::sync::{Arc, atomic::Ordering};

use lockkeeper_store::script::Moved;

use crate::{
    core::Core,
    session::session::Session,
    types::{OnDisconnect, SessionId},
};

// === impl Core ===

impl Core {
    /// Announces a resume here to all coordinators, and retries until the store answers.
    pub(crate) fn announce_resume(self: &Arc<Self>, session: &Arc<Session>, generation: u32) {
        // Such a session is never resumed elsewhere.
        if session.on_disconnect == OnDisconnect::Release {
            return;
        }
        let moved = Moved {
            session: session.id.as_str().to_owned(),
            generation,
            from: self.attempts.next(),
        };
        let (core, session) = (Arc::clone(self), Arc::clone(session));
        self.tasks.spawn("moved", async move {
            let (channel, prefix) = (&core.holders_channel, &core.config.limits.key_prefix);
            let announce = || async {
                // The announcement is older than the resume that ended this session.
                if session.has_ended() {
                    return Ok(());
                }
                core.scripts.tell_moved(channel, prefix, &moved).await
            };
            core.until_answered(session.lease, announce).await;
        });
    }

    /// A coordinator has resumed a session.
    pub(crate) fn on_moved(&self, moved: &Moved) {
        let id = SessionId::parse(&moved.session);
        let Some(session) = id.and_then(|id| self.sessions.get(&id).ok()) else {
            return;
        };
        if self.attempts.is_own(&moved.from) {
            session
                .announced
                .fetch_max(moved.generation, Ordering::Relaxed);
        } else if session.on_disconnect == OnDisconnect::Keep
            && session.end_if_moved(&self.deadlines, moved.generation)
        {
            self.sessions.remove(&session);
            tracing::debug!(session = %session.id.digest(), "session resumed elsewhere");
        }
    }
}
