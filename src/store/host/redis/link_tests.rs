//! Tests of calls over connections to a fake server.

use tokio::{sync::mpsc, task::yield_now, time::timeout};

use super::{
    super::{
        fake,
        target::{Elected, Election},
    },
    *,
};

const LONG: Duration = Duration::from_secs(10);

const NO_ANSWER: &str = "what is no answer\r\n";

async fn live(server: u16) -> Live {
    Live {
        wire: fake::endpoint(server).open_wire(|| {}).await.unwrap(),
        run_id: None,
        dialect: Dialect::default(),
        loss: Arc::default(),
        stall: Stall::default(),
    }
}

/// What becomes of a call of each kind.
async fn called(live: &Live) -> [Result<(), HostError>; 3] {
    let deadline = Instant::now() + LONG;
    let ping = |out: &mut Vec<u8>| put(out, [b"PING"]);
    let twice = |out: &mut Vec<u8>| (0..2).for_each(|_| ping(out));
    [
        live.call(deadline, ping).await.map(drop),
        live.call_all(2, deadline, twice).await.map(drop),
        live.call_asking(deadline, ping).await.map(drop),
    ]
}

fn unavailable(why: &str) -> [Result<(), HostError>; 3] {
    [(); 3].map(|()| Err(HostError::Unavailable(why.to_owned())))
}

#[tokio::test]
async fn no_call_is_made_over_a_lost_connection_or_one_too_many_to_a_silent_server() {
    let live = live(fake::start(|_| fake::OK.to_owned())).await;
    assert_eq!(called(&live).await, [Ok(()), Ok(()), Ok(())]);
    live.stall.begins();
    while live.stall.admits() {}
    let silent = unavailable("the server has stopped answering");
    assert_eq!(called(&live).await, silent);
    live.stall.ends();
    assert_eq!(called(&live).await, [Ok(()), Ok(()), Ok(())]);
    live.loss.declare();
    let lost = unavailable("the connection was lost");
    assert_eq!(called(&live).await, lost);
}

#[tokio::test]
async fn a_connection_that_fails_a_call_is_lost() {
    let server = fake::start(|words| match words {
        ["PING"] => NO_ANSWER.to_owned(),
        _ => fake::OK.to_owned(),
    });
    let [first, later @ ..] = called(&live(server).await).await;
    assert!(
        matches!(first, Err(HostError::OutcomeUnknown(_))),
        "{first:?}"
    );
    assert_eq!(later, unavailable("the connection was lost")[1..]);
}

#[tokio::test]
async fn a_lost_connection_is_replaced_without_a_call() {
    let (open, mut opened) = mpsc::unbounded_channel();
    let server = fake::start(move |words| match words {
        ["HELLO", ..] => {
            open.send(()).unwrap();
            fake::OK.to_owned()
        }
        // The last before the connection is in use.
        ["SCRIPT", ..] => NO_ANSWER.to_owned(),
        _ => fake::OK.to_owned(),
    });
    let _link = Link::open(Target::Fixed(Box::new(fake::endpoint(server))));
    for _ in 0..2 {
        assert_eq!(timeout(LONG, opened.recv()).await, Ok(Some(())));
    }
}

#[tokio::test]
async fn nothing_more_is_sent_to_a_master_that_was_replaced() {
    let master = fake::endpoint(fake::start(|_| fake::OK.to_owned()));
    let (elect, election) = watch::channel(Election {
        master: Some(master),
        trouble: None,
        asked_at: Some(Instant::now() + LONG),
    });
    let ask = Arc::default();
    let link = Link::open(Target::Elected(Elected { election, ask }));
    let live = link.live(Instant::now() + LONG).await.unwrap();
    assert_eq!(called(&live).await, [Ok(()), Ok(()), Ok(())]);
    elect.send_modify(|it| it.master = Some(fake::endpoint(1)));
    let refused = async {
        while live.admit().is_ok() {
            yield_now().await;
        }
    };
    timeout(LONG, refused).await.unwrap();
}
