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
    /// what `compare` says of the old and the new value; if that is empty, nothing has changed. A
    /// problem is logged once, under the key of their setting, and the value stays.
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
                if changed.is_empty() {
                    return false;
                }
                tracing::info!(key, "reloaded");
                Audited::reloaded(key, &changed);
                return true;
            }
            Err(problem) if seen.1.as_ref() == Some(&problem) => {}
            Err(problem) => {
                let error = &problem;
                tracing::error!(
                    key, %error, "not reloaded: the previous content stays in force"
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::entries::entries;

    fn both(contents: &[Vec<u8>]) -> Result<String, String> {
        let text = String::from_utf8_lossy(&contents.concat()).into_owned();
        if text.contains("bad") {
            return Err("is bad".to_owned());
        }
        Ok(text)
    }

    #[test]
    fn the_value_follows_the_files_and_each_problem_is_logged_once() {
        let folder = TempDir::new().unwrap();
        let files = ["a", "b"].map(|name| folder.path().join(name));
        for (file, text) in files.iter().zip(["one", "two"]) {
            fs::write(file, text).unwrap();
        }
        let watched = Watched::new(files.clone(), both).unwrap();
        assert_eq!(*watched.get(), "onetwo");
        let reload = || {
            let mut is_new = false;
            let logged = entries(|| {
                is_new = watched.reload("key", |old, new| format!("{old}, now {new}"));
            });
            let fields = ["message", "error", "reason"];
            let said = logged.iter().flat_map(|entry| fields.map(|it| &entry[it]));
            let said = said.filter_map(|it| it.as_str().map(str::to_owned));
            (is_new, said.collect::<Vec<_>>().join("; "))
        };
        assert_eq!(reload(), (false, String::new()));
        fs::write(&files[1], "three").unwrap();
        assert_eq!(
            reload(),
            (true, "reloaded; onetwo, now onethree".to_owned())
        );
        assert_eq!(*watched.get(), "onethree");
        fs::write(&files[1], "four").unwrap();
        let logged = entries(|| assert!(!watched.reload("key", |_, _| String::new())));
        assert!(logged.is_empty(), "{logged:?}");
        assert_eq!(*watched.get(), "onefour");
        fs::write(&files[1], "three").unwrap();
        assert!(watched.reload("key", |_, _| "back".to_owned()));
        fs::write(&files[0], "bad").unwrap();
        let (is_new, said) = reload();
        assert!(!is_new && said.contains("not reloaded"), "{said}");
        assert!(said.contains(&format!("{}: is bad", files[0].display())));
        assert_eq!(reload(), (false, String::new()), "it was said");
        fs::remove_file(&files[1]).unwrap();
        let (is_new, said) = reload();
        assert!(
            !is_new && said.contains(&files[1].display().to_string()),
            "{said}"
        );
        assert_eq!(*watched.get(), "onethree", "what was read before");
        fs::write(&files[0], "one").unwrap();
        fs::write(&files[1], "three").unwrap();
        assert_eq!(reload(), (false, String::new()), "as it was");
        fs::remove_file(&files[1]).unwrap();
        assert!(!reload().1.is_empty(), "it is a problem anew");
    }

    #[test]
    fn what_cannot_be_used_at_first_is_an_error_that_names_the_file() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("a");
        let new = || Watched::new([file.clone()], both).err().unwrap();
        assert_eq!(new().file, file, "there is none");
        fs::write(&file, "bad").unwrap();
        assert_eq!(new().to_string(), format!("{}: is bad", file.display()));
    }
}
