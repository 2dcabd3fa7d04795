//! Calls over a stream whose other end the test has.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::{FutureExt as _, future::join_all};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::oneshot,
    time::timeout,
};

use super::*;

#[path = "transaction_tests.rs"]
mod transactions;

const LONG: Duration = Duration::from_secs(10);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// A wire and the server's end of its stream, which holds so much that is not read.
fn wire(bytes: usize) -> (Wire, DuplexStream) {
    let (near, far) = duplex(bytes);
    (Wire::open(Box::new(near), || {}), far)
}

async fn ping(wire: &Wire) -> Outcome {
    pings(wire, 1).await
}

/// Some in one call.
async fn pings(wire: &Wire, count: usize) -> Outcome {
    let write = |out: &mut Vec<u8>| (0..count).for_each(|_| out.extend_from_slice(PING));
    wire.send(count, Some(Instant::now() + LONG), write).await
}

/// Reads so many pings.
async fn asked(far: &mut DuplexStream, count: usize) {
    let mut read = vec![0; PING.len() * count];
    far.read_exact(&mut read).await.unwrap();
    assert_eq!(read, PING.repeat(count));
}

fn numbers<const N: usize>(numbers: [i64; N]) -> Vec<Value> {
    numbers.map(Value::Int).to_vec()
}

