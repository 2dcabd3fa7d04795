//! A wire in user space: two TUN devices, one here and one in a network namespace of its own, and
//! tasks that carry packets between them. They can lose, delay, reorder and duplicate what they
//! carry. Nothing of it has a name, so that all of it ends with the process.

use std::{
    error::Error,
    fs::File,
    net::Ipv4Addr,
    ops::Range,
    os::fd::AsRawFd as _,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use lockkeeper_base::tasks::spawn_detached;
use nix::sched::{CloneFlags, unshare};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::sleep};
use tokio_tun::Tun;
use tokio_util::task::AbortOnDropHandle;

/// Networks for tests of networks (RFC 2544), which nobody routes: 198.18.0.0/15.
const NETWORKS: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const NETWORKS_BITS: u32 = 17;

/// Each wire has a network of four addresses, of which two are of hosts.
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);
const NETWORK_BITS: u32 = 2;

/// Longer than any packet that the devices take.
const PACKET_MAX: usize = 2048;

/// What happens to the packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairment {
    /// So many of a hundred are lost.
    pub loss: u8,
    /// So many of a hundred arrive twice.
    pub duplicates: u8,
    /// Least and most delay in milliseconds. Packets overtake each other if these differ.
    pub delay: (u16, u16),
}

/// A wire, and the namespace at its far end.
pub struct Wire {
    /// The address of this end.
    pub near: Ipv4Addr,
    /// The address of the end in the namespace.
    pub far: Ipv4Addr,
    namespace: File,
    from_far: Arc<Way>,
    to_far: Arc<Way>,
    _carriers: [AbortOnDropHandle<()>; 2],
}

/// One direction.
#[derive(Default)]
struct Way {
    impairment: Mutex<Impairment>,
    /// How many packets were lost, delayed or duplicated.
    impaired: AtomicUsize,
}

// === impl Impairment ===

impl Impairment {
    /// All packets arrive at once, and once.
    pub const NONE: Self = Self {
        loss: 0,
        duplicates: 0,
        delay: (0, 0),
    };

    /// No packet arrives.
    pub const CUT: Self = Self {
        loss: 100,
        ..Self::NONE
    };

    /// How often a packet arrives.
    fn copies(self) -> usize {
        let is_one_of = |percent: u8| rand::random_range(0..100) < percent;
        match (is_one_of(self.loss), is_one_of(self.duplicates)) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        }
    }

    fn delay(self) -> Duration {
        let (least, most) = self.delay;
        Duration::from_millis(rand::random_range(least..=most).into())
    }
}

impl Default for Impairment {
    fn default() -> Self {
        Self::NONE
    }
}

// === impl Wire ===

impl Wire {
    /// Makes namespace, devices and carriers. Says what it needs if that is missing.
    pub fn lay() -> Result<Self, String> {
        Self::try_lay().map_err(|error| format!("needs root and /dev/net/tun: {error}"))
    }

    fn try_lay() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let networks: Range<u32> = 0..1 << (NETWORKS_BITS - NETWORK_BITS);
        let network = NETWORKS + (rand::random_range(networks) << NETWORK_BITS);
        let [near, far] = [1, 2].map(|host| Ipv4Addr::from(network + host));
        let near_end = device(near)?;
        let runtime = Handle::current();
        // Only this thread changes its namespace.
        let enter = move || -> Result<_, Box<dyn Error + Send + Sync>> {
            let _runtime = runtime.enter();
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok((device(far)?, File::open("/proc/thread-self/ns/net")?))
        };
        let entered = thread::spawn(enter).join().expect("it does not panic");
        let (far_end, namespace) = entered?;
        let (from_far, to_far) = (Arc::<Way>::default(), Arc::<Way>::default());
        let carriers = [
            (far_end.clone(), near_end.clone(), from_far.clone()),
            (near_end, far_end, to_far.clone()),
        ];
        let carriers = carriers.map(|(from, to, way)| {
            AbortOnDropHandle::new(spawn_detached("carrier", carry(from, to, way)))
        });
        Ok(Self {
            near,
            far,
            namespace,
            from_far,
            to_far,
            _carriers: carriers,
        })
    }

    /// The words that start a program in the namespace.
    pub fn launcher(&self) -> [String; 2] {
        let (process, file) = (process::id(), self.namespace.as_raw_fd());
        let namespace = format!("--net=/proc/{process}/fd/{file}");
        ["nsenter".to_owned(), namespace]
    }

    /// From now on, what comes from the far end suffers this, and what goes there that.
    pub fn impair(&self, from_far: Impairment, to_far: Impairment) {
        *self.from_far.impairment.lock() = from_far;
        *self.to_far.impairment.lock() = to_far;
    }

    /// How many packets were lost, delayed or duplicated so far.
    pub fn impaired(&self) -> usize {
        let ways = [&self.from_far, &self.to_far];
        ways.map(|it| it.impaired.load(Ordering::Relaxed))
            .iter()
            .sum()
    }
}

/// A device with this address in the namespace of this thread; the kernel names it.
fn device(address: Ipv4Addr) -> Result<Arc<Tun>, tokio_tun::Error> {
    let device = Tun::builder().address(address).netmask(NETMASK).up();
    let mut queues = device.build()?;
    Ok(Arc::new(queues.remove(0)))
}

async fn carry(from: Arc<Tun>, to: Arc<Tun>, way: Arc<Way>) {
    let mut buffer = vec![0; PACKET_MAX];
    while let Ok(length) = from.recv(&mut buffer).await {
        let packet = &buffer[..length];
        let impairment = *way.impairment.lock();
        let copies = impairment.copies();
        let delays: Vec<_> = (0..copies).map(|_| impairment.delay()).collect();
        if delays != [Duration::ZERO] {
            way.impaired.fetch_add(1, Ordering::Relaxed);
        }
        for delay in delays {
            if delay.is_zero() {
                // A device whose queue is full loses packets, as all networks do.
                let _ = to.send(packet).await;
                continue;
            }
            let (to, packet) = (to.clone(), packet.to_vec());
            spawn_detached("packet", async move {
                sleep(delay).await;
                let _ = to.send(&packet).await;
            });
        }
    }
}
