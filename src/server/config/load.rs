//! Merges the sources of settings. Refuses evident mistakes, naming the key and its source.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use config::{Config, ConfigError, File, FileFormat};
use humantime_serde::re::humantime;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use super::{Secret, Settings, StoreUrl, validate};

const ENVIRONMENT_PREFIX: &str = "LOCKKEEPER__";

/// Keys whose value is a word or a number.
const NUMBERS_TOO: [&str; 1] = ["store.replica_acks"];
/// The lists among the settings, apart from the rules. Outside TOML, lists are words separated by
/// spaces.
const LISTS: [&str; 4] = [
    "store.quorum",
    "server.allowed_hosts",
    "admin.allowed_hosts",
    "admin.metric_prefixes",
];

/// The sources of settings; later fields override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables; only those that start with `LOCKKEEPER__` are read.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags of the command line.
    pub flags: Vec<Flag>,
}

/// A setting from the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The flag as the user wrote it, for messages.
    pub flag: String,
    /// `section.key`.
    pub key: String,
    /// The value.
    pub value: String,
}

/// The settings are unusable.
#[derive(Debug, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct Refused {
    problems: Vec<String>,
}

/// The known keys with their types, and the source of each setting.
struct Keys {
    known: BTreeMap<String, Value>,
    origins: HashMap<String, String>,
    problems: Vec<String>,
}

// === impl Sources ===

impl Sources {
    /// The process's environment only.
    pub fn from_process() -> Self {
        Self {
            environment: std::env::vars_os().collect(),
            ..Self::default()
        }
    }

    /// Loads and checks the settings. Fails with every problem found.
    pub fn load(&self) -> Result<Settings, Refused> {
        let text = match &self.file {
            Some(path) => fs::read_to_string(path).map_err(|error| in_file(path, &error))?,
            None => String::new(),
        };
        self.load_with(&text)
    }

    /// The same with this text as the file's.
    pub fn load_with(&self, text: &str) -> Result<Settings, Refused> {
        let mut keys = Keys::new();
        self.note_file(text, &mut keys)?;
        let mut given = self.read_environment(&mut keys);
        for Flag { flag, key, value } in &self.flags {
            keys.note_text(key, value, flag);
            given.push((key.clone(), value.as_str()));
        }
        keys.refuse_problems()?;

        let mut builder = Config::builder().add_source(File::from_str(text, FileFormat::Toml));
        for (key, value) in given {
            let set = if LISTS.contains(&key.as_str()) {
                let words: Vec<&str> = value.split_whitespace().collect();
                builder.set_override(key, words)
            } else {
                builder.set_override(key, value)
            };
            builder = set.map_err(|error| keys.refused(&error))?;
        }
        let mut settings: Settings = builder
            .build()
            .and_then(Config::try_deserialize)
            .map_err(|error| keys.refused(&error))?;

        read_secret(&mut settings, &mut keys);
        read_password(&mut settings, &mut keys);
        validate::check(&settings, &mut |key, problem| keys.problem(key, &problem));
        keys.refuse_problems()?;
        Ok(settings)
    }

    /// Warns of flags that have a secret.
    pub fn warn_of_exposed(&self) {
        for (flag, instead) in self.exposed() {
            tracing::warn!(
                flag,
                instead,
                "every user of this machine can read a secret on the command line"
            );
        }
    }

    /// Warns of variables that look like settings and are none.
    pub fn warn_of_ignored(&self) {
        for (variable, meant) in self.ignored() {
            tracing::warn!(
                variable,
                meant,
                "an environment variable is ignored: sections and keys are separated by __"
            );
        }
    }

    /// Variables with one underscore where a setting has two, each with the setting's variable.
    pub(super) fn ignored(&self) -> Vec<(&str, String)> {
        let keys = Keys::new();
        let variables = self.environment.iter();
        let variables = variables.filter_map(|(variable, _)| variable.to_str());
        let meant = variables.filter_map(|variable| {
            let rest = variable.strip_prefix("LOCKKEEPER_")?;
            let is_it = |key: &&String| key.replace('.', "_").eq_ignore_ascii_case(rest);
            let key = keys.known.keys().find(is_it)?;
            let key = key.to_uppercase().replace('.', "__");
            Some((variable, format!("{ENVIRONMENT_PREFIX}{key}")))
        });
        meant.collect()
    }

    /// The flags that have a secret, each with the key of a file to keep it in instead.
    pub(super) fn exposed(&self) -> Vec<(&str, &'static str)> {
        let flags = self.flags.iter();
        flags
            .filter_map(|it| Some((it.flag.as_str(), instead(&it.key, &it.value)?)))
            .collect()
    }

