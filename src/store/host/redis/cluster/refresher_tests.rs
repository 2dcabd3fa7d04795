//! Tests of whom to believe.

use deadpool_redis::redis::parse_redis_value;

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

#[tokio::test]
async fn a_replica_that_takes_over_may_lack_what_was_written() {
    let config = RedisConfig {
        url: "redis+cluster://localhost:1".to_owned(),
        ..RedisConfig::default()
    };
    let url = ClusterUrl::parse(&config.url).unwrap();
    let (wakes, mut woken) = WakeSender::channel();
    let router = Arc::new(Router::new(config, url, wakes));
    let channels = Arc::new(Channels::new(Arc::clone(&router)));
    let mut refresher = Refresher::new(Arc::clone(&router), channels).unwrap();
    for (epoch, [master, replica], takes_over) in [
        (1, [1, 2], false),
        (2, [1, 3], false),
        (3, [3, 1], true),
        // All slots have moved.
        (4, [4, 5], false),
    ] {
        let node = |port| format!("*2\r\n$9\r\nlocalhost\r\n:{port}\r\n");
        let nodes = [node(master), node(replica)].concat();
        let slots = format!("*1\r\n*4\r\n:0\r\n:16383\r\n{nodes}");
        let slots = parse_redis_value(slots.as_bytes()).unwrap();
        let answer = Answer::parse(&info("ok", epoch), &slots, &address("asked"));
        refresher.follow(answer.unwrap());
        let wake = takes_over.then_some(Wake::TakenOver);
        assert_eq!(woken.try_recv().ok(), wake, "{epoch}");
        let master = Address::parse(&format!("localhost:{master}")).unwrap();
        assert!(router.open_node(&master).is_some(), "{epoch}");
    }
}
