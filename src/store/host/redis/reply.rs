//! What Redis answered, in the host's words.

use std::io;

use bytes::Bytes;
use deadpool_redis::redis::{self, ErrorKind, RedisError, ServerError};

use crate::host::{HostError, Value};

/// Error replies after which nothing has been executed and a later try may succeed. Those that a
/// write inside a script can raise are raised by its first write.
const NOT_NOW: [&str; 9] = [
    "LOADING",
    "BUSY",
    "NOREPLICAS",
    "MASTERDOWN",
    "READONLY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MISCONF",
    "MAXCLIENTS",
];

/// TLS alerts of a server that does not accept the certificate that it was shown.
const OF_OUR_CERTIFICATE: [&str; 7] = [
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "UnknownCA",
    "AccessDenied",
];

/// What Redis 6 puts before the error that a command inside a script raised.
const SCRIPT_ERROR: &str = "Error running script";

/// A script's result. A refusal inside of it counts as a refusal of all.
pub(super) fn value(reply: redis::Value) -> Result<Value, HostError> {
    Ok(match reply {
        redis::Value::Nil | redis::Value::Boolean(false) => Value::Nil,
        redis::Value::Boolean(true) => Value::Int(1),
        redis::Value::Int(number) => Value::Int(number),
        redis::Value::BulkString(bytes) => Value::Bytes(bytes.into()),
        redis::Value::SimpleString(text) => Value::Bytes(text.into()),
        redis::Value::Okay => Value::Bytes(Bytes::from_static(b"OK")),
        redis::Value::Array(items) => {
            Value::Array(items.into_iter().map(value).collect::<Result<_, _>>()?)
        }
        redis::Value::ServerError(error) => return Err(refusal(&error)),
        _ => {
            return Err(HostError::OutcomeUnknown(
                "the answer is of an unexpected kind".into(),
            ));
        }
    })
}

/// A line of what `INFO` answers.
pub(super) fn info_field<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == field)
        .map(|(_, value)| value.trim())
}

