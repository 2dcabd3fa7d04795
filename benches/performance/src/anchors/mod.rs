//! What Lockkeeper is compared with: `bare` and `raw` are the two halves of what it does and make
//! the floor; the others are peers.

pub(crate) mod bare;
pub(crate) mod etcd;
pub(crate) mod raw;
pub(crate) mod rslock;
