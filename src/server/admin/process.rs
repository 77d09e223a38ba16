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
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let of_stat = |number| field(&stat, number);
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_second(&text));
        // Linux 6.2 and later say how many there are, without a look at each.
        let open = || fs::metadata("/proc/self/fd").ok().map(|meta| meta.len() as usize).filter(|open| *open > 0);
        // Without the one that is open to count them.
        let counted = || Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1));
        Self {
            started: of_stat(22).zip(boot).map(|(since_boot, boot)| boot as f64 + seconds(since_boot)),
            cpu_seconds: of_stat(14).zip(of_stat(15)).map(|(user, system)| seconds(user + system)),
            resident_bytes: of_stat(24).map(|pages| pages * page_size() as u64),
            virtual_bytes: of_stat(23),
            threads: of_stat(20),
            open_fds: open().or_else(counted),
            max_fds: getrlimit(Resource::Nofile).current,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        Self::default()
    }
}

/// A field of `/proc/self/stat` by its number, which is 3 at least; times are in ticks.
#[cfg(target_os = "linux")]
fn field(stat: &str, number: usize) -> Option<u64> {
    // The second field, the program's name, may hold brackets and spaces. The third is the first one here.
    stat.rsplit_once(')')?.1.split_whitespace().nth(number - 3)?.parse().ok()
}

/// When the system started, in seconds since 1970, by `/proc/stat`.
#[cfg(target_os = "linux")]
fn boot_second(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
