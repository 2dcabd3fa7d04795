//! The end of a session: what is asked of the coordinator, and what everybody is told who still
//! waits for something.

use std::time::Duration;

use lockkeeper_api::pb::{CloseSession, LostReason, session_request::Request};
use tokio::{sync::oneshot, time::Instant};

use super::{
    SessionEvent, SessionState,
    command::{Answer, Command},
    connection::Connection,
    driver::{Driver, frame},
};
use crate::{Error, guard::Loss};

/// How long the end of a session may take before its grants are left to their leases.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The session is being ended.
pub(super) struct Closing {
    pub(super) until: Instant,
    pub(super) is_sent: bool,
    /// Nobody has answered.
    is_late: bool,
    done: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Driver {
    pub(super) fn close(&mut self, now: Instant, done: Vec<oneshot::Sender<Result<(), Error>>>) {
        self.closing = Some(Closing {
            until: now + CLOSE_TIMEOUT,
            is_sent: false,
            is_late: false,
            done,
        });
        self.send_close();
    }

    pub(super) fn send_close(&mut self) {
        if let (Some(closing), Connection::Up { link, .. }) = (&mut self.closing, &self.connection)
        {
            closing.is_sent = true;
            link.send(frame(0, Request::Close(CloseSession {})));
        }
    }

    /// No coordinator has answered in time.
    pub(super) fn meet_closing_deadline(&mut self, now: Instant) {
        if let Some(closing) = &mut self.closing
            && closing.until <= now
        {
            closing.is_late = true;
            self.end("it was closed, and no coordinator has answered");
        }
    }

    pub(super) fn end(&mut self, why: &str) {
        self.ended.get_or_insert_with(|| why.to_owned());
    }

    /// The session is over: nothing is held, and whatever waits for an answer gets none.
    pub(super) fn finish(self) {
        let Self {
            mut book,
            operations,
            releases,
            ended,
            state,
            events,
            closing,
            mut commands,
            ..
        } = self;
        let cause = ended.unwrap_or_default();
        let error = Error::SessionEnded(cause.clone());
        let holdings: Vec<u64> = book.holdings.keys().copied().collect();
        let loss = Loss {
            reason: LostReason::Unspecified,
            detail: error.to_string(),
        };
        for id in holdings {
            book.lose(id, &loss);
        }
        let _ = state.send(SessionState::Ended);
        let _ = events.send(SessionEvent::Ended { cause });
        let refuse = |answer: Option<oneshot::Sender<Result<Answer, Error>>>| {
            if let Some(answer) = answer {
                let _ = answer.send(Err(error.clone()));
            }
        };
        for operation in operations.into_values() {
            refuse(operation.answer);
        }
        for answer in releases.into_values().filter_map(|it| it.answer) {
            let _ = answer.send(Err(error.clone()));
        }
        commands.close();
        while let Ok(command) = commands.try_recv() {
            match command {
                Command::Ask(ask) => refuse(Some(ask.answer)),
                Command::Release(_, Some(answer)) => {
                    let _ = answer.send(Err(error.clone()));
                }
                Command::Release(_, None) | Command::Abandon(_) | Command::Close(_) => {}
            }
        }
        if let Some(closing) = closing {
            for done in closing.done {
                let _ = done.send(if closing.is_late {
                    Err(error.clone())
                } else {
                    Ok(())
                });
            }
        }
    }
}
