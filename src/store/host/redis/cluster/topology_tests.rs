//! Tests of reading the answers of nodes.

use super::*;

fn asked() -> Address {
    Address::parse("asked:1").unwrap()
}

fn node_of(host: &str, port: i64) -> Value {
    let id = Value::BulkString(b"id".to_vec());
    let host = Value::BulkString(host.into());
    Value::Array(vec![host, Value::Int(port), id, Value::Array(vec![])])
}

fn range(from: i64, to: i64, nodes: Nodes<'_>) -> Value {
    let mut parts = vec![Value::Int(from), Value::Int(to)];
    parts.extend(nodes.iter().map(|(host, port)| node_of(host, *port)));
    Value::Array(parts)
}

type Nodes<'a> = &'a [(&'a str, i64)];

fn topology(ranges: &[(i64, i64, Nodes<'_>)]) -> Topology {
    let ranges = ranges
        .iter()
        .map(|(from, to, nodes)| range(*from, *to, nodes));
    Topology::parse(&Value::Array(ranges.collect()), &asked()).unwrap()
}

fn text(address: Option<&Address>) -> String {
    address.map_or_else(|| "nobody".to_owned(), ToString::to_string)
}

#[test]
fn slots_find_their_masters() {
    let it = topology(&[
        (5461, 10922, &[("b", 2), ("e", 5)]),
        (0, 5460, &[("", 1), ("d", 4)]),
        (12000, 16383, &[("::1", 3)]),
    ]);
    for (slot, master) in [
        (0, "asked:1"),
        (5460, "asked:1"),
        (5461, "b:2"),
        (10922, "b:2"),
        (10923, "nobody"),
        (11999, "nobody"),
        (12000, "[::1]:3"),
        (16383, "[::1]:3"),
    ] {
        assert_eq!(text(it.master(slot)), master, "{slot}");
    }
    assert_eq!(it.masters().len(), 3);
    assert_eq!(it.nodes().len(), 5);
    assert_eq!(it.uncovered(), Some((10923, 1077)));
}

#[test]
fn uncovered_slots_are_counted() {
    assert_eq!(topology(&[]).uncovered(), Some((0, 16384)));
    assert_eq!(topology(&[(0, 16383, &[("a", 1)])]).uncovered(), None);
    let ends = topology(&[(1, 16382, &[("a", 1)])]);
    assert_eq!(ends.uncovered(), Some((0, 2)));
}

#[test]
fn a_failover_is_distinguished_from_a_migration() {
    let before = topology(&[
        (0, 99, &[("a", 1), ("c", 3)]),
        (100, 16383, &[("b", 2), ("d", 4)]),
    ]);
    let migrated = topology(&[
        (0, 98, &[("a", 1), ("c", 3)]),
        (99, 16383, &[("b", 2), ("d", 4)]),
    ]);
    let promoted = topology(&[(0, 99, &[("c", 3)]), (100, 16383, &[("b", 2), ("d", 4)])]);
    assert!(!migrated.has_promoted_since(&before));
    assert!(promoted.has_promoted_since(&before));
    assert!(!migrated.has_same_masters(&before));
    let without_replica = topology(&[(0, 99, &[("a", 1)]), (100, 16383, &[("b", 2)])]);
    assert!(without_replica.has_same_masters(&before));
    assert!(!before.has_promoted_since(&before));
}

#[test]
fn what_makes_no_sense_is_not_believed() {
    for answer in [
        Value::Nil,
        Value::Array(vec![Value::Nil]),
        Value::Array(vec![range(0, 16384, &[("a", 1)])]),
        Value::Array(vec![range(-1, 5, &[("a", 1)])]),
        Value::Array(vec![range(0, 5, &[("a", 65_536)])]),
        Value::Array(vec![range(0, 5, &[])]),
    ] {
        assert_eq!(Topology::parse(&answer, &asked()), Err(Unreadable));
    }
    let nil_host = Value::Array(vec![Value::Nil, Value::Int(7)]);
    let parts = Value::Array(vec![Value::Int(0), Value::Int(1), nil_host]);
    let it = Topology::parse(&Value::Array(vec![parts]), &asked()).unwrap();
    assert_eq!(text(it.master(0)), "asked:7");
}

#[test]
fn addresses_of_redirections_are_read() {
    for (given, expected) in [
        ("10.0.0.1:7000", "10.0.0.1:7000"),
        (":7000", "asked:7000"),
        ("::1:7000", "[::1]:7000"),
        ("[::1]:7000", "[::1]:7000"),
        ("host", "nobody"),
        ("host:0", "nobody"),
    ] {
        let read = Address::redirected(given, &asked());
        assert_eq!(text(read.as_ref()), expected, "{given}");
    }
}