#[tokio::test]
async fn callers_get_their_own_answers_in_the_order_of_their_calls() {
    let (wire, mut far) = wire(1024);
    let server = async {
        asked(&mut far, 4).await;
        // In pieces: a number of one call ends in a later read.
        for piece in [":1\r\n:2", "\r\n:3\r\n-ERR ", "no\r\n"] {
            far.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (one, two, failed, ()) = tokio::join!(ping(&wire), pings(&wire, 2), ping(&wire), server);
    assert_eq!((one, two), (Ok(numbers([1])), Ok(numbers([2, 3]))));
    let failed = failed.unwrap();
    assert!(
        matches!(failed.as_slice(), [Value::ServerError(_)]),
        "{failed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_is_nobody_elses() {
    let (wire, mut far) = wire(1024);
    let begun = Instant::now();
    assert_eq!(pings(&wire, 2).await, Err(Failure::Silent));
    assert_eq!(begun.elapsed(), LONG);
    let server = async {
        asked(&mut far, 3).await;
        far.write_all(b":1\r\n:2\r\n:3\r\n").await.unwrap();
    };
    let (answer, ()) = tokio::join!(ping(&wire), server);
    assert_eq!(answer, Ok(numbers([3])));
}

#[tokio::test(start_paused = true)]
async fn each_call_ends_at_its_own_deadline() {
    let (wire, _far) = wire(1024);
    let begun = Instant::now();
    let call = |seconds: u64| {
        let wire = &wire;
        async move {
            let deadline = begun + Duration::from_secs(seconds);
            let put = |out: &mut Vec<u8>| out.extend_from_slice(PING);
            assert_eq!(
                wire.send(1, Some(deadline), put).await,
                Err(Failure::Silent)
            );
            (seconds, begun.elapsed().as_secs())
        }
    };
    let ended = timeout(LONG, join_all([3, 1, 2, 5].map(call)))
        .await
        .unwrap();
    assert_eq!(ended, [(3, 3), (1, 1), (2, 2), (5, 5)]);
}

#[tokio::test(start_paused = true)]
async fn callers_wait_for_room_while_the_server_reads_nothing() {
    let (wire, mut far) = wire(16);
    let large = |out: &mut Vec<u8>| out.resize(UNSENT_BYTES_MAX, b' ');
    // What is being written, and what is written next.
    let mut first = std::pin::pin!(wire.send(1, None, large));
    assert!(first.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    let mut second = std::pin::pin!(wire.send(1, None, large));
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(ping(&wire).await, Err(Failure::NoRoom));

    let mut third = std::pin::pin!(ping(&wire));
    assert!(third.as_mut().now_or_never().is_none());
    let server = async {
        let mut read = vec![0; 2 * UNSENT_BYTES_MAX + PING.len()];
        far.read_exact(&mut read).await.unwrap();
        assert!(read.ends_with(PING));
        far.write_all(b":1\r\n:2\r\n:3\r\n").await.unwrap();
    };
    let answers = async { tokio::join!(first, second, third, server) };
    let answers = timeout(2 * LONG, answers).await.unwrap();
    assert_eq!(
        answers,
        (Ok(numbers([1])), Ok(numbers([2])), Ok(numbers([3])), ())
    );
}

#[tokio::test]
async fn a_server_that_answers_before_it_reads_on_is_read_meanwhile() {
    const CALLS: usize = 200;
    let (wire, mut far) = wire(16);
    let server = async {
        for number in 0..CALLS {
            asked(&mut far, 1).await;
            // More than fits, so that both ends would wait for each other.
            let padding = " ".repeat(64);
            let answer = format!("*2\r\n:{number}\r\n+{padding}\r\n");
            far.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let calls = join_all((0..CALLS).map(|_| ping(&wire)));
    let (answers, ()) = timeout(LONG, async { tokio::join!(calls, server) })
        .await
        .unwrap();
    for (number, answer) in (0_i64..).zip(answers) {
        let answer = answer.unwrap();
        let [Value::Array(parts)] = answer.as_slice() else {
            panic!("{answer:?}");
        };
        assert_eq!(parts[0], Value::Int(number));
    }
}

#[tokio::test]
async fn a_large_answer_is_read_whole_and_its_room_given_back() {
    let (wire, mut far) = wire(1024);
    let text = "x".repeat(10 * INPUT_BYTES);
    let server = async {
        asked(&mut far, 1).await;
        let answer = format!("${}\r\n{text}\r\n", text.len());
        far.write_all(answer.as_bytes()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(ping(&wire), server);
    assert_eq!(answer, Ok(vec![Value::BulkString(text.into_bytes())]));
    let server = async {
        asked(&mut far, 1).await;
        far.write_all(b":1\r\n").await.unwrap();
    };
    let (answer, ()) = tokio::join!(ping(&wire), server);
    assert_eq!(answer, Ok(numbers([1])));
}

#[tokio::test]
async fn a_connection_that_ends_fails_its_calls_and_says_so() {
    for last in [None, Some("what is no answer\r\n")] {
        let lost = Arc::new(AtomicBool::new(false));
        let (near, mut far) = duplex(1024);
        let is_lost = Arc::clone(&lost);
        let wire = Wire::open(Box::new(near), move || {
            is_lost.store(true, Ordering::Relaxed);
        });
        let server = async {
            asked(&mut far, 3).await;
            if let Some(last) = last {
                far.write_all(last.as_bytes()).await.unwrap();
            } else {
                drop(far);
            }
        };
        let calls = async { tokio::join!(ping(&wire), pings(&wire, 2), server) };
        let (first, second, ()) = timeout(LONG, calls).await.unwrap();
        for failed in [first, second] {
            assert!(matches!(failed, Err(Failure::Lost(_))), "{failed:?}");
        }
        assert!(lost.load(Ordering::Relaxed), "{last:?}");
        assert_eq!(ping(&wire).await, Err(Failure::Closed));
    }
}

#[tokio::test]
async fn what_was_not_asked_for_ends_the_connection_unless_it_is_a_push() {
    let (near, mut far) = duplex(1024);
    let (lost, is_lost) = oneshot::channel();
    let wire = Wire::open(Box::new(near), || lost.send(()).unwrap());
    far.write_all(b">2\r\n+note\r\n:1\r\n").await.unwrap();
    let server = async {
        asked(&mut far, 1).await;
        far.write_all(b":1\r\n").await.unwrap();
    };
    let (answer, ()) = tokio::join!(ping(&wire), server);
    assert_eq!(answer, Ok(numbers([1])));
    far.write_all(b":2\r\n").await.unwrap();
    assert_eq!(timeout(LONG, is_lost).await, Ok(Ok(())));
}
