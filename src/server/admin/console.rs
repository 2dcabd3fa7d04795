//! The web console: plain files and no build step.

use axum::{
    Router,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};

use super::Admin;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The path, the content type and the text of each file.
macro_rules! files {
    ($($path:literal: $kind:ident = $file:literal,)*) => {
        const FILES: &[(&str, &str, &str)] =
            &[$(($path, $kind, include_str!(concat!("assets/", $file))),)*];
    };
}

const SVG: &str = "image/svg+xml";

files! {
    "/": HTML = "index.html",
    "/console.css": CSS = "console.css",
    "/icon.svg": SVG = "icon.svg",
    "/base.js": SCRIPT = "base.js",
    "/console.js": SCRIPT = "console.js",
    "/events.js": SCRIPT = "events.js",
    "/graph.js": SCRIPT = "graph.js",
    "/lock.js": SCRIPT = "lock.js",
    "/locks.js": SCRIPT = "locks.js",
    "/overview.js": SCRIPT = "overview.js",
    "/session.js": SCRIPT = "session.js",
}

pub(super) fn routes() -> Router<Admin> {
    FILES
        .iter()
        .fold(Router::new(), |routes, (path, kind, text)| {
            routes.route(path, get(|| async { file(kind, text) }))
        })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_stays_small() {
        let texts = || FILES.iter().map(|(.., text)| text);
        let bytes: usize = texts().map(|text| text.len()).sum();
        let lines: usize = texts().map(|text| text.lines().count()).sum();
        assert!(
            bytes <= 61 << 10 && lines <= 1500,
            "{bytes} bytes, {lines} lines"
        );
    }

    #[test]
    fn each_module_that_another_one_imports_is_served() {
        for (path, _, text) in FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            let imports = text.lines().filter_map(|line| line.split_once("from \"."));
            for (_, rest) in imports {
                let name = rest.trim_end_matches("\";");
                assert!(
                    FILES.iter().any(|(path, ..)| *path == name),
                    "{path}: {name}"
                );
            }
        }
    }
}
