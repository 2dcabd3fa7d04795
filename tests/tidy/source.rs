//! The tree as the checks see it: files, and Rust without its comments.

use std::{fs, path::Path};

/// Folders that are not ours, or not source.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "__pycache__", ".venv"];

/// A text file of the tree.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root of the tree, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Rust source, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Rust {
    /// Without comments, and with empty literals; on as many lines.
    pub(crate) code: String,
    /// What stands in its string literals.
    pub(crate) literals: Vec<String>,
}

/// All text files of the tree.
pub(crate) fn tree() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, root, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        files.iter().any(|file| file.path == "Cargo.toml"),
        "this is not the tree"
    );
    files
}

/// The Rust files below a folder.
pub(crate) fn rust_below(folder: &str) -> Vec<File> {
    let files = tree().into_iter();
    files
        .filter(|file| file.path.starts_with(folder) && file.extension() == "rs")
        .collect()
}

/// A file of the tree.
pub(crate) fn text(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether something is there.
pub(crate) fn exists(path: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists()
}

/// Identifiers of some code, in order.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !is_word(letter))
        .filter(|word| !word.is_empty())
}

pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let name = entry.file_name().to_string_lossy().into_owned();
        // `.git` is a file in a work tree that belongs to another checkout.
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, files);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            let path = path
                .strip_prefix(root)
                .unwrap()
                .to_string_lossy()
                .replace('\\', "/");
            files.push(File { path, text });
        }
    }
}

// === impl File ===

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether it has tests and nothing else.
    pub(crate) fn is_tests(&self) -> bool {
        let in_folder = self.path.contains("/tests/") || self.path.contains("/testing/");
        in_folder || self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }

    /// What is built into the product: all but the tests at the end of the file.
    pub(crate) fn shipped(&self) -> Rust {
        let text = self.text.as_str();
        let tests = text
            .match_indices("#[cfg(test)]\n")
            .find(|(at, attribute)| {
                let line = text[at + attribute.len()..]
                    .lines()
                    .next()
                    .unwrap_or_default();
                line.contains("mod ") && line.ends_with('{')
            });
        Rust::parse(tests.map_or(text, |(at, _)| &text[..at]))
    }
}

// === impl Rust ===

impl Rust {
    pub(crate) fn parse(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let next = |at: usize| letters.get(at).copied().unwrap_or('\0');
        let mut rust = Self::default();
        let mut at = 0;
        while at < letters.len() {
            at = match (next(at), next(at + 1)) {
                ('/', '/') => at + line(&letters[at..]),
                ('/', '*') => {
                    let end = at + block_comment(&letters[at..]);
                    rust.keep_lines(letters[at..end].iter());
                    end
                }
                ('"', _) => rust.literal(&letters, at, 0, true),
                ('r', '"' | '#') if !rust.code.ends_with(is_word) || rust.code.ends_with('b') => {
                    let hashes = letters[at + 1..]
                        .iter()
                        .take_while(|it| **it == '#')
                        .count();
                    if next(at + 1 + hashes) == '"' {
                        rust.literal(&letters, at + 1 + hashes, hashes, false)
                    } else {
                        rust.keep('r', at)
                    }
                }
                ('\'', '\\') => {
                    at + 3
                        + letters[at + 3..]
                            .iter()
                            .take_while(|it| **it != '\'')
                            .count()
                        + 1
                }
                ('\'', _) if next(at + 2) == '\'' => at + 3,
                (letter, _) => rust.keep(letter, at),
            };
        }
        rust
    }

    fn keep(&mut self, letter: char, at: usize) -> usize {
        self.code.push(letter);
        at + 1
    }

    /// The lines of what is left out stay, so that those of the code can be counted.
    fn keep_lines<'a>(&mut self, left_out: impl Iterator<Item = &'a char>) {
        let lines = left_out.filter(|letter| **letter == '\n');
        self.code.extend(lines);
    }

    /// Takes the literal whose opening quote stands at `at`; returns where the code goes on.
    fn literal(&mut self, letters: &[char], at: usize, hashes: usize, escapes: bool) -> usize {
        let mut literal = String::new();
        let mut at = at + 1;
        while at < letters.len() {
            let closing = letters[at] == '"'
                && letters[at + 1..]
                    .iter()
                    .take(hashes)
                    .filter(|it| **it == '#')
                    .count()
                    == hashes;
            if closing {
                break;
            }
            if escapes && letters[at] == '\\' {
                at += 1;
            }
            literal.extend(letters.get(at));
            at += 1;
        }
        self.code.push_str("\"\"");
        self.keep_lines(literal.chars().collect::<Vec<_>>().iter());
        self.literals.push(literal);
        at + 1 + hashes
    }
}

fn line(letters: &[char]) -> usize {
    letters.iter().take_while(|letter| **letter != '\n').count()
}

fn block_comment(letters: &[char]) -> usize {
    let end = letters
        .windows(2)
        .skip(2)
        .position(|pair| pair == ['*', '/']);
    end.map_or(letters.len(), |end| end + 4)
}

#[test]
fn comments_and_literals_are_told_from_code() {
    let text = "use a; // not b\n/* nor c */ let d = \"e // \\\" f\"; 'x'; '\"'; b'\\'' \
        g<'h>(r#\"i\"j\"#)";
    let rust = Rust::parse(text);
    assert_eq!(rust.literals, ["e // \" f", "i\"j"]);
    let found: Vec<_> = words(&rust.code).collect();
    assert_eq!(found, ["use", "a", "let", "d", "b", "g", "h"]);
}

#[test]
fn tests_at_the_end_are_not_shipped() {
    let file = File::new(
        "src/a.rs",
        "use x;\n#[cfg(test)]\nmod tests;\nuse y;\n#[cfg(test)]\nmod tests {\nuse z;\n}\n",
    );
    let code = file.shipped().code;
    assert!(code.contains("use y") && !code.contains("use z"));
}
