//! Leaderships that are transferred, between real processes.

use lockkeeper_client::{Client, Session, TransferRequest};
use lockkeeper_testkit::time::say;

use crate::prelude::*;

const NAME: &str = "workers";
const ROUNDS: usize = 100;

/// Goes on until the folder is removed, if nobody ends it before.
const LEAD: &str = "touch led; while [ -e led ]; do sleep 0.02; done";

/// How much longer than a bare pair of calls a planned transfer may take.
const RATIO_MAX: f64 = 30.0;

async fn session(coordinator: &Coordinator) -> Session {
    let client = Client::connect(&coordinator.url()).await.unwrap();
    client.session().open().await.unwrap()
}

/// The time of which this part is not longer.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a few"
    )]
    let place = ((times.len() - 1) as f64 * part).round() as usize;
    times[place]
}

/// From the request until the candidate has been elected, over two coordinators: the leader is
/// asked, resigns at once, and the candidate proclaims its value. The middle one is judged, because
/// others use this machine; `--nocapture` shows the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_transfer_takes_at_most_30_times_a_pair_of_calls() {
    let (_redis, a, b) = two_coordinators(settings_on).await;
    let (mut leads, mut waits) = (session(&a).await, session(&b).await);
    let watcher = a.client().await;
    let mut leader = leads.election(NAME).campaign("first").await.unwrap();
    let (mut transfers, mut pairs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let guard = leads.lock("bare").acquire().await.unwrap();
        guard.release().await.unwrap();
        pairs.push(begun.elapsed());

        let (next, election) = (waits.election(NAME), leads.election(NAME));
        let elected = async {
            let elected = next.campaign("next").await.unwrap();
            (elected, Instant::now())
        };
        let transferred = async {
            until_waiting(&watcher, NAME, 1).await;
            let begun = Instant::now();
            let resigns = async {
                leader.guard().yield_requested().await;
                leader.resign().await.unwrap();
            };
            let (asked, ()) = tokio::join!(election.transfer(TransferRequest::default()), resigns);
            assert!(asked.unwrap().held);
            begun
        };
        let ((next, end), begun) = tokio::join!(elected, transferred);
        transfers.push(end - begun);
        leader = next;
        std::mem::swap(&mut leads, &mut waits);
    }
    leader.resign().await.unwrap();
    let [pair, middle, p99] = [
        quantile(&mut pairs, 0.5),
        quantile(&mut transfers, 0.5),
        quantile(&mut transfers, 0.99),
    ];
    let [middle_ratio, p99_ratio] = [middle, p99].map(|it| it.as_secs_f64() / pair.as_secs_f64());
    say(&format!(
        "measured: a pair of calls {pair:?}, a transfer {middle:?} ({middle_ratio:.1} pairs), \
         p99 {p99:?} ({p99_ratio:.1} pairs)"
    ));
    assert!(middle_ratio <= RATIO_MAX, "{middle:?} of {pair:?}");
}

#[tokio::test]
async fn the_command_transfers_to_the_candidate_that_it_names() {
    let (_redis, a, b) = two_coordinators(settings_on).await;
    let folder = TempDir::new().unwrap();
    let elect = |coordinator: &Coordinator, candidate: &str| {
        let mut command = lockkeeper(coordinator, &["elect", NAME, "--candidate", candidate]);
        command.args(["--value", candidate, "--on-yield", "TERM"]);
        command.args(["--", "sh", "-c", LEAD]);
        command
            .current_dir(folder.path())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    let said = async |arguments: &[&str]| {
        let output = lockkeeper(&b, arguments).output().await.unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let leads = async |value: &str| {
        let (_, shown) = said(&["election", "leader", NAME]).await;
        shown.contains(&format!(" value={value} "))
    };

    let (code, _) = said(&["election", "transfer", NAME, "--to", "three"]).await;
    assert_ne!(code, Some(0), "nobody waits");
    let mut one = elect(&a, "one");
    eventually("its command runs", || async {
        folder.path().join("led").exists()
    })
    .await;
    let client = b.client().await;
    let _two = elect(&a, "two");
    until_waiting(&client, NAME, 1).await;
    let mut three = elect(&b, "three");
    until_waiting(&client, NAME, 2).await;
    assert!(leads("one").await);
    let (code, shown) = said(&["election", "transfer", NAME, "--to", "three"]).await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("reached=true"), "{shown}");
    one.wait().await.unwrap();
    eventually("three leads", || leads("three")).await;
    let (code, shown) = said(&["election", "transfer", NAME]).await;
    assert_eq!(code, Some(0), "{shown}");
    three.wait().await.unwrap();
    eventually("two, which came before, leads then", || leads("two")).await;
}
