//! The process's metrics from Linux, under the standard names of Prometheus.

use procfs::process::{LimitValue, Process};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Reads them on each scrape.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(seen) = look() else {
            return Ok(());
        };
        for (name, help, value) in seen.gauges {
            let gauge = ConstGauge::new(value);
            let described = encoder.encode_descriptor(name, help, None, gauge_type(&gauge))?;
            gauge.encode(described)?;
        }
        let cpu = ConstCounter::new(seen.cpu_seconds);
        let help = "Time on processors.";
        let described =
            encoder.encode_descriptor("process_cpu_seconds", help, None, cpu_type(&cpu))?;
        cpu.encode(described)
    }
}

struct Seen {
    cpu_seconds: f64,
    gauges: Vec<(&'static str, &'static str, f64)>,
}

fn gauge_type(gauge: &ConstGauge<f64>) -> prometheus_client::metrics::MetricType {
    gauge.metric_type()
}

fn cpu_type(counter: &ConstCounter<f64>) -> prometheus_client::metrics::MetricType {
    counter.metric_type()
}

/// None without procfs.
#[allow(
    clippy::cast_precision_loss,
    reason = "metrics are floating point numbers"
)]
fn look() -> Option<Seen> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
    let booted = procfs::boot_time_secs().ok()? as f64;
    let mut gauges = vec![
        (
            "process_resident_memory_bytes",
            "Memory that is resident.",
            (stat.rss * procfs::page_size()) as f64,
        ),
        (
            "process_virtual_memory_bytes",
            "Memory that is mapped.",
            stat.vsize as f64,
        ),
        (
            "process_start_time_seconds",
            "When the process began, in seconds since 1970.",
            booted + stat.starttime as f64 / ticks,
        ),
        ("process_threads", "Threads.", stat.num_threads as f64),
    ];
    if let Ok(open) = process.fd_count() {
        gauges.push(("process_open_fds", "Open file descriptors.", open as f64));
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(max) = limits.max_open_files.soft_limit
    {
        let help = "The most that may be open.";
        gauges.push(("process_max_fds", help, max as f64));
    }
    Some(Seen {
        cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
        gauges,
    })
}
