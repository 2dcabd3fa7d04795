//! Transactions of several callers, over a stream whose other end the test has.

use super::{super::super::queue::CALLERS_MAX, *};

/// Commands of one word each, as they are written.
fn written(words: &str) -> String {
    let write = |word: &str| format!("*1\r\n${}\r\n{word}\r\n", word.len());
    words.split(' ').map(write).collect()
}

fn put(words: &str) -> impl FnOnce(&mut Vec<u8>) {
    move |out| out.extend(written(words).as_bytes())
}

fn together(wire: &Wire, words: &'static str) -> impl Future<Output = Outcome> {
    let count = words.split(' ').count();
    wire.send_in_transaction(count, Some(Instant::now() + LONG), put(words))
}

fn alone(wire: &Wire, word: &'static str) -> impl Future<Output = Outcome> {
    wire.send(1, Some(Instant::now() + 2 * LONG), put(word))
}

/// Reads these commands and nothing less.
async fn asked(far: &mut DuplexStream, words: &str) {
    let mut read = vec![0; written(words).len()];
    far.read_exact(&mut read).await.unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), written(words));
}

/// The answers of one caller, on one line.
fn shown(outcome: Outcome) -> String {
    let one = |answer: &Value| match answer {
        Value::Int(number) => number.to_string(),
        Value::SimpleString(text) => text.clone(),
        Value::ServerError(error) => error.code().to_owned(),
        other => panic!("{other:?}"),
    };
    let answers: Vec<_> = outcome.unwrap().iter().map(one).collect();
    answers.join(" ")
}

#[tokio::test]
async fn callers_get_the_answers_to_their_own_commands() {
    let (wire, mut far) = wire(1024);
    for (answers, one, other) in [
        (
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:2\r\n:3\r\n",
            "1 2",
            "3",
        ),
        (
            "+OK\r\n+QUEUED\r\n-NOPERM no\r\n+QUEUED\r\n-EXECABORT all\r\n",
            "NOPERM NOPERM",
            "EXECABORT",
        ),
        ("-ERR no\r\n+A\r\n+B\r\n+C\r\n-ERR no\r\n", "A B", "C"),
    ] {
        let server = async {
            asked(&mut far, "PING MULTI A B C EXEC").await;
            far.write_all(b"+PONG\r\n").await.unwrap();
            far.write_all(answers.as_bytes()).await.unwrap();
        };
        let calls = async {
            tokio::join!(
                together(&wire, "A B"),
                alone(&wire, "PING"),
                together(&wire, "C"),
                server
            )
        };
        let (first, ping, second, ()) = timeout(LONG, calls).await.unwrap();
        assert_eq!(shown(first), one);
        assert_eq!(shown(ping), "PONG");
        assert_eq!(shown(second), other);
    }
}

#[tokio::test]
async fn so_many_callers_share_a_transaction() {
    let (wire, mut far) = wire(64 * 1024);
    let calls = join_all((0..=CALLERS_MAX).map(|_| together(&wire, "A")));
    let server = async {
        let full = format!("MULTI{} EXEC", " A".repeat(CALLERS_MAX));
        asked(&mut far, &full).await;
        asked(&mut far, "MULTI A EXEC").await;
        for callers in [CALLERS_MAX, 1] {
            let queued = "+QUEUED\r\n".repeat(callers);
            let results = ":1\r\n".repeat(callers);
            let answers = format!("+OK\r\n{queued}*{callers}\r\n{results}");
            far.write_all(answers.as_bytes()).await.unwrap();
        }
    };
    let (outcomes, ()) = timeout(LONG, async { tokio::join!(calls, server) })
        .await
        .unwrap();
    for outcome in outcomes {
        assert_eq!(shown(outcome), "1");
    }
}

/// A caller that does not wait any more may call again, for the same key.
#[tokio::test(start_paused = true)]
async fn no_later_call_overtakes_one_whose_caller_has_stopped_waiting() {
    for is_dropped in [false, true] {
        let (wire, mut far) = wire(1);
        let mut first = std::pin::pin!(alone(&wire, "FIRST"));
        assert!(first.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        if is_dropped {
            assert!(together(&wire, "A").now_or_never().is_none());
        } else {
            let ended = timeout(2 * LONG, together(&wire, "A")).await;
            assert_eq!(ended, Ok(Err(Failure::Silent)));
        }
        let mut later = std::pin::pin!(alone(&wire, "LATER"));
        assert!(later.as_mut().now_or_never().is_none());
        let server = asked(&mut far, "FIRST MULTI A EXEC LATER");
        timeout(LONG, server).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_joins_a_transaction_takes_room_and_is_lost_with_the_connection() {
    let (wire, far) = wire(1);
    let mut first = std::pin::pin!(alone(&wire, "FIRST"));
    assert!(first.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    let large = |out: &mut Vec<u8>| out.resize(UNSENT_BYTES_MAX, b' ');
    let mut joined = std::pin::pin!(wire.send_in_transaction(1, None, large));
    assert!(joined.as_mut().now_or_never().is_none());
    assert_eq!(together(&wire, "A").await, Err(Failure::NoRoom));
    drop(far);
    let lost = timeout(LONG, joined).await.unwrap();
    assert!(matches!(lost, Err(Failure::Lost(_))), "{lost:?}");
}
