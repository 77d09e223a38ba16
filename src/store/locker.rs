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
    let place = Place { major: rustix::fs::major(meta.dev()), minor: rustix::fs::minor(meta.dev()), inode: meta.ino() };
    let pids = holders(&std::fs::read_to_string("/proc/locks").ok()?, &place);
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

/// Which file it is.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Place {
    major: u32,
    minor: u32,
    inode: u64,
}

/// Who has locked a file, by a table as in proc_locks(5). Who waits for a lock is not named.
#[cfg(target_os = "linux")]
fn holders(table: &str, place: &Place) -> Vec<u32> {
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Number, kind, mode, access, process, device and inode, from and to; `->` is before the kind of one that waits.
        let [_, kind, _, _, pid, file, ..] = words[..] else { return None };
        let mut parts = file.split(':');
        let hex = |part: Option<&str>| u32::from_str_radix(part?, 16).ok();
        let (major, minor, inode) = (hex(parts.next())?, hex(parts.next())?, parts.next()?.parse().ok()?);
        let is_it = kind != "->" && Place { major, minor, inode } == *place;
        is_it.then(|| pid.parse().ok()).flatten()
    };
    table.lines().filter_map(holder).collect()
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn holders_are_found_in_the_table_and_those_who_wait_are_not() {
        let table = "1: POSIX  ADVISORY  WRITE 12 fd:0a:77 0 EOF\n\
            2: FLOCK  ADVISORY  READ  13 fd:0a:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 14 fd:0a:77 0 EOF\n\
            3: OFDLCK ADVISORY  READ  -1 fd:0a:77 0 EOF\n\
            4: LEASE  ACTIVE    READ  15 fd:0b:77 0 EOF\n\
            5: FLOCK  ADVISORY  WRITE 16 fd:0a:78 0 EOF\nnonsense\n";
        let place = |inode| Place { major: 0xfd, minor: 10, inode };
        assert_eq!(holders(table, &place(77)), [12, 13]);
        assert_eq!(holders(table, &place(78)), [16]);
        assert_eq!(holders(table, &place(79)), [0; 0]);
    }
}
