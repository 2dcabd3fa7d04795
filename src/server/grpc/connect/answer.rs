//! Translates the answer of a call back.

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status, body::Body};
use tower::BoxError;

use super::{
    asked::{Asked, Codec, Framing},
    envelopes::{END, Envelopes, MESSAGE, enveloped},
    failure::{End, Failure, http},
    schema,
};
use crate::grpc::status;

/// The answers of a stream.
struct Answers<B> {
    /// None: the last message was sent.
    body: Option<B>,
    asked: Asked,
    ends_at: Option<Instant>,
    read: Envelopes,
}

/// An answer to the request as a whole.
pub(super) fn refusal(status: &Status, code: Option<StatusCode>) -> Response<Body> {
    let body = json(&Failure::from(status));
    let code = code.unwrap_or_else(|| http(status.code()));
    response(code, "application/json", Body::new(Full::from(body)))
}

/// The answer of a unary call.
pub(super) async fn whole<B>(asked: &Asked, answer: Response<B>) -> Result<Response<Body>, Status>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = answer.into_parts();
    ended_by(&head.headers)?;
    let collected = body.collect().await;
    let collected = collected.map_err(|error| Status::from_error(error.into()))?;
    let end = collected.trailers().cloned().unwrap_or_default();
    ended_by(&end)?;
    let mut read = Envelopes::default();
    read.push(&collected.to_bytes());
    let (_, message) = read.next().ok_or_else(status::unexpected_answer)?;
    let (code, message) = match &asked.codec {
        Codec::StateLock(call) => call.answer(&message)?,
        _ => (StatusCode::OK, asked.written(&message)?),
    };
    let body = Body::new(Full::from(message));
    Ok(response(code, asked.codec.kind(), body))
}

/// The answers of a call with a stream of them. Its errors are in the last message.
pub(super) fn streamed<B>(
    asked: Asked,
    answer: Response<B>,
    ends_at: Option<Instant>,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let (head, body) = answer.into_parts();
    let refused = ended_by(&head.headers);
    let kind = match (asked.framing, &asked.codec) {
        (Framing::Envelopes, Codec::Proto) => "application/connect+proto",
        (Framing::Envelopes, _) => "application/connect+json",
        (Framing::Lines | Framing::Whole, _) => "application/x-ndjson",
    };
    let body = match refused {
        Err(status) if asked.framing == Framing::Lines => return refusal(&status, None),
        Err(status) => Body::new(Full::from(asked.ended(Some(&status)))),
        Ok(()) => {
            let answers = Answers {
                body: Some(body),
                asked,
                ends_at,
                read: Envelopes::default(),
            };
            let frames = stream::unfold(answers, |mut it| async {
                let bytes = it.next().await?;
                Some((Ok::<_, Status>(Frame::data(bytes)), it))
            });
            Body::new(StreamBody::new(frames))
        }
    };
    response(StatusCode::OK, kind, body)
}

// === impl Codec ===

impl Codec {
    /// The content type of a whole message.
    fn kind(&self) -> &'static str {
        match self {
            Self::Json(_) | Self::StateLock(_) => "application/json",
            Self::Proto => "application/proto",
        }
    }
}

// === impl Asked ===

impl Asked {
    /// A message as this call has it.
    fn written(&self, message: &[u8]) -> Result<Bytes, Status> {
        Ok(match &self.codec {
            Codec::Json(method) => schema::to_json(&method.output(), message)?.into(),
            Codec::Proto | Codec::StateLock(_) => Bytes::copy_from_slice(message),
        })
    }

    /// The end of a stream of answers.
    fn ended(&self, refused: Option<&Status>) -> Bytes {
        let error = refused.map(Failure::from);
        match (self.framing, error) {
            (Framing::Envelopes, error) => enveloped(END, &json(&End { error })),
            (_, None) => Bytes::new(),
            (_, error) => line(&json(&End { error })),
        }
    }
}

// === impl Answers ===

impl<B> Answers<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    /// The messages that have come, or the end; none after it.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let body = self.body.as_mut()?;
            let frame = match self.ends_at {
                None => Ok(body.frame().await),
                Some(at) => timeout_at(at, body.frame()).await,
            };
            let ended = match frame {
                Err(_elapsed) => Err(status::deadline_exceeded()),
                Ok(None) => Err(status::unexpected_answer()),
                Ok(Some(Err(error))) => Err(Status::from_error(error.into())),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => match self.written(&data) {
                        Ok(messages) if messages.is_empty() => continue,
                        Ok(messages) => return Some(messages),
                        Err(status) => Err(status),
                    },
                    Err(frame) => ended_by(frame.trailers_ref().unwrap_or(&HeaderMap::new())),
                },
            };
            // Cancels the call, if it has not ended.
            self.body = None;
            return Some(self.asked.ended(ended.err().as_ref()));
        }
    }

    fn written(&mut self, data: &[u8]) -> Result<Bytes, Status> {
        self.read.push(data);
        let mut written = Vec::new();
        while let Some((_, message)) = self.read.next() {
            let message = self.asked.written(&message)?;
            written.extend(match self.asked.framing {
                Framing::Envelopes => enveloped(MESSAGE, &message),
                Framing::Lines | Framing::Whole => line(&message),
            });
        }
        Ok(written.into())
    }
}

/// Fails if the call has ended with an error.
fn ended_by(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

fn response(code: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn line(message: &[u8]) -> Bytes {
    [message, b"\n"].concat().into()
}
