//! Access that is taken away ends at once: open streams and connections, too.

use std::time::SystemTime;

use lockkeeper_api::pb::{
    lock_service_client::LockServiceClient, session_request::Request as Asked,
};
use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::UnixTime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming, transport::Channel};

use super::{Authority, PATIENCE, try_acquire};
use crate::prelude::*;

const OLD: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// A session that holds one lock.
pub(super) struct Open {
    frames: mpsc::Sender<pb::SessionRequest>,
    answers: Streaming<pb::SessionResponse>,
}

pub(super) async fn open(channel: &Channel, token: Option<&str>, name: &str) -> Open {
    let (frames, sent) = mpsc::channel(8);
    let frame = |op_id, request| pb::SessionRequest {
        op_id,
        request: Some(request),
        ..Default::default()
    };
    let first = Asked::Open(pb::OpenSession::default());
    frames.send(frame(0, first)).await.unwrap();
    let lock = Asked::TryAcquire(try_request(name, ""));
    frames.send(frame(1, lock)).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(sent));
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let mut api = LockServiceClient::new(channel.clone());
    let mut answers = api.session(request).await.unwrap().into_inner();
    loop {
        let answer = answers.message().await.unwrap().unwrap().response.unwrap();
        if let Response::Tried(tried) = answer {
            assert!(tried.acquired);
            break;
        }
    }
    Open { frames, answers }
}

/// The end of a stream: whether it was announced, and its status.
pub(super) async fn end(mut open: Open) -> (bool, Status) {
    let mut was_announced = false;
    let ended = async {
        loop {
            match open.answers.message().await {
                Ok(Some(frame)) => {
                    was_announced |= matches!(frame.response, Some(Response::GoingAway(_)));
                }
                Ok(None) => panic!("it ended as if nothing was wrong"),
                Err(status) => return status,
            }
        }
    };
    let status = timeout(PATIENCE, ended).await.expect("it ends");
    (was_announced, status)
}

#[tokio::test]
async fn a_token_that_is_removed_ends_its_streams_and_leaves_its_grants_their_lease() {
    let authority = Authority::new();
    let both = format!("alice {OLD}\nbob {OTHER}\n");
    let file = authority.file("tokens", &both);
    let settings = authority
        .settings()
        .with("auth.token_file", &file.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let channel = authority.connect(&coordinator, None).await.unwrap();
    let mut bob = open(&channel, Some(OTHER), "other").await;
    let alice = open(&channel, Some(OLD), "held").await;
    authority.file("tokens", &format!("bob {OTHER}\n"));
    let (was_announced, status) = end(alice).await;
    assert!(was_announced, "{status:?}");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    // What she held is hers for as long as was promised.
    let taken = try_acquire(&channel, "held", "x", Some(OTHER)).await;
    assert!(!taken.unwrap());
    // The stream of one whose token stays goes on.
    let again = Asked::TryAcquire(try_request("other", ""));
    let again = pb::SessionRequest {
        op_id: 2,
        request: Some(again),
        ..Default::default()
    };
    bob.frames.send(again).await.unwrap();
    let answer = bob.answers.message().await.unwrap().unwrap().response;
    assert!(matches!(answer, Some(Response::Tried(tried)) if tried.acquired));
}

/// Its rules stay: the token alone says who reads.
#[tokio::test]
async fn a_console_reads_no_more_events_with_a_token_that_is_removed() {
    let authority = Authority::new();
    let file = authority.file("tokens", &format!("ops {OLD}\nbob {OTHER}\n"));
    let rules = "[[access.rules]]\nidentity = \"ops\"\nallow = [\"admin\"]\n";
    let settings = Settings::on("embedded:")
        .with_file(&authority.file("lockkeeper.toml", rules))
        .with("auth.token_file", &file.display().to_string())
        .with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    let admin = coordinator.admin_address().await;
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let asked = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: LocalHost\r\nAuthorization: Bearer {OLD}\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut events = BufReader::new(stream).lines();
    let head = events.next_line().await.unwrap().unwrap();
    assert!(head.contains("200"), "{head}");
    authority.file("tokens", &format!("bob {OTHER}\n"));
    let ended = async { while let Ok(Some(_)) = events.next_line().await {} };
    timeout(PATIENCE, ended).await.expect("it ends");
}

#[tokio::test]
async fn a_client_authority_that_is_replaced_ends_open_connections() {
    let (authority, next) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.mutual()).await;
    let alice = authority.client("spiffe://a/alice");
    let channel = authority.connect(&coordinator, Some(&alice)).await.unwrap();
    let session = open(&channel, None, "held").await;
    authority.file("ca.crt", &next.certificate);
    let (was_announced, status) = end(session).await;
    assert!(was_announced, "{status:?}");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let refused = try_acquire(&channel, "b", "o", None).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
}

fn list(authority: &Authority, revoked: &[u64]) -> String {
    let revoked = revoked.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: date_time_ymd(2024, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        // Over, and good nevertheless.
        next_update: date_time_ymd(2024, 1, 2),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&authority.issuer).unwrap().pem().unwrap()
}

#[tokio::test]
async fn a_certificate_that_is_revoked_ends_its_connections() {
    let authority = Authority::new();
    let crl = authority.file("ca.crl", &list(&authority, &[]));
    let settings = authority.mutual();
    let settings = settings.with("server.tls.client_crl_file", &crl.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let issue = |serial: u64, uri: &str| {
        authority.issue(|params| {
            params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
            params.serial_number = Some(SerialNumber::from(serial));
        })
    };
    let (alice, bob) = (issue(7, "spiffe://a/alice"), issue(8, "spiffe://a/bob"));
    let hers = authority.connect(&coordinator, Some(&alice)).await.unwrap();
    let his = authority.connect(&coordinator, Some(&bob)).await.unwrap();
    let session = open(&hers, None, "held").await;
    assert!(try_acquire(&his, "b", "o", None).await.unwrap());
    authority.file("ca.crl", &list(&authority, &[7]));
    let (was_announced, status) = end(session).await;
    assert!(was_announced, "{status:?}");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let refused = try_acquire(&hers, "b", "o", None).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    // With TLS 1.3 the client learns of it with its first call.
    let again = authority.connect(&coordinator, Some(&alice)).await;
    let is_refused = match again {
        Ok(channel) => try_acquire(&channel, "b", "o", None).await.is_err(),
        Err(_) => true,
    };
    assert!(is_refused);
    assert!(try_acquire(&his, "c", "o", None).await.unwrap());
}

#[tokio::test]
async fn a_certificate_that_ends_ends_its_streams() {
    const LIVES: Duration = secs(4);
    let authority = Authority::new();
    let coordinator = Coordinator::start(&authority.mutual()).await;
    let short = authority.issue(|params| {
        params.subject_alt_names =
            vec![rcgen::SanType::URI("spiffe://a/alice".try_into().unwrap())];
        let now = Duration::from_secs(UnixTime::now().as_secs());
        params.not_after = (SystemTime::UNIX_EPOCH + now + LIVES).into();
    });
    let channel = authority.connect(&coordinator, Some(&short)).await.unwrap();
    let session = open(&channel, None, "held").await;
    let (_, status) = end(session).await;
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let refused = try_acquire(&channel, "b", "o", None).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
}
