//! The web console: three files and no build step.

use axum::{
    Router,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};

use super::Admin;

const PAGE: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route(
            "/",
            get(|| async { file("text/html; charset=utf-8", PAGE) }),
        )
        .route(
            "/console.css",
            get(|| async { file("text/css; charset=utf-8", STYLE) }),
        )
        .route(
            "/console.js",
            get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }),
        )
        .route("/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}
