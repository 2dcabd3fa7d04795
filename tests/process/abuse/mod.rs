//! Clients that mean harm, or behave as if: what they use up is bounded, they are refused or cut
//! off, and others are served all the while.

mod admin_port;
mod bursts;
mod files;
mod floods;
mod logs;
mod many;
mod masses;
mod messages;
mod readers;
mod strangers;

use std::net::{Ipv4Addr, SocketAddr};

use lockkeeper_testkit::frames;
use tokio::{net::TcpSocket, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::prelude::*;

/// How long a lock may take that somebody else asks for meanwhile, on a machine that is busy with
/// this and with other tests.
const SERVED_WITHIN: Duration = secs(3);

const PAUSE: Duration = millis(10);

/// How long it may take until a connection is let in or closed.
const ANSWERED_WITHIN: Duration = secs(15);

const MIB: u64 = 1 << 20;

/// A coordinator that is abused, and somebody who needs it.
struct Scene {
    coordinator: Coordinator,
    /// Its memory before anything has happened, in bytes.
    memory: u64,
    stop: CancellationToken,
    bystander: JoinHandle<(u32, Duration)>,
}

// === impl Scene ===

impl Scene {
    async fn begin() -> Self {
        Self::begin_with(Settings::on("embedded:")).await
    }

    async fn begin_with(settings: Settings) -> Self {
        let coordinator = Coordinator::start(&settings).await;
        let mut client = coordinator.client().await;
        // The first call warms up what every later one needs.
        client.try_acquire("warm", "a", secs(1)).await.unwrap();
        let memory = coordinator.memory();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let bystander = spawn_detached("bystander", async move {
            let (mut served, mut longest) = (0, Duration::ZERO);
            loop {
                let asked = Instant::now();
                // One that nobody else has, should the last one's release have come after its
                // lease.
                let name = format!("needed-{served}");
                assert!(client.gets_for(&name, "b", secs(2)).await);
                longest = longest.max(asked.elapsed());
                let _ = client.release(&name, "b").await;
                served += 1;
                if stopped.is_cancelled() {
                    return (served, longest);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self {
            coordinator,
            memory,
            stop,
            bystander,
        }
    }

    /// What the coordinator has taken on top of what it began with.
    fn grown(&self) -> u64 {
        self.coordinator.memory().saturating_sub(self.memory)
    }

    /// The coordinator has not grown by more than this, or gives it back soon, and whoever needed
    /// it was served.
    async fn end(self, grown_max: u64) {
        measured_bytes("the memory on top, just after", self.grown());
        eventually("its memory comes back", || async {
            self.grown() < grown_max
        })
        .await;
        let grown = self.grown();
        self.stop.cancel();
        let (served, longest) = self.bystander.await.unwrap();
        measured("the longest of the others' calls", longest);
        measured_bytes("the memory on top", grown);
        self.coordinator.assert_alive();
        assert!(served > 0 && longest < SERVED_WITHIN, "{longest:?}");
    }
}

/// Shows a size that a test has measured, with `--nocapture`.
#[expect(clippy::print_stderr, reason = "for whoever runs the test to see")]
fn measured_bytes(what: &str, bytes: u64) {
    eprintln!("measured: {what}: {} kB", bytes / 1024);
}

/// Shows how much of a time was used.
#[expect(clippy::print_stderr, reason = "for whoever runs the test to see")]
fn measured_share(what: &str, used: Duration, of: Duration) {
    eprintln!("measured: {what}: {used:?} of {of:?}");
}

/// Begins a connection as a client does: none if it is closed before anything comes back. An answer
/// of either kind must come.
async fn attempt(address: SocketAddr, from: Option<Ipv4Addr>) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(from) = from {
        socket.bind((from, 0).into()).unwrap();
    }
    let mut stream = socket.connect(address).await.unwrap();
    // It may be closed already.
    let _ = stream.write_all(&frames::opening()).await;
    let mut answer = [0];
    let read = timeout(ANSWERED_WITHIN, stream.read(&mut answer)).await;
    let read = read.expect("an answer, or an end");
    matches!(read, Ok(1)).then_some(stream)
}
