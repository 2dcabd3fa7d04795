//! What files say, read again when they change.

use std::{fs, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};

use super::Unusable;

/// Makes a value of the contents of the files, in their order.
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// A value made of files.
pub struct Watched<T> {
    files: Vec<PathBuf>,
    parse: Parse<T>,
    value: RwLock<Arc<T>>,
    /// What was last looked at, and the last problem that was logged.
    seen: Mutex<(Vec<Vec<u8>>, Option<Unusable>)>,
}

// === impl Watched ===

impl<T> Watched<T> {
    /// Reads the files for the first time.
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

    /// What the files last said that could be used.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.value.read())
    }

    /// Reads the files again. What cannot be used is logged once, under the key of the setting that
    /// names them; the value stays as it was.
    ///
    /// The contents are compared, because files that are swapped by a symbolic link may be older
    /// than those before them.
    pub fn reload(&self, key: &str) {
        let mut seen = self.seen.lock();
        let read = read(&self.files);
        if read.as_ref().is_ok_and(|contents| *contents == seen.0) {
            seen.1 = None;
            return;
        }
        let parsed = read.and_then(|contents| {
            let value =
                (self.parse)(&contents).map_err(|problem| unusable(&self.files, problem))?;
            Ok((contents, value))
        });
        match parsed {
            Ok((contents, value)) => {
                *self.value.write() = Arc::new(value);
                *seen = (contents, None);
                tracing::info!(key, "reloaded");
            }
            Err(problem) if seen.1.as_ref() == Some(&problem) => {}
            Err(problem) => {
                tracing::error!(key, error = %problem, "not reloaded: what was read before stays in force");
                seen.1 = Some(problem);
            }
        }
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
