//! Clients that ask and do not read the answers.

use std::io::ErrorKind;

use lockkeeper_testkit::frames::{DATA, END_HEADERS, END_STREAM, Flood, HEADERS, Raw, call, frame};
use tokio::net::TcpSocket;

use super::{MIB, Scene};
use crate::prelude::*;

const GROWN_MAX: u64 = 64 * MIB;

/// Of HTTP/2: how much a peer may send on a stream before it is told that there is room.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A message in a frame, as gRPC and HTTP/2 put them.
fn data(flags: u8, stream: u32, message: &impl prost::Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let mut payload = vec![0];
    payload.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    payload.extend(message);
    frame(DATA, flags, stream, &payload)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_does_not_read_its_answers_is_no_longer_read_from() {
    let scene = Scene::begin().await;
    let address = scene.coordinator.address();
    let mut raw = Raw::open_with(address, &[(INITIAL_WINDOW_SIZE, 0)], true).await;
    let open = pb::SessionRequest {
        op_id: 0,
        request: Some(Request::Open(pb::OpenSession::default())),
        ..Default::default()
    };
    let begun = [
        frame(HEADERS, END_HEADERS, 1, &call("Session")),
        data(0, 1, &open),
    ];
    let asked = (1..200_000).map(|op_id| {
        let describe = pb::DescribeRequest::named(format!("name-{op_id}"));
        let request = Some(Request::Describe(describe));
        data(
            0,
            1,
            &pb::SessionRequest {
                op_id,
                request,
                ..Default::default()
            },
        )
    });
    // What it is allowed to send is what the server has read and then some; more breaks the
    // protocol.
    raw.flood(begun.into_iter().chain(asked)).await;
    eventually("it is cut off", || async {
        let seen = raw.seen();
        seen.is_closed || seen.goaway.is_some() || seen.resets.contains_key(&1)
    })
    .await;
    scene.end(GROWN_MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_whose_news_nobody_reads_end_with_their_connection() {
    const WAITS: u32 = 1000;
    let scene = Scene::begin().await;
    let address = scene.coordinator.address();
    let mut holder = scene.coordinator.client().await;
    let held = holder.try_acquire("contended", "a", secs(60)).await;
    assert!(held.unwrap().acquired);
    let mut raw = Raw::open_with(address, &[(INITIAL_WINDOW_SIZE, 0)], false).await;
    let block = call("Acquire");
    let waits = (0..WAITS).map(|number| {
        let stream = 2 * number + 1;
        let acquire = pb::AcquireRequest::named("contended").by(number.to_string());
        let mut asked = frame(HEADERS, END_HEADERS, stream, &block);
        asked.extend(data(END_STREAM, stream, &acquire));
        asked
    });
    assert_eq!(raw.flood(waits).await, Flood::Taken);
    until_waiting(&holder, "contended", WAITS).await;
    // They are granted to nobody who knows of it, one after the other, and the lock comes through
    // to those behind.
    drop(raw);
    until_waiting(&holder, "contended", 0).await;
    assert!(holder.release("contended", "a").await.unwrap().released);
    let next = holder.try_acquire("contended", "b", Duration::from_secs(1));
    assert!(next.await.unwrap().acquired);
    scene.end(GROWN_MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_of_http_1_whose_answers_nobody_reads_is_closed() {
    let scene = Scene::begin().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(scene.coordinator.address()).await.unwrap();
    let asked = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    // Until the server reads no more, because nobody reads what it has written.
    while let Ok(sent) = timeout(secs(1), stream.write_all(&asked)).await {
        sent.unwrap();
    }
    eventually("it is closed", || async {
        let sent = stream.try_write(b"G");
        sent.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
    })
    .await;
    scene.end(GROWN_MAX).await;
}
