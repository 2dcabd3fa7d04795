//! What a run took place on, for people who read its figures.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::Command,
    time::SystemTime,
};

use super::{
    results::Machine,
    servers::{OTHER_STORES, Programs},
};

/// Looks around.
pub(super) fn look(programs: &Programs) -> Machine {
    let mut versions = BTreeMap::new();
    let mut know = |name: &str, version: Option<String>| {
        versions.insert(name.to_owned(), version.unwrap_or_else(unknown));
    };
    know("Lockkeeper", answer(&programs.coordinator, &["--version"]));
    know("Redis", answer(&programs.redis, &["--version"]));
    for store in OTHER_STORES {
        if let Some(server) = programs.other_stores.get(store.name) {
            know(store.title, answer(server, &["--version"]));
        }
    }
    know("Rust", answer(Path::new("rustc"), &["--version"]));
    if let Some(etcd) = &programs.etcd {
        know("etcd", answer(etcd, &["--version"]));
    }
    if let Some((agent, java)) = &programs.redisson {
        know("Java", answer(java, &["--version"]));
        know("Redisson", redisson(agent));
    }
    Machine {
        when: today(),
        commit: commit(),
        processor: processor().unwrap_or_else(unknown),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory: memory().unwrap_or_else(unknown),
        kernel: answer(Path::new("uname"), &["-sr"]).unwrap_or_else(unknown),
        versions,
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[expect(clippy::disallowed_methods, reason = "people want to know the day")]
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

fn commit() -> String {
    let commit = answer(Path::new("git"), &["describe", "--always", "--dirty"]);
    commit.unwrap_or_else(unknown)
}

/// The first line that a program prints.
fn answer(program: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    // What follows tells builds apart, not versions.
    let line = line.split(" sha=").next()?;
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// From the name of its archive.
fn redisson(agent: &Path) -> Option<String> {
    let libraries = fs::read_dir(agent.join("lib")).ok()?;
    let names = libraries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let names: Vec<_> = names.collect();
    names
        .iter()
        .map(OsString::as_os_str)
        .find_map(redisson_version)
}

fn redisson_version(archive: &OsStr) -> Option<String> {
    let version = archive.to_str()?.strip_prefix("redisson-")?;
    let version = version.strip_suffix(".jar")?;
    let is_version = version.starts_with(|first: char| first.is_ascii_digit());
    is_version.then(|| version.to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    value(&text, "model name")
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes: u64 = value(&text, "MemTotal")?
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(format!("{} GiB", (kibibytes + (1 << 19)) >> 20))
}

fn value(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "model\t\t: 85\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(value(text, "model name").unwrap(), "Some CPU @ 2 GHz");
        assert_eq!(value(text, "name"), None);
    }

    #[test]
    fn the_version_of_redisson_stands_in_a_name() {
        let version = |name: &str| redisson_version(OsStr::new(name));
        assert_eq!(version("redisson-4.7.0.jar").unwrap(), "4.7.0");
        assert_eq!(version("redisson-tools.jar"), None);
        assert_eq!(version("netty-4.1.jar"), None);
    }

    #[test]
    fn a_program_that_is_not_there_answers_nothing() {
        assert_eq!(answer(Path::new("no-such-program-anywhere"), &[]), None);
    }
}
