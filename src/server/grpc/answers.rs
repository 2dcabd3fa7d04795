//! The answers of one waiting call, as a stream that tonic reads.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use lockkeeper_coordinator::{Answer, Error, MailboxReader};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    convert, multi, pb,
    status::{status, unexpected_answer},
};

/// The answers of one `Acquire` or `AcquireAll`.
#[derive(Debug)]
pub(super) struct Answers<T> {
    from: MailboxReader<Answer>,
    convert: fn(Answer) -> Said<T>,
    ended: bool,
}

/// An answer, and whether others follow.
pub(super) enum Said<T> {
    Waiting(T),
    Last(Result<T, Status>),
}

// === impl Answers ===

impl<T> Answers<T> {
    pub(super) fn new(from: MailboxReader<Answer>, convert: fn(Answer) -> Said<T>) -> Self {
        Self {
            from,
            convert,
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
        let said = match ready!(self.from.poll_recv(cx)) {
            Some(answer) => (self.convert)(answer),
            None => Said::Last(Err(status(&Error::Draining))),
        };
        Poll::Ready(Some(match said {
            Said::Waiting(answer) => Ok(answer),
            Said::Last(answer) => {
                self.ended = true;
                answer
            }
        }))
    }
}

/// An answer of `Acquire`. A grant counts as delivered from here on.
pub(super) fn acquire(answer: Answer) -> Said<pb::AcquireResponse> {
    use pb::acquire_response::Event;
    let said = |event| pb::AcquireResponse { event: Some(event) };
    Said::Last(match answer {
        Answer::Waiting(waiting) => {
            return Said::Waiting(said(Event::Waiting(convert::waiting(waiting))));
        }
        Answer::Granted(delivery) => delivery
            .take()
            .map(|grant| said(Event::Granted(convert::grant(&grant))))
            .map_err(|error| status(&error)),
        Answer::NotGranted(ended) => Ok(said(Event::NotGranted(convert::not_granted(ended)))),
        Answer::Failed(error) => Err(status(&error)),
        _ => Err(unexpected_answer()),
    })
}

/// An answer of `AcquireAll`. The grants count as delivered from here on.
pub(super) fn acquire_all(answer: Answer) -> Said<pb::AcquireAllResponse> {
    use pb::acquire_all_response::Event;
    let said = |event| pb::AcquireAllResponse { event: Some(event) };
    Said::Last(match answer {
        Answer::WaitingForAll(name, waiting) => {
            return Said::Waiting(said(Event::Waiting(multi::waiting(&name, waiting))));
        }
        Answer::GrantedAll(delivery) => {
            multi::granted(delivery).map(|granted| said(Event::Granted(granted)))
        }
        Answer::NotGranted(ended) => Ok(said(Event::NotGranted(convert::not_granted(ended)))),
        Answer::Failed(error) => Err(status(&error)),
        _ => Err(unexpected_answer()),
    })
}
