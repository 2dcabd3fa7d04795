//! The memory that the process may use.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The smallest of the limits of the process's control groups and the machine's memory, in bytes.
/// None where neither can be read.
pub(crate) fn allowed() -> Option<u64> {
    allowed_below(Path::new("/"))
}

fn allowed_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limits(root, line));
    limits.chain(total(root)).min()
}

/// The limits of a line of `/proc/self/cgroup`, as `0::/path` (version 2) or `4:memory:/path`
/// (version 1), and of the groups above it.
fn limits(root: &Path, line: &str) -> Vec<u64> {
    let mut words = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (words.next(), words.next()) else {
        return Vec::new();
    };
    let (below, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|it| it == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    let top = root.join(below);
    let group = top.join(path.trim_start_matches('/'));
    // In a container the path may be that of the machine, of which only the top is visible.
    let groups = group.ancestors().take_while(|it| it.starts_with(&top));
    let files: Vec<PathBuf> = groups.map(|it| it.join(file)).collect();
    files.iter().filter_map(|file| number(file)).collect()
}

/// None also for `max`.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn total(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        allowed_below(root.path())
    }

    #[test]
    fn the_smallest_limit_counts() {
        let memory = ("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\n");
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[memory]), Some(1_024_000));
        let second = [
            memory,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "5000\n"),
        ];
        assert_eq!(machine(&second), Some(5000));
        let container = [
            memory,
            ("proc/self/cgroup", "0::/../not/visible\n"),
            ("sys/fs/cgroup/memory.max", "7000\n"),
        ];
        assert_eq!(machine(&container), Some(7000));
        let first = [
            memory,
            ("proc/self/cgroup", "5:cpu:/x\n4:memory,hugetlb:/x\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "6000\n"),
        ];
        assert_eq!(machine(&first), Some(6000));
        let none = [
            memory,
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(machine(&none), Some(1_024_000));
    }
}
