//! A row: an attack, while a neighbour is at work.

use std::{fs, time::Duration};

use nix::unistd::gettid;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::{Builder, Runtime},
    time::{Instant, sleep, timeout},
};

use crate::{
    attacks::{Attack, Did},
    form::Form,
    heartbeat,
    judgement::{Figures, Verdict},
    redis_server::eventually,
    scene::{Log, Scene, Who},
    target::Target,
    time::{say, secs},
    victim::Victim,
};

/// An attack that takes longer than it should by this is stuck.
const PATIENCE: Duration = secs(20);

/// How long a probe may take.
const PROBE_MAX: Duration = secs(5);

/// How much nicer attackers are than the coordinator and its neighbour: they would have machines
/// of their own.
const NICER: i64 = 10;

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// For the table: the attack, and what it did before it was mended.
    pub(crate) text: &'static str,
    pub(crate) before: &'static str,
    /// What others have written to the store before.
    pub(crate) plant: Option<Attack>,
    pub(crate) attack: Attack,
    pub(crate) log: Log,
    /// Why the victim's times show nothing about the coordinator, if so.
    pub(crate) untimed: Option<&'static str>,
}

/// The last run of a row.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) figures: Figures,
    pub(crate) verdict: Verdict,
}

// === impl Row ===

impl Row {
    /// Repeats it as long as it shows nothing.
    pub(crate) fn run(&self, form: Form) -> Ran {
        let mut number = 0;
        loop {
            let figures = self.run_once(form);
            let verdict = figures.verdict(form, self.untimed.is_none());
            say(&format!("{}: {verdict:?}: {figures}", self.name));
            match &verdict {
                Verdict::Void(_) if number < form.repeats => number += 1,
                _ => return Ran { figures, verdict },
            }
        }
    }

    fn run_once(&self, form: Form) -> Figures {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let attackers = attackers();
        let figures = runtime.block_on(self.measured(form, &attackers));
        attackers.shutdown_background();
        figures
    }

    async fn measured(&self, form: Form, attackers: &Runtime) -> Figures {
        let scene = Scene::start(form, self.log).await;
        let target = Target::of(&scene, form);
        if let Some(plant) = self.plant {
            plant(target.clone()).await.unwrap();
            // It may have kept the store for so long that its connections were given up.
            let client = target.client(Who::Victim).await;
            eventually("the store serves again", || async {
                let mut client = client.clone();
                client
                    .try_acquire("victim/again", "v", secs(1))
                    .await
                    .is_ok()
            })
            .await;
        }
        let victim = Victim::start(target.address, form.lease).await;
        // The first calls warm up what later ones need.
        sleep(form.quiet / 4).await;
        let quiet = Instant::now();
        sleep(form.quiet).await;
        let begun = Instant::now();
        let attack = attackers.spawn((self.attack)(target.clone()));
        let did = timeout(form.attack + PATIENCE, attack).await;
        let did: Did = match did {
            Ok(ended) => ended.unwrap_or_else(|why| Err(format!("the attack failed: {why}"))),
            Err(_elapsed) => Err("the attack is stuck".to_owned()),
        };
        let ended = Instant::now();
        let is_live = timeout(PROBE_MAX, probe(&target)).await;
        let experience = victim.end();
        let coordinator = &scene.coordinator;
        Figures {
            quiet: experience.pace(quiet, begun),
            attacked: experience.pace(begun, ended),
            took: ended - begun,
            lateness: heartbeat::lateness(begun, ended),
            memory: coordinator.is_alive().then(|| coordinator.peak_memory()),
            group_memory: scene.cgroup.as_ref().map(crate::cgroup::Cgroup::peak),
            lost: experience.lost,
            error: experience.error,
            is_live: matches!(is_live, Ok(Ok(true))),
            did,
        }
    }
}

/// Whether the process says that it lives.
async fn probe(target: &Target) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(target.admin).await?;
    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

/// Threads that give way to those of others.
fn attackers() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| {
            let thread = gettid().to_string();
            let nice = (own_niceness() + NICER).min(19).to_string();
            let reniced = std::process::Command::new("renice")
                .args(["-n", &nice, "-p", &thread])
                .stdout(std::process::Stdio::null())
                .status();
            assert!(reniced.unwrap().success(), "renice");
        })
        .enable_all()
        .build()
        .unwrap()
}

/// The niceness of this process.
fn own_niceness() -> i64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(16).unwrap().parse().unwrap()
}
