//! No circles: of two files of a crate, at most one needs the other, however many are between them.
//! A front page that names what its folder offers (`pub use`) does not need it; who takes it from
//! there needs the file that it comes from.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    expect_none,
    layers::expand,
    source::{File, is_word, rust_below},
};

/// A module by its segments from the root of its crate.
type Module = Vec<String>;

/// A file, by what it imports and by what can be imported from it.
#[derive(Debug, Default)]
struct Node {
    path: String,
    /// Paths that its code names.
    needs: Vec<Module>,
    /// Every name that it brings in, with the path that it comes from.
    names: BTreeMap<String, Module>,
}

/// The files of one crate.
#[derive(Debug, Default)]
struct Graph(BTreeMap<Module, Node>);

#[test]
fn no_two_files_of_a_crate_need_each_other() {
    let mut graphs = BTreeMap::<String, Graph>::new();
    for file in rust_below("src/") {
        let parts: Vec<&str> = file.path.split('/').collect();
        if let [_, name, .., _] = parts.as_slice()
            && !file.is_tests()
            && !file.path.contains("/generated/")
        {
            graphs.entry((*name).to_owned()).or_default().add(&file);
        }
    }
    let problems: Vec<_> = graphs.values().flat_map(Graph::circles).collect();
    expect_none(&problems);
}

// === impl Graph ===

impl Graph {
    fn add(&mut self, file: &File) {
        let inside = file.path.splitn(3, '/').nth(2).unwrap_or_default();
        let inside = inside.trim_end_matches(".rs");
        let inside = ["lib", "mod"].iter().fold(inside, |it, front| {
            it.strip_suffix(front).unwrap_or(it).trim_end_matches('/')
        });
        let module = inside.split('/').filter(|it| !it.is_empty());
        let mut node = Node {
            path: file.path.clone(),
            ..Node::default()
        };
        let (mut rest, code) = (String::new(), file.shipped().code);
        let mut from = 0;
        while let Some(at) = code[from..].find("use ").map(|at| from + at) {
            let before = &code[from..at];
            rest.push_str(before);
            let end = code[at..].find(';').map_or(code.len(), |end| at + end + 1);
            if code[..at].ends_with(is_word) {
                rest.push_str("use ");
                from = at + "use ".len();
                continue;
            }
            let is_offered = before.trim_end().ends_with(['b', ')']);
            let mut paths = Vec::new();
            expand(&code[at + "use ".len()..end], "", &mut paths);
            for path in paths {
                let mut path: Module = path.split("::").map(str::to_owned).collect();
                path.pop_if(|last| last == "self");
                let name = path.last().cloned().unwrap_or_default();
                if !is_offered {
                    node.needs.push(path.clone());
                }
                node.names.insert(name, path);
            }
            from = end;
        }
        rest.push_str(&code[from..]);
        for root in ["crate::", "super::", "self::"] {
            for (at, _) in rest.match_indices(root) {
                if !rest[..at].ends_with(|it| is_word(it) || it == ':') {
                    let mut paths = Vec::new();
                    expand(&rest[at..], "", &mut paths);
                    let paths = paths.iter();
                    let split = paths.map(|path| path.split("::").map(str::to_owned).collect());
                    node.needs.extend(split);
                }
            }
        }
        self.0.insert(module.map(str::to_owned).collect(), node);
    }

    /// The file that has what a path names, seen from a module. None if that is of another crate.
    fn home(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let mut at = from.clone();
        let mut path = path;
        match path.first()?.as_str() {
            "crate" => (at, path) = (Module::new(), &path[1..]),
            "super" | "self" => {
                while let Some((first, rest)) = path.split_first()
                    && ["super", "self"].contains(&first.as_str())
                {
                    if first == "super" {
                        at.pop();
                    }
                    path = rest;
                }
            }
            first => {
                let child = [at.clone(), vec![first.to_owned()]].concat();
                if !self.0.contains_key(&child) {
                    return None;
                }
            }
        }
        for (index, segment) in path.iter().enumerate() {
            let child = [at.clone(), vec![segment.clone()]].concat();
            if self.0.contains_key(&child) {
                at = child;
                continue;
            }
            let offered = self.0.get(&at)?.names.get(segment);
            let further = offered.filter(|_| depth < 8 && (index > 0 || at != *from));
            let home = further.and_then(|path| self.home(&at, path, depth + 1));
            return Some(home.unwrap_or(at));
        }
        Some(at)
    }

    fn circles(&self) -> Vec<String> {
        let needed = |module: &Module| -> BTreeSet<Module> {
            let needs = self.0[module].needs.iter();
            let homes = needs.filter_map(|path| self.home(module, path, 0));
            homes
                .filter(|home| home != module && self.0.contains_key(home))
                .collect()
        };
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|it| (it, needed(it))).collect();
        let mut problems = Vec::new();
        for module in self.0.keys() {
            for first in &edges[module] {
                let (mut seen, mut next) = (BTreeSet::new(), vec![first]);
                while let Some(at) = next.pop() {
                    if seen.insert(at) {
                        next.extend(&edges[at]);
                    }
                }
                if seen.contains(module) {
                    let (one, other) = (&self.0[module].path, &self.0[first].path);
                    problems.push(format!("{one}: needs {other}, which needs it in turn"));
                }
            }
        }
        problems
    }
}

#[test]
fn a_circle_is_found_through_a_front_page() {
    let circles = |files: &[(&str, &str)]| {
        let mut graph = Graph::default();
        for (path, text) in files {
            graph.add(&File::new(path, text));
        }
        graph.circles()
    };
    let front = (
        "src/a/x/mod.rs",
        "mod y;\nmod z;\npub use self::y::{Y as W, V};",
    );
    let z = ("src/a/x/z.rs", "use super::V;\nfn z() {}");
    let y = ("src/a/x/y.rs", "pub struct V;\nfn y() { crate::x::z::z() }");
    let found = circles(&[("src/a/lib.rs", "mod x;"), front, y, z]);
    assert_eq!(
        found,
        [
            "src/a/x/y.rs: needs src/a/x/z.rs, which needs it in turn",
            "src/a/x/z.rs: needs src/a/x/y.rs, which needs it in turn",
        ]
    );
    let alone = (
        "src/a/x/y.rs",
        "use std::fmt;\npub struct V;\nuse other::x::z;",
    );
    assert_eq!(circles(&[front, alone, z]), Vec::<String>::new());
}
