//! The process itself, as the system sees it.
//!
//! Linux only: from proc_pid_stat(5) and related files. Callers: [`super::status`], [`super::metrics`].

/// The system's figures of this process; `None`: unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    /// When it started, in seconds since 1970.
    pub started: Option<f64>,
    /// User and system.
    pub cpu_seconds: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub open_fds: Option<usize>,
    pub max_fds: Option<u64>,
}

impl Process {
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Self {
        use rustix::param::{clock_ticks_per_second, page_size};
        use rustix::process::{Resource, getrlimit};
        use std::fs;

        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text));
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_second(&text));
        let open = fs::read_dir("/proc/self/fd").ok();
        Self {
            started: stat.zip(boot).map(|(stat, boot)| boot as f64 + seconds(stat.started)),
            cpu_seconds: stat.map(|stat| seconds(stat.used)),
            resident_bytes: stat.map(|stat| stat.resident_pages * page_size() as u64),
            virtual_bytes: stat.map(|stat| stat.virtual_bytes),
            threads: stat.map(|stat| stat.threads),
            // Without the one that is open to count them.
            open_fds: open.map(|open| open.count().saturating_sub(1)),
            max_fds: getrlimit(Resource::Nofile).current,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        Self::default()
    }
}

/// What `/proc/self/stat` tells; times in ticks.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