    /// Whether the file has a secret.
    pub(crate) fn has_secret_in_file(&self) -> bool {
        let file = self.file.as_ref();
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        let table = text.and_then(|text| text.parse::<Table>().ok());
        let values = leaves(&table.unwrap_or_default());
        values.into_iter().any(|(key, value)| match value {
            Value::String(text) => instead(&key, &text).is_some(),
            Value::Array(several) => several
                .iter()
                .any(|it| it.as_str().is_some_and(|it| instead(&key, it).is_some())),
            _ => false,
        })
    }

    fn note_file(&self, text: &str, keys: &mut Keys) -> Result<(), Refused> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        // The parser's own report quotes the text, which may hold a secret.
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            let problem = format!("line {line}: {}", error.message().trim_end());
            in_file(path, &problem)
        })?;
        let lines = lines(text);
        for (key, value) in leaves(&table) {
            let file = path.display();
            let origin = match lines.get(&key) {
                Some(line) => format!("{file}, line {line}"),
                None => file.to_string(),
            };
            keys.note(&key, Some(&value), &origin);
        }
        Ok(())
    }

    /// The keys and values of the environment.
    fn read_environment(&self, keys: &mut Keys) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        for (variable, value) in &self.environment {
            let variable = variable.to_str().unwrap_or_default();
            let Some(key) = variable.strip_prefix(ENVIRONMENT_PREFIX) else {
                continue;
            };
            let (key, text) = (key.to_lowercase().replace("__", "."), value.to_str());
            let origin = format!("environment variable {variable}");
            keys.note_text(&key, text.unwrap_or_default(), &origin);
            match text {
                Some(text) => found.push((key, text)),
                None => keys.problem(&key, "not UTF-8"),
            }
        }
        found
    }
}

/// The key of a file to keep the secret of this setting in, if it has one.
fn instead(key: &str, value: &str) -> Option<&'static str> {
    let has_password = |url: &str| {
        let url = StoreUrl::from(url);
        url.redacted() != url.expose()
    };
    match key {
        "session.secret" if !value.is_empty() => Some("session.secret_file"),
        "store.url" | "store.quorum" if value.split_whitespace().any(has_password) => {
            Some("store.password_file")
        }
        _ => None,
    }
}

fn in_file(path: &Path, problem: &dyn std::fmt::Display) -> Refused {
    Refused {
        problems: vec![format!("{}: {problem}", path.display())],
    }
}

// === impl Keys ===

impl Keys {
    fn new() -> Self {
        Self {
            known: values(&Settings::default()),
            origins: HashMap::new(),
            problems: Vec::new(),
        }
    }

    /// Records the source of a key. A value is given where its type is known: the `config` crate
    /// would convert, and round 2.5 connections to 3.
    fn note(&mut self, key: &str, value: Option<&Value>, origin: &str) {
        let Some(default) = self.known.get(key) else {
            let meant = self.nearest(key);
            let meant = meant.map_or_else(String::new, |it| format!("; did you mean {it}?"));
            self.problems
                .push(format!("unknown key {key} ({origin}){meant}"));
            return;
        };
        let expected = default.type_str();
        self.origins.insert(key.to_owned(), origin.to_owned());
        let is_number = value.is_some_and(Value::is_integer);
        if is_number && NUMBERS_TOO.contains(&key) {
            return;
        }
        if value.is_some_and(|value| value.type_str() != expected) {
            let default = default.as_str().map(humantime::parse_duration);
            let why = match default {
                Some(Ok(_)) => "must be a duration in quotes, such as \"30s\"".to_owned(),
                _ => format!("must be of type {expected}"),
            };
            self.problem(key, &why);
        }
    }

    /// The same of a text. The `config` crate would take `true` for the number 1.
    fn note_text(&mut self, key: &str, text: &str, origin: &str) {
        self.note(key, None, origin);
        let known = self.known.get(key);
        let is_number = known.is_some_and(|it| it.is_integer() || it.is_float());
        if is_number && text.parse::<f64>().is_err() {
            self.problem(key, "must be a number");
        }
    }

    /// The known key that is most like this one, if any is.
    fn nearest(&self, key: &str) -> Option<&str> {
        const UNLIKE: usize = 3;
        let known = self.known.keys();
        let known = known.map(|it| (strsim::damerau_levenshtein(it, key), it));
        let (changes, nearest) = known.min()?;
        (changes < UNLIKE).then_some(nearest.as_str())
    }

