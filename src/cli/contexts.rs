//! Coordinators with their credentials by name, in `contexts.toml`. It has no secrets, only the
//! files that hold them.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use lockkeeper_client::Error;
use serde::{Deserialize, Serialize};

/// A coordinator, and the credentials for it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) server: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) certificate_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
}

/// The contents of the file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The one that is used if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    pub(crate) contexts: BTreeMap<String, Context>,
}

// === impl Contexts ===

impl Contexts {
    /// Reads the file; without one there are no contexts.
    pub(crate) fn read() -> Result<Self, Error> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| unusable(&path, &error))?,
        };
        toml::from_str(&text).map_err(|error| unusable(&path, &error.message()))
    }

    /// Writes the file, as a whole.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let Some(path) = path() else {
            let why = "no folder for contexts.toml: set HOME or XDG_CONFIG_HOME";
            return Err(Error::Misconfigured(why.to_owned()));
        };
        let text = toml::to_string(self).map_err(|error| unusable(&path, &error))?;
        replace(&path, &text).map_err(|error| unusable(&path, &error))
    }

    /// The context with this name; without a name the current one, if there is one.
    pub(crate) fn find(mut self, name: Option<&str>) -> Result<Option<Context>, Error> {
        let Some(name) = name.or(self.current.as_deref()).map(str::to_owned) else {
            return Ok(None);
        };
        match self.contexts.remove(&name) {
            Some(context) => Ok(Some(context)),
            None => Err(self.unknown(&name)),
        }
    }

    /// The error for a name that no context has.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "`lockkeeper context set` creates one".to_owned(),
            several => format!("the contexts are: {}", several.join(", ")),
        };
        Error::Misconfigured(format!("there is no context {name}; {known}"))
    }
}

/// `lockkeeper/contexts.toml` in the user's folder of settings.
fn path() -> Option<PathBuf> {
    let folder = |name| {
        let folder = env::var_os(name).map(PathBuf::from);
        folder.filter(|it| it.is_absolute())
    };
    let settings = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(settings.join("lockkeeper/contexts.toml"))
}

/// Replaces a file at once, so that nobody reads a part of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let new = path.with_extension(format!("toml.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(text.as_bytes())?;
    fs::rename(new, path)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Misconfigured(format!("{}: {why}", path.display()))
}
