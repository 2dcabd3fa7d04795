//! `/metrics`: the metrics of all layers and of the process, for Prometheus.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use prometheus_client::{encoding::text, registry::Registry};

use crate::pages::without_exemplar;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The exposed metrics.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Registry>);

// === impl Metrics ===

impl Metrics {
    /// Exposes a registry.
    pub fn new(registry: Registry) -> Self {
        Self(Arc::new(registry))
    }

    /// In the format of `OpenMetrics`.
    pub(crate) fn encoded(&self) -> Option<String> {
        let mut shown = String::new();
        text::encode(&mut shown, &self.0).ok()?;
        Some(shown)
    }

    /// `OpenMetrics` if the caller accepts it, else the older text format.
    pub(super) fn show(&self, headers: &HeaderMap) -> Response {
        let Some(shown) = self.encoded() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let accepted = headers.get_all(header::ACCEPT).iter();
        let mut accepted = accepted.filter_map(|value| value.to_str().ok());
        if accepted.any(|value| value.contains("application/openmetrics-text")) {
            return ([(header::CONTENT_TYPE, OPEN_METRICS)], shown).into_response();
        }
        ([(header::CONTENT_TYPE, PLAIN_TEXT)], plain(&shown)).into_response()
    }
}

/// Converts to the older format. There a counter's name includes `_total`, exemplars, units and the
/// end marker do not exist, and an info metric is a gauge.
fn plain(shown: &str) -> String {
    let kind_of = |name: &str| {
        let kind = format!("# TYPE {name} ");
        let at = shown.find(&kind)? + kind.len();
        shown[at..].lines().next()
    };
    let mut plain = String::with_capacity(shown.len());
    for line in shown.lines() {
        let mut words = line.splitn(4, ' ');
        let described = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                let (suffix, kind) = match kind_of(name) {
                    Some("counter") => ("_total", "counter"),
                    Some("info") => ("_info", "gauge"),
                    _ => ("", rest),
                };
                let rest = if what == "TYPE" { kind } else { rest };
                writeln!(plain, "# {what} {name}{suffix} {rest}")
            }
            (Some("#"), _, _, _) => Ok(()),
            _ => writeln!(plain, "{}", without_exemplar(line)),
        };
        debug_assert!(described.is_ok(), "a string takes any text");
    }
    plain
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge, info::Info};

    use super::*;

    #[test]
    fn the_older_format_has_the_names_that_it_shows() {
        let mut registry = Registry::default();
        registry.register("a", "A counter", Counter::<u64>::default());
        registry.register("b", "A gauge", Gauge::<i64>::default());
        let info = Info::new([("version", "1")]);
        registry.register("c", "Information", info);
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        let expected = "# HELP a_total A counter.\n# TYPE a_total counter\na_total 0\n\
                        # HELP b A gauge.\n# TYPE b gauge\nb 0\n\
                        # HELP c_info Information.\n# TYPE c_info gauge\nc_info{version=\"1\"} 1\n";
        assert_eq!(plain(&shown), expected);
    }
}
