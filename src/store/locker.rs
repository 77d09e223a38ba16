//! Finds the program that has locked a file, in the system's table of locks.
//!
//! Linux only. Servers of this program are found by the content of their lock file; this finds other programs. Callers:
//! [`super::data_dir`].

use std::fs::File;

/// A process that has a file locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Locker {
    /// Its id.
    pub pid: u32,
    /// The program's name, from the system.
    pub program: String,
}

/// The process that has locked `file`; `None` if it is the one `named` in it, another process of this program, or
/// unknown (a process in another container has no number here).
#[cfg(target_os = "linux")]
pub(super) fn stranger(file: &File, named: Option<u32>) -> Option<Locker> {
    use std::os::unix::fs::MetadataExt as _;

    let meta = file.metadata().ok()?;
    let place = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()), meta.ino());
    let locks = procfs::locks().ok()?.into_iter().filter(|lock| (lock.devmaj, lock.devmin, lock.inode) == place);
    let pids: Vec<u32> = locks.filter_map(|lock| u32::try_from(lock.pid?).ok()).collect();
    if named.is_some_and(|named| pids.contains(&named)) {
        return None;
    }
    let own = program(std::process::id());
    let lockers = pids.into_iter().filter_map(|pid| Some(Locker { pid, program: program(pid)? }));
    let lockers: Vec<Locker> = lockers.collect();
    if lockers.iter().any(|locker| Some(&locker.program) == own.as_ref()) {
        return None;
    }
    lockers.into_iter().next()
}

#[cfg(target_os = "linux")]
fn program(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().chars().filter(|c| !c.is_control()).collect())
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub(super) fn stranger(_file: &File, _named: Option<u32>) -> Option<Locker> {
    None
}
