//! Protocols of other systems, by their own messages.

mod dapr;
mod etcd;
mod etcd_election;
mod etcd_rights;
mod promises;
mod terraform;
