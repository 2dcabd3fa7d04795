//! The metrics of a coordinator, as they are scraped.

use lockkeeper_access::Account;
use lockkeeper_base::metrics::{PREFIX, Registrar};
use prometheus_client::{encoding::text::encode, registry::Registry};

use super::{SECOND, config, start};
use crate::{coordinator::Coordinator, types::OnDisconnect};

/// The line of a sample.
fn line(coordinator: &Coordinator, sample: &str) -> String {
    coordinator.refresh_metrics();
    let mut registry = Registry::default();
    coordinator.register(&mut Registrar::new(&mut registry));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(PREFIX)?.strip_prefix('_'));
    let mut lines = lines.filter(|line| line.starts_with(sample));
    lines.next().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_shown_beside_what_has_happened() {
    let coordinator = start(crate::config::Config {
        metric_prefixes: vec!["app:".to_owned()],
        ..config()
    });
    let line = |sample| line(&coordinator, sample);
    assert_eq!(line("sessions "), "sessions 0");
    let name = "ci".to_owned();
    let keep = OnDisconnect::Keep;
    let opened = coordinator.open(Account::default(), None, name, keep);
    assert_eq!(line("sessions "), "sessions 1");
    let prefixed = r#"prefix_waits_total{prefix="app:"} 0"#;
    assert_eq!(line(r#"prefix_waits_total{prefix="app:"}"#), prefixed);
    assert!(!line("store_up").is_empty(), "of the layer below");
    assert_eq!(line("draining"), "draining 0");
    coordinator.drain(SECOND).await;
    assert_eq!(line("draining"), "draining 1");
    drop(opened);
}
