//! The rows of the tables in `docs/robustness/rows.md`, each a test: a store, a fault, and what is
//! different from the other rows of that store.

use std::time::Duration;

use crate::{
    fault::Fault::{
        self, AnyOf, Busy, ClientsKilled, ClocksStepped, CoordinatorFrozen, CoordinatorKilled,
        CoordinatorsReplaced, CutOff, Flushed, Impaired, MasterFrozen, MasterKilled,
        MasterKilledOverWire, MembersDown, OutOfMemory, Parted, ReplicasAway, ReplicasFrozen,
        ScriptsFlushed, SlotMoved, WritesLost,
    },
    row::{
        Promise::{Exclusion, TokensOnly, TwoStores},
        Row, cluster, long, quorum, sentinel, single,
    },
    soak,
    wire::Impairment,
    world::{
        Clocks::{OfCoordinator, OfServers},
        LEASE,
        Network::{Halves, OfFirst, OverWire},
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// No longer than what a renewal leaves of a lease at the least.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

/// Both sides believe that they are the deployment.
const PARTED: Fault = Parted(Duration::from_secs(3));

/// Grants count when a replica has them.
const ACKS: &[(&str, &str)] = &[
    ("store.replica_acks", "1"),
    ("store.replica_ack_timeout", "300ms"),
];

/// Longer than a lease.
pub(crate) const FREEZE: Duration = Duration::from_secs(7);

/// Longer than a lease.
fn for_long() -> Duration {
    long(LEASE + SECOND, 15 * SECOND)
}

/// For faults that strike again and again.
fn for_some_time() -> Duration {
    long(2 * SECOND, 10 * SECOND)
}

/// One of ten packets, in each direction.
const LOSS: Impairment = Impairment {
    loss: 10,
    ..Impairment::NONE
};

/// So unequal that packets overtake each other.
const DELAY: Impairment = Impairment {
    delay: (20, 120),
    ..Impairment::NONE
};

const DUPLICATES: Impairment = Impairment {
    duplicates: 20,
    ..Impairment::NONE
};

/// All of it at once.
const ROUGH: Impairment = Impairment {
    loss: 5,
    duplicates: 5,
    delay: (10, 60),
};

/// The first coordinator's packets, and those to it: either, or both.
const NOT_SENT: [Impairment; 2] = [Impairment::CUT, Impairment::NONE];
const NOT_RECEIVED: [Impairment; 2] = [Impairment::NONE, Impairment::CUT];
const NEITHER: [Impairment; 2] = [Impairment::CUT; 2];

/// A wire loses nothing that the store has acknowledged. But a client whose packets are lost again
/// and again takes its coordinator for dead and moves to the other one. Before the first hears of
/// that, it may grant what the client waited for, and renew it. That lock is free a lease later,
/// and soon all contenders wait for it.
fn wire(row: fn(&'static str, Fault) -> Row, name: &'static str, impairment: Impairment) -> Row {
    let row = row(name, Impaired([impairment; 2], for_some_time()));
    row.promises(Exclusion)
        .network(OverWire)
        .outage(LEASE + SECOND)
        .outage_of_one(2 * LEASE)
}

/// A coordinator renews for a client that vanished until it finds that out, after 30 s by default.
/// Here it has to find out before the wire is whole again. If not, one of its waits may be granted
/// then, to a client that has moved to the other coordinator, and that lock is free a lease later.
const KEEPALIVE: &[(&str, &str)] = &[
    ("server.keepalive_interval", "1s"),
    ("server.keepalive_timeout", "1s"),
];

/// For longer than a lease.
fn cut(row: fn(&'static str, Fault) -> Row, name: &'static str, ways: [Impairment; 2]) -> Row {
    let row = row(name, Impaired(ways, for_long()));
    row.one_coordinator_goes_on()
        .network(OverWire)
        .settings(KEEPALIVE)
}

fn replicas_away() -> Duration {
    long(3 * SECOND, 6 * SECOND)
}

fn replicas_lag() -> Duration {
    long(3 * SECOND, 10 * SECOND)
}

macro_rules! rows {
    ($(fn $test:ident() = $row:expr;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $row.run().await;
        }
    )* };
}

rows! {
    fn single_killed_and_restarted_with_its_file() =
        single("single killed", MasterKilled);

    fn single_killed_and_restarted_empty() =
        single("single killed, back empty", MasterKilled)
            .server(&["--appendonly", "no"])
            .promises(TokensOnly)
            .may_lose();

    fn single_frozen_for_less_than_a_lease() =
        single("single frozen 1 s", MasterFrozen(SECOND)).outage(4 * SECOND);

    fn single_frozen_for_more_than_a_lease() =
        single("single frozen for long", MasterFrozen(for_long())).away(for_long()).may_lose();

    fn single_cut_off_from_one_coordinator() =
        single("single cut off from 1 of 2", CutOff(for_long()))
            .one_coordinator_goes_on()
            .network(OfFirst);

    fn single_forgets_its_scripts() =
        single("single SCRIPT FLUSH", ScriptsFlushed(for_some_time())).harmless().outage(SECOND);

    fn single_kills_connections_of_wake_ups() =
        single("single CLIENT KILL pubsub", ClientsKilled("pubsub", for_some_time())).harmless();

    fn single_kills_connections_of_commands() =
        single("single CLIENT KILL normal", ClientsKilled("normal", for_some_time()));

    fn single_out_of_memory() =
        single("single out of memory", OutOfMemory(for_some_time()))
            .outage(for_some_time() + 2 * SECOND)
            .outage_of_one(for_some_time() + 2 * SECOND + LEASE);

    fn single_flushed() =
        single("single FLUSHALL", Flushed).promises(TokensOnly).may_lose();

    fn single_busy_with_a_slow_script() =
        single("single busy with a slow script", Busy(BUSY))
            .outage(BUSY + 3 * SECOND)
            .outage_of_one(BUSY + 3 * SECOND + LEASE);

    fn coordinator_killed() =
        single("coordinator killed", CoordinatorKilled).one_coordinator_goes_on();

    fn coordinator_frozen_for_more_than_a_lease() =
        single("coordinator frozen", CoordinatorFrozen(for_long())).one_coordinator_goes_on();

    fn coordinators_replaced_one_by_one() =
        single("coordinators replaced", CoordinatorsReplaced);

    fn sentinel_master_killed() =
        sentinel("sentinel master killed", MasterKilled);

    // It may be back in the moment in which another takes over, and serve those who have not heard
    // of that.
    fn sentinel_master_frozen_and_back() =
        sentinel("sentinel master frozen", MasterFrozen(long(4 * SECOND, 15 * SECOND)))
            .promises(TwoStores);

    fn sentinel_cut_off_from_one_coordinator() =
        sentinel("sentinel cut off from 1 of 2", CutOff(for_long()))
            .one_coordinator_goes_on()
            .network(OfFirst);

    fn sentinel_failover_that_loses_writes() =
        sentinel("sentinel failover that loses writes", WritesLost(3 * SECOND));

    fn sentinel_failover_without_replicas_that_hear() =
        sentinel("loses writes, min-replicas 1", WritesLost(3 * SECOND)).server(&[]);

    fn sentinel_replicas_away() =
        sentinel("sentinel NOREPLICAS", ReplicasAway(replicas_away()))
            .server(&[])
            .promises(Exclusion)
            .away(replicas_away());

    fn sentinel_failover_that_loses_writes_with_acks() =
        sentinel("loses writes, replica_acks 1", WritesLost(3 * SECOND)).settings(ACKS);

    fn sentinel_master_killed_with_acks() =
        sentinel("sentinel killed, replica_acks 1", MasterKilled).settings(ACKS);

    fn sentinel_replicas_that_lag_with_acks() =
        sentinel("sentinel replicas lag, acks 1", ReplicasFrozen(replicas_lag()))
            .settings(ACKS)
            .promises(Exclusion)
            .outage(replicas_lag() + LEASE + SECOND)
            .outage_of_one(replicas_lag() + 2 * LEASE);

    fn sentinel_forgets_its_scripts() =
        sentinel("sentinel SCRIPT FLUSH", ScriptsFlushed(for_some_time())).harmless();

    fn sentinel_kills_connections_of_wake_ups() =
        sentinel("sentinel CLIENT KILL pubsub", ClientsKilled("pubsub", for_some_time()))
            .harmless();

    fn sentinel_parted_with_one_coordinator() =
        sentinel("sentinel parted, 1 of 2 inside", PARTED).promises(TwoStores).network(Halves);

    fn sentinel_parted_with_one_coordinator_and_min_replicas() =
        sentinel("parted, min-replicas 1, lag 2 s", PARTED)
            .server(&["--min-replicas-max-lag", "2"])
            .promises(TwoStores)
            .network(Halves);

    fn sentinel_parted_with_one_coordinator_and_acks() =
        sentinel("parted, replica_acks 1", PARTED).settings(ACKS).network(Halves);

    fn cluster_master_killed() =
        cluster("cluster master killed", MasterKilled);

    fn cluster_master_frozen_and_back() =
        cluster("cluster master frozen", MasterFrozen(long(5 * SECOND, 15 * SECOND)));

    fn cluster_cut_off_from_one_coordinator() =
        cluster("cluster cut off from 1 of 2", CutOff(for_long()))
            .one_coordinator_goes_on()
            .network(OfFirst);

    fn cluster_slot_of_a_used_lock_moved() =
        cluster("cluster slot moved", SlotMoved(long(4 * SECOND, 15 * SECOND))).harmless();

    fn cluster_forgets_its_scripts() =
        cluster("cluster SCRIPT FLUSH", ScriptsFlushed(for_some_time())).harmless();

    fn cluster_kills_connections_of_wake_ups() =
        cluster("cluster CLIENT KILL pubsub", ClientsKilled("pubsub", for_some_time())).harmless();

    // A renewal does not bring a grant to members that did not take it, so one that a bare majority
    // took is lost with one of those.
    fn quorum_two_of_five_down() =
        quorum("quorum 2 of 5 down", MembersDown(2, for_long())).may_lose();

    fn quorum_three_of_five_down() =
        quorum("quorum 3 of 5 down", MembersDown(3, for_long())).away(for_long()).may_lose();

    fn quorum_cut_off_from_one_coordinator() =
        quorum("quorum cut off from 1 of 2", CutOff(for_long()))
            .one_coordinator_goes_on()
            .network(OfFirst);

    fn quorum_forgets_its_scripts() =
        quorum("quorum SCRIPT FLUSH", ScriptsFlushed(for_some_time())).harmless();

    fn single_over_a_wire_that_loses() =
        wire(single, "single wire loses 10 %", LOSS).only_long();

    fn single_over_a_wire_that_delays_and_reorders() =
        wire(single, "single wire delays 20-120 ms", DELAY).only_long();

    fn single_over_a_wire_that_duplicates() =
        wire(single, "single wire duplicates 20 %", DUPLICATES).only_long();

    fn single_over_a_wire_cut_towards_the_store() =
        cut(single, "single wire cut towards the store", NOT_SENT).only_long();

    fn single_over_a_wire_cut_from_the_store() =
        cut(single, "single wire cut from the store", NOT_RECEIVED).only_long();

    fn single_over_a_wire_cut_both_ways() =
        cut(single, "single wire cut both ways", NEITHER).only_long();

    fn single_over_a_rough_wire_beside_redisson() =
        wire(single, "single wire rough, Redisson", ROUGH).beside_redisson().only_long();

    fn single_over_a_wire_cut_both_ways_beside_redisson() =
        cut(single, "single wire cut, Redisson", NEITHER).beside_redisson().only_long();

    fn single_over_a_rough_wire_with_tls() =
        wire(single, "single wire rough, TLS", ROUGH).tls().only_long();

    fn single_over_a_wire_cut_both_ways_with_tls() =
        cut(single, "single wire cut both ways, TLS", NEITHER).tls().only_long();

    fn sentinel_over_a_wire_that_loses() =
        wire(sentinel, "sentinel wire loses 10 %", LOSS).only_long();

    fn sentinel_over_a_wire_that_delays_and_reorders() =
        wire(sentinel, "sentinel wire delays 20-120 ms", DELAY).only_long();

    fn sentinel_over_a_wire_cut_from_the_store() =
        cut(sentinel, "sentinel wire cut from the store", NOT_RECEIVED).only_long();

    fn sentinel_over_a_wire_cut_both_ways() =
        cut(sentinel, "sentinel wire cut both ways", NEITHER).only_long();

    fn sentinel_over_a_rough_wire_with_tls() =
        wire(sentinel, "sentinel wire rough, TLS", ROUGH).tls().only_long();

    fn sentinel_over_a_rough_wire_beside_redisson() =
        wire(sentinel, "sentinel wire rough, Redisson", ROUGH).beside_redisson().only_long();

    fn sentinel_master_killed_over_a_wire_that_loses() =
        sentinel("sentinel killed, wire loses 10 %", MasterKilledOverWire(LOSS))
            .network(OverWire)
            .only_long();

    fn cluster_over_a_wire_that_loses() =
        wire(cluster, "cluster wire loses 10 %", LOSS).only_long();

    fn cluster_over_a_wire_that_delays_and_reorders() =
        wire(cluster, "cluster wire delays 20-120 ms", DELAY).only_long();

    fn cluster_over_a_wire_that_duplicates() =
        wire(cluster, "cluster wire duplicates 20 %", DUPLICATES).only_long();

    fn cluster_over_a_wire_cut_towards_the_store() =
        cut(cluster, "cluster wire cut towards the store", NOT_SENT).only_long();

    fn cluster_over_a_rough_wire_with_tls() =
        wire(cluster, "cluster wire rough, TLS", ROUGH).tls().only_long();

    fn cluster_over_a_rough_wire_beside_redisson() =
        wire(cluster, "cluster wire rough, Redisson", ROUGH).beside_redisson().only_long();

    fn quorum_over_a_wire_that_loses() =
        wire(quorum, "quorum wire loses 10 %", LOSS).only_long();

    fn quorum_over_a_wire_that_delays_and_reorders() =
        wire(quorum, "quorum wire delays 20-120 ms", DELAY).only_long();

    fn quorum_over_a_rough_wire() =
        wire(quorum, "quorum wire does all of it", ROUGH);

    fn quorum_over_a_rough_wire_with_tls() =
        wire(quorum, "quorum wire does all of it, TLS", ROUGH).tls().only_long();

    fn quorum_over_a_wire_cut_from_the_store() =
        cut(quorum, "quorum wire cut from the store", NOT_RECEIVED).only_long();

    fn quorum_over_a_wire_cut_both_ways() =
        cut(quorum, "quorum wire cut both ways", NEITHER).only_long();

    // The lock is free as soon as the clock says so, and its holder hears of that with the next
    // renewal.
    fn single_clock_forward_by_less_than_a_lease() =
        single("single clock 3 s forward", ClocksStepped(3))
            .clocks(OfServers(1))
            .promises(TokensOnly)
            .may_lose()
            .only_long();

    fn single_clock_forward_by_a_minute() =
        single("single clock a minute forward", ClocksStepped(60))
            .clocks(OfServers(1))
            .promises(TokensOnly)
            .may_lose();

    fn single_clock_back_by_a_minute() =
        single("single clock a minute back", ClocksStepped(-60)).clocks(OfServers(1)).only_long();

    fn sentinel_clocks_forward_by_a_minute() =
        sentinel("sentinel clocks a minute forward", ClocksStepped(60))
            .clocks(OfServers(3))
            .only_long();

    fn sentinel_clocks_back_by_a_minute() =
        sentinel("sentinel clocks a minute back", ClocksStepped(-60))
            .clocks(OfServers(3))
            .promises(Exclusion)
            .only_long();

    fn cluster_clocks_forward_by_a_minute() =
        cluster("cluster clocks a minute forward", ClocksStepped(60))
            .clocks(OfServers(6))
            .only_long();

    fn cluster_clocks_back_by_a_minute() =
        cluster("cluster clocks a minute back", ClocksStepped(-60))
            .clocks(OfServers(6))
            .promises(Exclusion)
            .only_long();

    // A grant that a bare majority took is lost with its vote.
    fn quorum_clock_of_one_member_forward_by_a_minute() =
        quorum("quorum 1 of 5 clocks a minute forward", ClocksStepped(60))
            .clocks(OfServers(1))
            .promises(TokensOnly)
            .may_lose()
            .only_long();

    fn soak_single() =
        single("single soak", AnyOf(soak::SINGLE)).network(OfFirst).away(FREEZE).soak();

    fn soak_sentinel() =
        sentinel("sentinel soak", AnyOf(soak::SENTINEL))
            .network(OfFirst)
            .promises(TwoStores)
            .away(FREEZE)
            .soak();

    fn soak_cluster() =
        cluster("cluster soak", AnyOf(soak::CLUSTER))
            .network(OfFirst)
            .promises(TwoStores)
            .away(FREEZE)
            .soak();

    fn soak_quorum() =
        quorum("quorum soak", AnyOf(soak::QUORUM)).network(OfFirst).away(FREEZE).soak();

    fn coordinator_clock_forward_by_an_hour() =
        single("coordinator clock an hour forward", ClocksStepped(3600))
            .clocks(OfCoordinator)
            .harmless()
            .only_long();

    fn coordinator_clock_back_by_an_hour() =
        single("coordinator clock an hour back", ClocksStepped(-3600))
            .clocks(OfCoordinator)
            .harmless()
            .only_long();
}
