//! The generated messages and services of `proto/etcd`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated code"
)]

pub mod mvccpb {
    include!("../generated/mvccpb.rs");
}

pub mod etcdserverpb {
    include!("../generated/etcdserverpb.rs");
}

pub mod v3lockpb {
    include!("../generated/v3lockpb.rs");
}

pub mod v3electionpb {
    include!("../generated/v3electionpb.rs");
}
