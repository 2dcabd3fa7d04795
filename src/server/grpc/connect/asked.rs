//! What a request asks for, by its head.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use prost_reflect::MethodDescriptor;
use tonic::{Status, body::Body};

use super::{schema, state_lock::StateLock};
use crate::grpc::status;

/// `grpc-timeout` has at most 8 digits.
const MILLIS_MAX: u64 = 99_999_999;

const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const STREAM_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What gRPC would understand otherwise than it was meant.
const NOT_OF_GRPC: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    GRPC_TIMEOUT,
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    TIMEOUT,
];

/// How the messages of a call are written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codec {
    /// Those of this method as JSON.
    Json(Arc<MethodDescriptor>),
    Proto,
    /// As Terraform writes them.
    StateLock(StateLock),
}

/// How a body is divided into messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    /// A body is one message.
    Whole,
    /// The request is one message, each answer is a line.
    Lines,
    /// Each message is an envelope.
    Envelopes,
}

/// A call to translate; in the request's extensions.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Asked {
    pub(super) codec: Codec,
    pub(super) framing: Framing,
    pub(super) timeout: Option<Duration>,
}

/// A request that cannot be translated.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: Status,
    pub(super) http: StatusCode,
}

// === impl Asked ===

impl Asked {
    /// Reads the head of a request.
    pub(super) fn of(request: &Request<Body>) -> Result<Self, Refused> {
        let (path, headers) = (request.uri().path(), request.headers());
        let method = schema::method(path)
            .ok_or_else(|| Refused::with(status::no_such_method(path), StatusCode::NOT_FOUND))?;
        if request.method() != Method::POST {
            let status = status::not_post(request.method());
            return Err(Refused::with(status, StatusCode::METHOD_NOT_ALLOWED));
        }
        let (codec, framing) = written(method, headers)?;
        for name in [header::CONTENT_ENCODING, STREAM_ENCODING] {
            only(headers, &name, "identity")?;
        }
        only(headers, &VERSION, "1")?;
        Ok(Self {
            codec,
            framing,
            timeout: timeout(headers)?,
        })
    }

    /// The same of a request for a lock of Terraform; none of others.
    pub(super) fn of_state_lock(request: &Request<Body>) -> Option<Result<Self, Refused>> {
        let call = StateLock::of(request)?;
        let asked = call.map(|call| Self {
            codec: Codec::StateLock(call),
            framing: Framing::Whole,
            timeout: None,
        });
        Some(asked.map_err(|(status, http)| Refused::with(status, http)))
    }

    /// Whether the body of the request is one message, without bytes in front of it.
    pub(in crate::grpc) fn is_whole(&self) -> bool {
        self.framing != Framing::Envelopes
    }

    /// The timeout as gRPC has it.
    fn grpc_timeout(&self) -> Option<HeaderValue> {
        let millis = u64::try_from(self.timeout?.as_millis()).unwrap_or(u64::MAX);
        let text = match millis {
            ..=MILLIS_MAX => format!("{millis}m"),
            _ => format!("{}S", millis / 1000),
        };
        HeaderValue::try_from(text).ok()
    }
}

/// Makes a request one of gRPC by its head. Its body is translated later, if at all.
pub(super) fn make_grpc(request: &mut Request<Body>, asked: Option<&Asked>) {
    if let Some(Codec::StateLock(call)) = asked.map(|asked| &asked.codec) {
        call.rewrite(request);
    }
    *request.version_mut() = http::Version::HTTP_2;
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    for name in &NOT_OF_GRPC {
        headers.remove(name);
    }
    let kind = HeaderValue::from_static("application/grpc");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    if let Some(timeout) = asked.and_then(Asked::grpc_timeout) {
        headers.insert(GRPC_TIMEOUT, timeout);
    }
}

/// How the messages of a call are written, by its content type.
fn written(
    method: Arc<MethodDescriptor>,
    headers: &HeaderMap,
) -> Result<(Codec, Framing), Refused> {
    let given = text(headers, &header::CONTENT_TYPE);
    let kind = given.split(';').next().unwrap_or_default().trim();
    let is_stream = method.is_client_streaming() || method.is_server_streaming();
    match kind.to_ascii_lowercase().as_str() {
        "application/json" if !is_stream => Ok((Codec::Json(method), Framing::Whole)),
        "application/json" if !method.is_client_streaming() => {
            Ok((Codec::Json(method), Framing::Lines))
        }
        "application/proto" if !is_stream => Ok((Codec::Proto, Framing::Whole)),
        "application/connect+json" if is_stream => Ok((Codec::Json(method), Framing::Envelopes)),
        "application/connect+proto" if is_stream => Ok((Codec::Proto, Framing::Envelopes)),
        _ => {
            let accepted = match (method.is_client_streaming(), is_stream) {
                (_, false) => "application/json",
                (false, true) => "application/json or application/connect+json",
                (true, true) => "application/connect+json",
            };
            let why = format!("{given:?} is not accepted: send {accepted}");
            let status = status::invalid_header(header::CONTENT_TYPE.as_str(), &why);
            Err(Refused::with(status, StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
    }
}

fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refused> {
    let Some(value) = headers.get(TIMEOUT) else {
        return Ok(None);
    };
    let digits = value.as_bytes();
    let is_number = (1..=10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let millis = value.to_str().ok().and_then(|text| text.parse().ok());
    let millis = millis.filter(|_| is_number).ok_or_else(|| {
        let why = "must be a number of milliseconds of at most 10 digits";
        Refused::header(&TIMEOUT, why)
    })?;
    Ok(Some(Duration::from_millis(millis)))
}

/// A header that may be absent or have this value.
fn only(headers: &HeaderMap, name: &HeaderName, value: &str) -> Result<(), Refused> {
    match text(headers, name) {
        "" => Ok(()),
        given if given.eq_ignore_ascii_case(value) => Ok(()),
        given => {
            let why = format!("{given:?} is not accepted: send {value:?} or leave it out");
            Err(Refused::header(name, &why))
        }
    }
}

/// A header's text; empty if there is none.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

// === impl Refused ===

impl Refused {
    pub(super) fn with(status: Status, http: StatusCode) -> Self {
        Self { status, http }
    }

    fn header(name: &HeaderName, why: &str) -> Self {
        let status = status::invalid_header(name.as_str(), why);
        Self::with(status, StatusCode::BAD_REQUEST)
    }
}
