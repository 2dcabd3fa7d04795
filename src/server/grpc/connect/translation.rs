//! Translates the body of a request to gRPC, behind the layers that limit it.

use bytes::Bytes;
use futures::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tonic::{Status, body::Body};

use super::{
    asked::{Asked, Codec},
    envelopes::{Envelopes, MESSAGE, enveloped},
    schema,
};
use crate::grpc::{check::Check, status};

/// The answer to a request that cannot be translated; in its extensions.
#[derive(Clone, Debug)]
pub(super) struct RefusedWith(pub(super) Status);

/// Translates bodies of requests that have an [`Asked`], and answers those that are refused.
#[derive(Clone, Copy, Debug)]
pub struct Translate;

/// A body that is being translated.
struct Translated {
    body: Body,
    asked: Asked,
    read: Envelopes,
    has_ended: bool,
}

// === impl Translate ===

impl Check for Translate {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Status> {
        if let Some(RefusedWith(status)) = request.extensions_mut().remove() {
            return Err(status);
        }
        if let Some(asked) = request.extensions_mut().remove() {
            let body = std::mem::take(request.body_mut());
            *request.body_mut() = Translated::body(body, asked);
        }
        Ok(())
    }
}

// === impl Translated ===

impl Translated {
    fn body(body: Body, asked: Asked) -> Body {
        let translated = Self {
            body,
            asked,
            read: Envelopes::default(),
            has_ended: false,
        };
        let frames = stream::try_unfold(translated, |mut it| async {
            let message = it.next().await?;
            Ok::<_, Status>(message.map(|message| (Frame::data(message), it)))
        });
        Body::new(StreamBody::new(frames))
    }

    /// The next message in gRPC's envelope.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if self.asked.is_whole() {
            return self.whole().await;
        }
        loop {
            if let Some((flags, message)) = self.read.next() {
                if flags != MESSAGE {
                    return Err(status::bad_envelope(flags));
                }
                return self.message(&message).map(Some);
            }
            match self.data().await? {
                Some(data) => self.read.push(&data),
                None if self.read.has_begun() => return Err(status::cut_envelope()),
                None => return Ok(None),
            }
        }
    }

    /// The body as one message, once.
    async fn whole(&mut self) -> Result<Option<Bytes>, Status> {
        if self.has_ended {
            return Ok(None);
        }
        let mut whole = Vec::new();
        while let Some(data) = self.data().await? {
            whole.extend_from_slice(&data);
        }
        self.has_ended = true;
        self.message(&whole).map(Some)
    }

    async fn data(&mut self) -> Result<Option<Bytes>, Status> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn message(&self, message: &[u8]) -> Result<Bytes, Status> {
        Ok(match &self.asked.codec {
            Codec::Proto => enveloped(MESSAGE, message),
            Codec::Json(method) => {
                let message = schema::from_json(&method.input(), message)?;
                enveloped(MESSAGE, &message)
            }
            Codec::StateLock(call) => enveloped(MESSAGE, &call.message(message)),
        })
    }
}
