//! The process itself, under the names that every Prometheus client library uses.
//!
//! Linux only. Callers: [`super::answer`].

use super::families::Families;

/// Writes the system's figures of this process; unknown ones are left out.
#[cfg(target_os = "linux")]
pub(super) fn write(families: &mut Families) {
    use procfs::WithCurrentSystemInfo as _;
    use procfs::process::{LimitValue, Process};

    let Ok(process) = Process::myself() else { return };
    if let (Ok(stat), Ok(boot)) = (process.stat(), procfs::boot_time_secs()) {
        let ticks = procfs::ticks_per_second() as f64;
        let started = boot as f64 + stat.starttime as f64 / ticks;
        families.gauge("process_start_time_seconds", "When the process started, in seconds since 1970", started);
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        families.counter("process_cpu_seconds", "CPU time, user and system", cpu);
        let resident = stat.rss_bytes().get();
        families.gauge("process_resident_memory_bytes", "Resident memory", resident);
        families.gauge("process_virtual_memory_bytes", "Virtual memory", stat.vsize);
        families.gauge("process_threads", "Threads", stat.num_threads);
    }
    if let Ok(open) = process.fd_count() {
        families.gauge("process_open_fds", "Open file descriptors", open);
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(most) = limits.max_open_files.soft_limit
    {
        families.gauge("process_max_fds", "Limit of open file descriptors", most);
    }
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub(super) fn write(_families: &mut Families) {}
