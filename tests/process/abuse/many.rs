//! Too many of what is allowed one by one: connections, sessions, waits.

use super::{MIB, Scene, attempt, measured_bytes};
use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_connections_cost_little_and_leave_nothing_behind() {
    // Both ends of each are files, and there may be 20,000 of those here.
    const CONNECTIONS: usize = 3000;
    let scene = Scene::begin().await;
    let address = scene.coordinator.address();
    let mut taken = Vec::new();
    for _ in 0..3 {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS / 100 {
            let more = (0..100).map(|_| attempt(address, None));
            open.extend(join_all(more).await);
        }
        // Each has been answered, so that none is still to be accepted when the memory is read.
        assert!(open.iter().all(Option::is_some));
        taken.push(scene.grown());
        drop(open);
        eventually("they are closed here too", || async {
            scene.coordinator.open_files() < 50
        })
        .await;
    }
    let each = taken[0] / CONNECTIONS as u64;
    measured_bytes("memory for each connection", each);
    assert!(each < 48 << 10, "{each}");
    // Memory goes back every 10 s; meanwhile, the next ones get what the former have left.
    assert!(taken[2] < 2 * taken[0], "{taken:?}");
    scene.end(16 * MIB).await;
}

/// Slow on purpose: some never say anything, some a byte of the preface now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_never_come_to_the_point_are_closed() {
    const CONNECTIONS: usize = 300;
    let settings = Settings::on("embedded:").with("server.handshake_timeout", "500ms");
    let scene = Scene::begin_with(settings).await;
    let address = scene.coordinator.address();
    let attempts = (0..CONNECTIONS).map(|number| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut rest = b"PRI * HTTP/2.0\r\n\r\nSM\r".iter();
        let mut answer = [0; 1];
        loop {
            tokio::select! {
                biased;
                // Whatever it says before, it closes.
                read = stream.read(&mut answer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                },
                () = tokio::time::sleep(millis(100)) => {
                    if let (0, Some(byte)) = (number % 2, rest.next()) {
                        let _ = stream.write_all(&[*byte]).await;
                    }
                }
            }
        }
    });
    let closed = tokio::time::timeout(secs(10), join_all(attempts)).await;
    assert!(closed.is_ok(), "some are still open");
    scene.end(48 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_beyond_the_limit_are_refused_and_their_memory_comes_back() {
    const SESSIONS: usize = 2000;
    let settings = Settings::on("embedded:").with("limits.sessions_max", &SESSIONS.to_string());
    let scene = Scene::begin_with(settings).await;
    let mut client = scene.coordinator.client().await;
    let mut open = Vec::new();
    for _ in 0..SESSIONS {
        open.push(client.open().await);
    }
    let each = scene.grown() / SESSIONS as u64;
    measured_bytes("memory for each session", each);
    for _ in 0..100 {
        let refused = client.open_with(pb::OpenSession::default()).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    for session in open {
        session.close().await.unwrap();
    }
    client.open().await.close().await.unwrap();
    scene.end(48 * MIB).await;
}

/// A session that is kept for its client to come back takes a place; who has nothing to come back
/// for must not take all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_were_left_without_a_grant_give_way_to_others() {
    const SESSIONS: usize = 200;
    let settings = Settings::on("embedded:").with("limits.sessions_max", &SESSIONS.to_string());
    let scene = Scene::begin_with(settings).await;
    let mut holder = scene.coordinator.client().await;
    let mut held = holder.open().await;
    held.acquire("kept").await;
    let held = held.opened.clone();
    drop(holder);
    for _ in 0..3 {
        let mut client = scene.coordinator.client().await;
        for _ in 0..SESSIONS / 2 {
            let long = pb::OpenSession::default().lasting(secs(3600));
            // Whether it is refused is what the last step shows.
            drop(client.open_with(long).await);
        }
    }
    // Room is made once a second at most. What holds something stays.
    eventually("there is room again", || async {
        let mut client = scene.coordinator.client().await;
        let opened = client.open_with(pb::OpenSession::default()).await;
        opened.is_ok()
    })
    .await;
    let mut client = scene.coordinator.client().await;
    let kept = client.describe("kept").await;
    assert_eq!(kept.holders.len(), 1, "{:?}", held.session_id);
    scene.end(48 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_by_the_ten_thousands_are_bounded_and_their_memory_comes_back() {
    const WAITS: u32 = 10_000;
    let settings =
        Settings::on("embedded:").with("limits.waiters_per_lock_max", &WAITS.to_string());
    let scene = Scene::begin_with(settings).await;
    let mut client = scene.coordinator.client().await;
    let mut holder = client.open().await;
    holder.acquire("contended").await;
    let mut session = client.open().await;
    for owner in 0..WAITS {
        session.send_acquire("contended", &owner.to_string());
    }
    until_waiting(&client, "contended", WAITS).await;
    measured_bytes("memory for each wait", scene.grown() / u64::from(WAITS));
    // In another session, because each has a limit of its own too.
    let mut other = client.open().await;
    let op_id = other.send_acquire("contended", "one-more");
    match other.answer(op_id).await {
        Response::Failed(failed) => assert_eq!(failed.code, Code::ResourceExhausted as i32),
        answer => panic!("{answer:?}"),
    }
    let refused = client
        .acquire(acquire_request("contended", "another"))
        .await;
    let refused = refused.unwrap().end().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    session.close().await.unwrap();
    until_waiting(&client, "contended", 0).await;
    scene.end(48 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_op_id_that_is_used_for_several_waits_belongs_to_the_first() {
    let scene = Scene::begin().await;
    let mut client = scene.coordinator.client().await;
    let mut holder = client.open().await;
    holder.acquire("contended").await;
    let mut session = client.open().await;
    let first = session.waits_for("contended", "first").await;
    for owner in 0..1000 {
        let again = acquire_request("contended", &owner.to_string());
        session.send_as(first, Request::Acquire(again));
        match session.answer(first).await {
            Response::Failed(failed) => assert_eq!(failed.code, Code::InvalidArgument as i32),
            answer => panic!("{answer:?}"),
        }
    }
    // Cancelling what is not there is no error and costs nothing.
    for op_id in 0..10_000 {
        session.send_as(1_000_000 + op_id, Request::Cancel(pb::CancelOperation {}));
    }
    until_waiting(&client, "contended", 1).await;
    session.send_as(first, Request::Cancel(pb::CancelOperation {}));
    until_waiting(&client, "contended", 0).await;
    scene.end(48 * MIB).await;
}
