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
        let Some(seen) = look(procfs::boot_time_secs().ok()) else {
            return Ok(());
        };
        for (name, help, value) in seen.gauges {
            let gauge = ConstGauge::new(value);
            let described = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(described)?;
        }
        let cpu = ConstCounter::new(seen.cpu_seconds);
        let help = "CPU time used.";
        let name = "process_cpu_seconds";
        let described = encoder.encode_descriptor(name, help, None, cpu.metric_type())?;
        cpu.encode(described)
    }
}

struct Seen {
    cpu_seconds: f64,
    gauges: Vec<(&'static str, &'static str, f64)>,
}

/// None without procfs. When the machine was booted is not known where procfs shows processes only
/// (`ProcSubset=pid`), and without it, when the process began.
#[allow(
    clippy::cast_precision_loss,
    reason = "metrics are floating point numbers"
)]
fn look(booted: Option<u64>) -> Option<Seen> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
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
        ("process_threads", "Threads.", stat.num_threads as f64),
    ];
    if let Some(booted) = booted {
        let help = "When the process began, in seconds since 1970.";
        let began = booted as f64 + stat.starttime as f64 / ticks;
        gauges.push(("process_start_time_seconds", help, began));
    }
    if let Ok(open) = process.fd_count() {
        gauges.push(("process_open_fds", "Open file descriptors.", open as f64));
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(max) = limits.max_open_files.soft_limit
    {
        let help = "The limit of open file descriptors.";
        gauges.push(("process_max_fds", help, max as f64));
    }
    Some(Seen {
        cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
        gauges,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_time_needs_the_time_of_the_boot() {
        const START: &str = "process_start_time_seconds";
        let names = |booted| {
            let seen = look(booted).expect("there is procfs");
            seen.gauges.into_iter().map(|(name, ..)| name)
        };
        let with: Vec<_> = names(Some(1)).filter(|name| *name != START).collect();
        assert!(names(Some(1)).any(|name| name == START));
        assert!(with.contains(&"process_resident_memory_bytes"));
        assert_eq!(names(None).collect::<Vec<_>>(), with);
    }
}
