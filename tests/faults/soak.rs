//! What happens to each kind of store in the soak: whatever keeps its promise. The first
//! coordinator is killed, frozen and cut off from the store, too.

use crate::{
    fault::Fault::{
        self, Busy, ClientsKilled, CoordinatorFrozen, CoordinatorKilled, CutOff, MasterFrozen,
        MasterKilled, MembersDown, OutOfMemory, ReplicasAway, ReplicasFrozen, ScriptsFlushed,
        SlotMoved, WritesLost,
    },
    rows::{BUSY, FREEZE},
};

pub(crate) const SINGLE: &[Fault] = &[
    MasterKilled,
    MasterFrozen(FREEZE),
    CutOff(FREEZE),
    ScriptsFlushed(BUSY),
    ClientsKilled("normal", BUSY),
    ClientsKilled("pubsub", BUSY),
    OutOfMemory(BUSY),
    Busy(BUSY),
    CoordinatorKilled,
    CoordinatorFrozen(FREEZE),
];
pub(crate) const SENTINEL: &[Fault] = &[
    MasterKilled,
    MasterFrozen(FREEZE),
    CutOff(FREEZE),
    ScriptsFlushed(BUSY),
    ClientsKilled("normal", BUSY),
    ClientsKilled("pubsub", BUSY),
    WritesLost(BUSY),
    ReplicasAway(BUSY),
    ReplicasFrozen(BUSY),
    CoordinatorKilled,
    CoordinatorFrozen(FREEZE),
];
pub(crate) const CLUSTER: &[Fault] = &[
    MasterKilled,
    MasterFrozen(FREEZE),
    CutOff(FREEZE),
    ScriptsFlushed(BUSY),
    ClientsKilled("pubsub", BUSY),
    SlotMoved(BUSY),
    CoordinatorKilled,
    CoordinatorFrozen(FREEZE),
];
pub(crate) const QUORUM: &[Fault] = &[
    MembersDown(2, FREEZE),
    MembersDown(3, FREEZE),
    CutOff(FREEZE),
    ScriptsFlushed(BUSY),
    ClientsKilled("normal", BUSY),
    ClientsKilled("pubsub", BUSY),
    CoordinatorKilled,
    CoordinatorFrozen(FREEZE),
];
