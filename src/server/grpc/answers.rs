//! The answers of one waiting call, as a stream that tonic reads.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use lockkeeper_coordinator::{Answer, Error, MailboxReader};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    status::{status, unexpected_answer},
    viewer::Viewer,
};

/// Converts an answer to one of the RPC; none if the RPC has no such answer. A grant counts as
/// delivered from there on.
pub(super) type Convert<T> = fn(Answer) -> Result<Option<T>, Error>;

/// The answers of one call that may wait.
#[derive(Debug)]
pub(super) struct Answers<T> {
    from: MailboxReader<Answer>,
    convert: Convert<T>,
    viewer: Viewer,
    ended: bool,
}

// === impl Answers ===

impl<T> Answers<T> {
    pub(super) fn new(from: MailboxReader<Answer>, convert: Convert<T>, viewer: Viewer) -> Self {
        Self {
            from,
            convert,
            viewer,
            ended: false,
        }
    }
}

impl<T> Stream for Answers<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let answer = ready!(self.from.poll_recv(cx));
        self.ended = !answer.as_ref().is_some_and(Answer::is_about_wait);
        let converted = match answer {
            Some(answer) => self.viewer.allowed(answer).and_then(self.convert),
            None => Err(Error::Draining),
        };
        Poll::Ready(Some(match converted {
            Ok(answer) => answer.ok_or_else(unexpected_answer),
            Err(error) => Err(status(&error)),
        }))
    }
}
