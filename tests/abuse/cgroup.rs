//! A memory control group, of version 1 or 2, for one process.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// As deploy/ gives a coordinator.
const MEMORY: u64 = 512 << 20;

/// How often a group is removed whose process has just ended.
const REMOVALS_MAX: u32 = 100;

/// A group that ends with this.
pub(crate) struct Cgroup {
    folder: PathBuf,
    /// The most memory that was in use, with buffers of the system and pages of files.
    peak: &'static str,
}

// === impl Cgroup ===

impl Cgroup {
    /// Fails if this machine has no memory controller that this user may use.
    pub(crate) fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lockkeeper-abuse-{}-{number}", process::id());
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let (root, own, limit, peak) = controller(&groups).ok_or_else(|| {
            let why = "this machine has no memory controller of control groups";
            io::Error::new(io::ErrorKind::Unsupported, why)
        })?;
        let folder = Path::new(root).join(own.trim_start_matches('/')).join(name);
        fs::create_dir(&folder)?;
        let group = Self { folder, peak };
        fs::write(group.folder.join(limit), MEMORY.to_string())?;
        Ok(group)
    }

    /// Words before a program that start it in this group.
    pub(crate) fn launcher(&self) -> [String; 4] {
        let processes = self.folder.join("cgroup.procs").display().to_string();
        let enter = r#"echo $$ >"$0" && exec "$@""#;
        ["sh", "-c", enter, &processes].map(str::to_owned)
    }

    pub(crate) fn peak(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.peak)).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where the controller is, this process's own group there, and the names of two of its files: the
/// limit and the peak.
fn controller(groups: &str) -> Option<(&str, &str, &'static str, &'static str)> {
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let version_1 = ("memory.limit_in_bytes", "memory.max_usage_in_bytes");
    let version_2 = ("memory.max", "memory.peak");
    for (controllers, own) in lines {
        if controllers.split(',').any(|it| it == "memory") {
            return Some(("/sys/fs/cgroup/memory", own, version_1.0, version_1.1));
        }
        let root = "/sys/fs/cgroup";
        let all = fs::read_to_string(Path::new(root).join("cgroup.subtree_control"));
        if controllers.is_empty() && all.is_ok_and(|it| it.contains("memory")) {
            // Below a group that has processes none can be limited.
            return Some((root, "", version_2.0, version_2.1));
        }
    }
    None
}
