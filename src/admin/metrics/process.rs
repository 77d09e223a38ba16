//! The process itself, under the names that every Prometheus client library uses.
//!
//! Linux only: from proc_pid_stat(5) and related files. Callers: [`super::answer`].

use crate::telemetry::table;

use super::families::Families;

/// Writes the system's figures of this process; unknown ones are left out.
#[cfg(target_os = "linux")]
pub(super) fn write(families: &mut Families) {
    use rustix::param::{clock_ticks_per_second, page_size};
    use rustix::process::{Resource, getrlimit};
    use std::fs;

    let (stat, system) = (fs::read_to_string("/proc/self/stat"), fs::read_to_string("/proc/stat"));
    if let (Ok(stat), Ok(system)) = (stat, system)
        && let (Some(stat), Some(boot)) = (Stat::parse(&stat), boot_second(&system))
    {
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        let started = boot as f64 + seconds(stat.started);
        families.gauge(table::PROCESS_START, started);
        families.counter(table::PROCESS_CPU, seconds(stat.used));
        let resident = stat.resident_pages * page_size() as u64;
        families.gauge(table::PROCESS_RESIDENT, resident);
        families.gauge(table::PROCESS_VIRTUAL, stat.virtual_bytes);
        families.gauge(table::PROCESS_THREADS, stat.threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Without the one that is open to count them.
        families.gauge(table::PROCESS_FDS, open.count().saturating_sub(1));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        families.gauge(table::PROCESS_MAX_FDS, most);
    }
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub(super) fn write(_families: &mut Families) {}

/// What `/proc/self/stat` tells; times in ticks.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    used: u64,
    threads: u64,
    /// Since the system has started.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field, the program's name, may hold brackets and spaces. The third is the first one here.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let (used, threads, started) = (field(14)? + field(15)?, field(20)?, field(22)?);
        Some(Self { used, threads, started, virtual_bytes: field(23)?, resident_pages: field(24)? })
    }
}

/// When the system started, in seconds since 1970, by `/proc/stat`.
#[cfg(target_os = "linux")]
fn boot_second(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_whatever_the_program_is_called() {
        let rest = "R 1 2 3 0 -1 4194304 10 11 12 13 140 15 16 17 20 0 9 0 9876543 12345678 4321 184467440737 1 1 0";
        for name in ["grandstand", "a) R (b", ""] {
            let stat = Stat::parse(&format!("77 ({name}) {rest}\n")).unwrap();
            let (used, threads, started) = (155, 9, 9_876_543);
            assert_eq!(stat, Stat { used, threads, started, virtual_bytes: 12_345_678, resident_pages: 4321 });
        }
        assert_eq!(Stat::parse("77 (x) R 1 2"), None);
        assert_eq!(boot_second("cpu 1 2\nbtime 1763800000\nprocesses 5\n"), Some(1_763_800_000));
        assert_eq!(boot_second("cpu 1 2\n"), None);
    }
}