/// An error reply.
pub(super) fn refusal(error: &ServerError) -> HostError {
    let (code, message) = unwrapped(error.code(), error.details().unwrap_or_default());
    if code == "OOM" {
        HostError::OutOfMemory
    } else if NOT_NOW.contains(&code) || message.starts_with("max number of clients") {
        HostError::Unavailable(format!("{code} {message}"))
    } else {
        HostError::Rejected {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// Whether the server does not know the script.
pub(super) fn is_unknown_script(error: &HostError) -> bool {
    matches!(error, HostError::Rejected { code, .. } if code == "NOSCRIPT")
}

/// Whether the server does not know the command.
pub(super) fn is_unknown_command(error: &HostError) -> bool {
    matches!(error, HostError::Rejected { message, .. } if message.starts_with("unknown command"))
}

/// Whether another server must have taken over: the address may lead there by now.
pub(super) fn is_demoted(error: &ServerError) -> bool {
    unwrapped(error.code(), error.details().unwrap_or_default()).0 == "READONLY"
}

/// A failure to open a connection: nothing was executed, whatever it was.
pub(super) fn connect_failure(error: &RedisError) -> String {
    if error.is_timeout() {
        "connecting took too long".to_owned()
    } else if error.kind() == ErrorKind::RESP3NotSupported {
        // Redis 6.0 was the first to have it.
        "the server is older than Redis 6; 6.2 or newer is needed".to_owned()
    } else {
        explained(error.to_string())
    }
}

/// What is said of a server that was asked something and is silent.
pub(super) const SILENT: &str = "no answer in time";

/// A failure to ask a server something over a new connection. One that takes no connection is as
/// silent as one that does not answer over it: a failure with another text is logged again.
pub(super) fn asking_failure(error: &RedisError) -> String {
    if error.is_timeout() {
        SILENT.to_owned()
    } else {
        connect_failure(error)
    }
}

/// A failure to open a connection that may be due to TLS on one side only, with a hint.
pub(super) fn hinted(error: RedisError, has_tls: bool) -> RedisError {
    let hint = if has_tls {
        "rediss:// needs a server with TLS"
    } else {
        "a server with TLS needs rediss://"
    };
    let failure = connect_failure(&error);
    let is_likely = if has_tls {
        // A server without TLS waits for the end of a command.
        error.is_timeout() || failure.contains("InvalidContentType")
    } else {
        error.is_connection_dropped() && !error.is_connection_refusal()
    };
    if is_likely {
        return io::Error::other(format!("{failure}: {hint}")).into();
    }
    error
}

/// Whether two failures differ in nothing but numbers: those of TLS contain the time.
pub(super) fn is_same_failure(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        text.split(|it: char| it.is_ascii_digit())
            .collect::<String>()
    };
    words(one) == words(other)
}

/// What a server's TLS alerts mean to those who only know the server's address.
fn explained(failure: String) -> String {
    const ALERT: &str = "received fatal alert: ";
    let alert = failure.split_once(ALERT).map_or("", |(_, alert)| alert);
    if OF_OUR_CERTIFICATE.iter().any(|it| alert.starts_with(it)) {
        return format!("the server refuses our certificate (store.tls.certificate_file): {alert}");
    }
    if alert.starts_with("CertificateRequired") || alert.starts_with("HandshakeFailure") {
        return format!(
            "{failure}: the server may want a certificate (store.tls.certificate_file)"
        );
    }
    failure
}

/// Redis 7 passes the code of an error inside a script on. Redis 6 wraps it: `ERR Error running
/// script (call to f_…): @user_script:1: WRONGTYPE Operation …`, some codes with a `-` before them.
fn unwrapped<'a>(code: &'a str, message: &'a str) -> (&'a str, &'a str) {
    if !message.starts_with(SCRIPT_ERROR) {
        return (code, message);
    }
    let raised = message
        .rfind("@user_script:")
        .map_or("", |at| &message[at..]);
    let raised = raised
        .splitn(3, ':')
        .nth(2)
        .unwrap_or_default()
        .trim_start();
    let (inner, rest) = raised.split_once(' ').unwrap_or((raised, ""));
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    if inner.len() > 2 && inner.bytes().all(|byte| byte.is_ascii_uppercase()) {
        (inner, rest)
    } else {
        (code, message)
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::parse_redis_value;

    use super::*;

    fn reply(text: &str) -> Result<Value, HostError> {
        value(parse_redis_value(text.as_bytes()).unwrap())
    }

    #[test]
    fn results_are_converted() {
        let nested = "*4\r\n:7\r\n$3\r\nabc\r\n+OK\r\n*1\r\n_\r\n";
        let expected = Value::Array(vec![
            Value::Int(7),
            Value::Bytes("abc".into()),
            Value::Bytes("OK".into()),
            Value::Array(vec![Value::Nil]),
        ]);
        assert_eq!(reply(nested), Ok(expected));
        assert_eq!(reply("#t\r\n"), Ok(Value::Int(1)));
        assert_eq!(reply("#f\r\n"), Ok(Value::Nil));
        assert!(matches!(reply("%0\r\n"), Err(HostError::OutcomeUnknown(_))));
    }

    #[test]
    fn refusals_are_distinguished() {
        for code in NOT_NOW {
            assert!(matches!(
                reply(&format!("-{code} why\r\n")),
                Err(HostError::Unavailable(_))
            ));
        }
        assert!(matches!(
            reply("-ERR max number of clients reached\r\n"),
            Err(HostError::Unavailable(_))
        ));
        assert_eq!(
            reply("-OOM command not allowed\r\n"),
            Err(HostError::OutOfMemory)
        );
        for (text, code, message) in [
            (
                "-WRONGTYPE Operation against\r\n",
                "WRONGTYPE",
                "Operation against",
            ),
            ("-ERR unknown\r\n", "ERR", "unknown"),
            ("-ODD\r\n", "ODD", ""),
            ("*1\r\n-WRONGTYPE inside\r\n", "WRONGTYPE", "inside"),
        ] {
            let expected = HostError::Rejected {
                code: code.into(),
                message: message.into(),
            };
            assert_eq!(reply(text), Err(expected));
        }
    }

    #[test]
    fn an_alert_about_our_certificate_says_whose_it_is() {
        let of = |text: &str| explained(format!("received fatal alert: {text} - IoError"));
        for alert in ["CertificateExpired", "UnknownCA", "BadCertificate"] {
            let text = of(alert);
            assert!(
                text.contains(alert) && text.contains("our certificate"),
                "{text}"
            );
        }
        assert!(of("CertificateRequired").contains("store.tls.certificate_file"));
        assert!(!of("InternalError").contains("certificate_file"));
        assert_eq!(explained("refused".to_owned()), "refused");
    }

    #[test]
    fn tls_on_one_side_only_is_hinted_at_where_it_may_be_the_cause() {
        let of = |kind: io::ErrorKind, has_tls| {
            let error = io::Error::from(kind).into();
            connect_failure(&hinted(error, has_tls))
        };
        let timeout = of(io::ErrorKind::TimedOut, true);
        assert!(timeout.starts_with("connecting took too long: rediss://"));
        assert!(of(io::ErrorKind::ConnectionReset, false).ends_with("needs rediss://"));
        assert!(of(io::ErrorKind::UnexpectedEof, false).ends_with("needs rediss://"));
        for (kind, has_tls) in [
            (io::ErrorKind::TimedOut, false),
            (io::ErrorKind::ConnectionReset, true),
            (io::ErrorKind::ConnectionRefused, true),
            (io::ErrorKind::ConnectionRefused, false),
        ] {
            assert!(!of(kind, has_tls).contains("rediss"), "{kind:?}");
        }
    }

    #[test]
    fn a_failure_whose_numbers_differ_is_the_same() {
        let expired = |at: u64| format!("certificate expired: verified at {at} (UNIX)");
        assert!(is_same_failure(&expired(99), &expired(100)));
        assert!(!is_same_failure("refused", &expired(99)));
    }

    #[test]
    fn errors_that_redis_6_wraps_are_unwrapped() {
        let wrapped =
            |inner: &str| format!("-ERR Error running script (call to f_ab): {inner}\r\n");
        assert_eq!(
            reply(&wrapped(
                "@user_script:3: @user_script: 3: -OOM command not allowed"
            )),
            Err(HostError::OutOfMemory)
        );
        assert!(matches!(
            reply(&wrapped(
                "@user_script:3: @user_script: 3: -READONLY You can't write"
            )),
            Err(HostError::Unavailable(_))
        ));
        assert!(matches!(
            reply(&wrapped("@user_script:1: WRONGTYPE Operation")),
            Err(HostError::Rejected { code, .. }) if code == "WRONGTYPE"
        ));
        assert!(matches!(
            reply(&wrapped("@user_script:1: attempt to call nil")),
            Err(HostError::Rejected { code, .. }) if code == "ERR"
        ));
    }
}