    fn problem(&mut self, key: &str, problem: &str) {
        // Of a rule, the list of rules is known: `access.rules[0]allow[1]`.
        let list = key.split('[').next().unwrap_or(key);
        let origin = self.origins.get(list);
        let origin = origin.map_or_else(String::new, |origin| format!(" ({origin})"));
        let key = key.replace(']', "].");
        let key = key.trim_end_matches('.');
        self.problems.push(format!("{key}: {problem}{origin}"));
    }

    fn refuse_problems(&mut self) -> Result<(), Refused> {
        match std::mem::take(&mut self.problems) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(Refused { problems }),
        }
    }

    /// Translates an error of the `config` crate, which names neither the file nor the variable.
    fn refused(&mut self, error: &ConfigError) -> Refused {
        let (key, problem) = match error {
            ConfigError::At { error, key, .. } => (key.as_deref(), error.to_string()),
            ConfigError::Type {
                unexpected,
                expected,
                key,
                ..
            } => (
                key.as_deref(),
                format!("expected {expected}, found {unexpected}"),
            ),
            ConfigError::NotFound(key) => (Some(key.as_str()), "is missing".to_owned()),
            other => (None, other.to_string()),
        };
        let problem = if problem.ends_with("expected a duration") {
            format!("{problem}, such as \"30s\" or \"1m 30s\"")
        } else {
            problem
        };
        match key {
            Some(key) => self.problem(key, &problem),
            None => self.problems.push(problem),
        }
        Refused {
            problems: std::mem::take(&mut self.problems),
        }
    }
}

fn read_secret(settings: &mut Settings, keys: &mut Keys) {
    let session = &mut settings.session;
    if session.secret_file.as_os_str().is_empty() {
        return;
    }
    if !session.secret.is_empty() {
        keys.problem(
            "session.secret_file",
            "must not be set together with session.secret",
        );
        return;
    }
    if let Some(secret) = read_line("session.secret_file", &session.secret_file, keys) {
        session.secret = Secret::from(secret);
    }
}

fn read_password(settings: &mut Settings, keys: &mut Keys) {
    const KEY: &str = "store.password_file";
    let store = &mut settings.store;
    if store.password_file.as_os_str().is_empty() {
        return;
    }
    let Some(password) = read_line(KEY, &store.password_file, keys) else {
        return;
    };
    let urls = match store.quorum.as_mut_slice() {
        [] => std::slice::from_mut(&mut store.url),
        several => several,
    };
    for url in urls {
        match url.with_password(&password) {
            Some(with_it) => *url = with_it,
            None => keys.problem(
                KEY,
                "must not be set with a password in the address, or with a store that has none",
            ),
        }
    }
}

/// The contents of a secret's file, without surrounding white space.
fn read_line(key: &str, path: &Path, keys: &mut Keys) -> Option<String> {
    match fs::read_to_string(path) {
        // An empty file would silently mean no secret, or a random one.
        Ok(text) if text.trim().is_empty() => keys.problem(key, "is empty"),
        Ok(text) => return Some(text.trim().to_owned()),
        Err(error) => keys.problem(key, &format!("{}: {error}", path.display())),
    }
    None
}

/// The values of settings by their keys.
pub(super) fn values(settings: &Settings) -> BTreeMap<String, Value> {
    let table = Table::try_from(settings);
    BTreeMap::from_iter(leaves(&table.expect("settings are plain tables")))
}

/// The `section.key` and value of every setting. An empty section yields none; any other empty
/// table may be a misspelt key.
fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        collect(key.clone(), value, &mut found);
    }
    found
}

/// The line of each `section.key` of a file.
fn lines(text: &str) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    let Ok(table) = DeTable::parse(text) else {
        return found;
    };
    let mut tables = vec![(String::new(), table.into_inner())];
    while let Some((prefix, table)) = tables.pop() {
        for (key, value) in table {
            let path = format!("{prefix}{}", key.get_ref());
            found.insert(path.clone(), line_at(text, key.span().start));
            if let DeValue::Table(inner) = value.into_inner() {
                tables.push((format!("{path}."), inner));
            }
        }
    }
    found
}

fn line_at(text: &str, byte: usize) -> usize {
    let before = &text.as_bytes()[..byte.min(text.len())];
    before.split(|it| *it == b'\n').count()
}

fn collect(path: String, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Table(keys) if !keys.is_empty() || Settings::SECTIONS.contains(&path.as_str()) => {
            for (key, value) in keys {
                collect(format!("{path}.{key}"), value, found);
            }
        }
        other => found.push((path, other.clone())),
    }
}
