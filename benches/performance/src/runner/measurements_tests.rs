use std::collections::BTreeSet;

use super::*;

#[test]
fn no_two_have_the_same_name() {
    let names: BTreeSet<_> = ALL.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn what_needs_something_special_says_so() {
    let needing = |what| {
        let names = ALL.iter().filter(|it| it.needs() == Some(what));
        names.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(needing("etcd"), ["etcd-hot-64", "etcd-64"]);
    assert_eq!(needing("redisson"), ["redisson-hot-64", "redisson-64"]);
    assert_eq!(
        needing("redis-8"),
        ["native-frames-256-redis-8", "rslock-256-redis-8"]
    );
    assert_eq!(
        needing("valkey-9"),
        ["native-frames-256-valkey-9", "rslock-256-valkey-9"]
    );
}

#[test]
fn native_commands_are_set_where_the_name_says_so_and_compared_with_the_same_words() {
    for native in ALL.iter().filter(|it| it.name.starts_with("native-")) {
        assert_eq!(native.settings, NATIVE, "{}", native.name);
        let mut scripts = native.name.trim_start_matches("native-");
        if let Some(store) = native.store {
            scripts = scripts.trim_end_matches(store.name).trim_end_matches('-');
        }
        let scripts = ALL.iter().find(|it| it.name == scripts).unwrap();
        assert_eq!(scripts.words, native.words, "{}", native.name);
        assert!(scripts.settings.is_empty(), "{}", scripts.name);
    }
}

#[test]
fn the_store_is_told() {
    let durability = |name| ALL.iter().find(|it| it.name == name).unwrap().durability();
    assert_eq!(durability("rslock-256"), "Redis without fsync");
    assert_eq!(durability("rslock-256-valkey-9"), "Valkey 9 without fsync");
}
