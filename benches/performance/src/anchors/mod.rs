//! What Lockkeeper is compared with: `bare` and `rslock` are the two halves of what it does and make
//! the floor; `rslock` and `etcd` are peers.

pub(crate) mod bare;
pub(crate) mod etcd;
pub(crate) mod rslock;
