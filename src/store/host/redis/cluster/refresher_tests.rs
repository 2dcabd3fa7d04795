//! Tests of whom to believe.

use deadpool_redis::redis::parse_redis_value;
use tokio::sync::mpsc;

use super::{super::super::url::ClusterUrl, *};
use crate::host::{WakeSender, redis::RedisConfig};

fn address(name: &str) -> Address {
    Address::parse(&format!("{name}:1")).unwrap()
}

fn slots(master: &str) -> Value {
    let length = master.len();
    let text = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${length}\r\n{master}\r\n:1\r\n");
    parse_redis_value(text.as_bytes()).unwrap()
}

fn info(state: &str, epoch: u64) -> Value {
    let text = format!("cluster_state:{state}\r\ncluster_current_epoch:{epoch}\r\n");
    Value::BulkString(text.into_bytes())
}

fn answer(state: &str, epoch: u64, master: &str) -> Answer {
    Answer::parse(&info(state, epoch), &slots(master), &address("asked")).unwrap()
}

fn whom(answers: &[Answer], known: Option<(u64, &str)>) -> Option<String> {
    let known = known.map(|(epoch, master)| (epoch, answer("ok", epoch, master).topology));
    let believed = believed(answers, 3, known.as_ref())?;
    let master = believed.topology.master(0).unwrap();
    Some(master.host.clone())
}

#[test]
fn the_newest_of_the_majority_is_believed() {
    let (old, new) = (answer("ok", 5, "a"), answer("ok", 6, "b"));
    let cut_off = answer("fail", 9, "c");
    let all = [old.clone(), new.clone(), old.clone()];
    assert_eq!(whom(&all, None).as_deref(), Some("b"));
    assert_eq!(
        whom(&[old.clone(), cut_off.clone()], None).as_deref(),
        Some("a")
    );
    assert_eq!(whom(&[cut_off], None).as_deref(), Some("c"));
    let tied = [answer("ok", 6, "a"), new.clone(), new.clone()];
    assert_eq!(whom(&tied, None).as_deref(), Some("b"));
    assert_eq!(whom(&[], None), None);
}

#[test]
fn what_is_older_than_what_is_known_needs_a_majority() {
    let old = answer("ok", 5, "a");
    assert_eq!(whom(std::slice::from_ref(&old), Some((6, "b"))), None);
    let most = [old.clone(), old];
    assert_eq!(whom(&most, Some((6, "b"))).as_deref(), Some("a"));
    let tied = [answer("ok", 6, "a"), answer("ok", 6, "b")];
    assert_eq!(whom(&tied, Some((6, "a"))).as_deref(), Some("a"));
}

#[test]
fn a_server_without_cluster_mode_is_named() {
    let refused = b"-ERR This instance has cluster support disabled\r\n";
    let refused = parse_redis_value(refused).unwrap();
    let problem = Answer::parse(&refused, &refused, &address("asked"));
    assert_eq!(problem, Err("is not part of a cluster".to_owned()));
    let nonsense = Answer::parse(&Value::Nil, &slots("a"), &address("asked"));
    assert_eq!(nonsense, Err("answers what cannot be read".to_owned()));
}

#[test]
fn a_right_that_is_missing_is_named_whichever_command_needs_it() {
    let text = "NOPERM this user has no permissions to run the 'cluster|info' command";
    let refused = parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    let expected = Err(format!("answers {text}"));
    let of_info = Answer::parse(&refused, &slots("a"), &address("asked"));
    assert_eq!(of_info, expected);
    let of_slots = Answer::parse(&info("ok", 1), &refused, &address("asked"));
    assert_eq!(of_slots, expected);
}

/// What a node on this machine says, with a replica.
fn served(epoch: u64, master: u16, replica: u16) -> Answer {
    let node = |port| format!("*2\r\n$9\r\nlocalhost\r\n:{port}\r\n");
    let nodes = [node(master), node(replica)].concat();
    let slots = format!("*1\r\n*4\r\n:0\r\n:16383\r\n{nodes}");
    let slots = parse_redis_value(slots.as_bytes()).unwrap();
    Answer::parse(&info("ok", epoch), &slots, &address("asked")).unwrap()
}

fn refresher() -> (Refresher, mpsc::Receiver<Wake>) {
    let config = RedisConfig {
        url: "redis+cluster://localhost:1".to_owned(),
        ..RedisConfig::default()
    };
    let url = ClusterUrl::parse(&config.url).unwrap();
    let (wakes, woken) = WakeSender::channel();
    let router = Arc::new(Router::new(config, url, wakes));
    let channels = Arc::new(Channels::new(Arc::clone(&router)));
    (Refresher::new(router, channels).unwrap(), woken)
}

fn is_open(refresher: &Refresher, port: u16) -> bool {
    let node = Address::parse(&format!("localhost:{port}")).unwrap();
    refresher.router.open_node(&node).is_some()
}

#[tokio::test]
async fn a_replica_that_takes_over_may_lack_what_was_written() {
    let (mut refresher, mut woken) = refresher();
    for (epoch, [master, replica], takes_over) in [
        (1, [1, 2], false),
        (2, [1, 3], false),
        (3, [3, 1], true),
        // All slots have moved.
        (4, [4, 5], false),
    ] {
        refresher.follow(served(epoch, master, replica));
        let wake = takes_over.then_some(Wake::TakenOver);
        assert_eq!(woken.try_recv().ok(), wake, "{epoch}");
        assert!(is_open(&refresher, master), "{epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_to_a_node_that_serves_nothing_are_closed_in_time() {
    let (mut refresher, _woken) = refresher();
    refresher.follow(served(1, 1, 2));
    refresher.follow(served(2, 3, 2));
    assert!(is_open(&refresher, 1), "it may get a slot again");
    tokio::time::advance(Duration::from_secs(61)).await;
    refresher.follow(served(2, 3, 2));
    assert!(!is_open(&refresher, 1));
    assert!(is_open(&refresher, 3));
}
