//! Values made of files, reloaded when those change.

use std::{fs, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};

use super::{Unusable, audit::Audited};

/// Makes a value from the contents of the files, in their order.
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// A value made of files.
pub struct Watched<T> {
    files: Vec<PathBuf>,
    parse: Parse<T>,
    value: RwLock<Arc<T>>,
    /// The last contents, and the last problem that was logged.
    seen: Mutex<(Vec<Vec<u8>>, Option<Unusable>)>,
}

// === impl Watched ===

impl<T> Watched<T> {
    /// Reads the files. Fails if one is unusable.
    pub fn new(
        files: impl IntoIterator<Item = PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, Unusable> {
        let files: Vec<_> = files.into_iter().collect();
        let contents = read(&files)?;
        let value = parse(&contents).map_err(|problem| unusable(&files, problem))?;
        Ok(Self {
            files,
            parse: Box::new(parse),
            value: RwLock::new(Arc::new(value)),
            seen: Mutex::new((contents, None)),
        })
    }

    /// The value of the last usable contents.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.value.read())
    }

    /// Reads the files again, and returns whether the value has changed. A change is audited, with
    /// what `compare` says of the old and the new value. A problem is logged once, under the key of
    /// their setting, and the value stays.
    ///
    /// The contents are compared and not the times, because files swapped by a symbolic link may be
    /// older than their predecessors.
    pub fn reload(&self, key: &str, compare: impl Fn(&T, &T) -> String) -> bool {
        let mut seen = self.seen.lock();
        let read = read(&self.files);
        if read.as_ref().is_ok_and(|contents| *contents == seen.0) {
            seen.1 = None;
            return false;
        }
        let parsed = read.and_then(|contents| {
            let value =
                (self.parse)(&contents).map_err(|problem| unusable(&self.files, problem))?;
            Ok((contents, value))
        });
        match parsed {
            Ok((contents, value)) => {
                let changed = compare(&self.get(), &value);
                *self.value.write() = Arc::new(value);
                *seen = (contents, None);
                tracing::info!(key, "reloaded");
                Audited::reloaded(key, &changed);
                return true;
            }
            Err(problem) if seen.1.as_ref() == Some(&problem) => {}
            Err(problem) => {
                let error = &problem;
                tracing::error!(
                    key, %error, "not reloaded: what was read before stays in force"
                );
                seen.1 = Some(problem);
            }
        }
        false
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, Unusable> {
    let read = |file: &PathBuf| {
        fs::read(file).map_err(|error| unusable(std::slice::from_ref(file), error.to_string()))
    };
    files.iter().map(read).collect()
}

fn unusable(files: &[PathBuf], problem: String) -> Unusable {
    let file = files.first().cloned().unwrap_or_default();
    Unusable { file, problem }
}
