//! Whose data directory it is: the address that it names for its server is trusted only if its owner is.
//!
//! Commands send `admin.token` to that address, and the owner of the directory can write any address into it. Trusted
//! are the user of this process and root. Root also trusts the user of a service, because root runs commands for
//! servers that have a user of their own. Root trusts such a directory only if root alone can write to every directory
//! above it: `/var/lib/grandstand`, not `/tmp/grandstand-data`. The owner of the lock's process proves nothing: an
//! attacker owns both. Callers: [`super::data_dir`].

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const ROOT: u32 = 0;

/// The user number that no user has.
const UNKNOWN: u32 = u32::MAX;

/// More symbolic links than this on one path are not followed.
const MOST_LINKS: u32 = 8;

/// The owner of the data directory of this lock file, if that user is not trusted; else `None`.
pub(super) fn untrusted(directory: &Path, lock: &File) -> Option<u32> {
    let owner = |meta: io::Result<fs::Metadata>| meta.map_or(UNKNOWN, |meta| meta.uid());
    let owners = [owner(fs::metadata(directory)), owner(lock.metadata())];
    judge(owners, geteuid().as_raw(), || {
        let place = std::path::absolute(directory);
        place.is_ok_and(|place| is_roots(&place, true, MOST_LINKS, &look))
    })
}

/// `owners`: of the directory and of the lock file. `is_given`: whether root alone can have put the directory there.
fn judge(owners: [u32; 2], own: u32, is_given: impl FnOnce() -> bool) -> Option<u32> {
    let stranger = owners.into_iter().find(|owner| ![own, ROOT].contains(owner))?;
    let is_alone = owners.iter().all(|owner| [stranger, ROOT].contains(owner)) && owners[0] == stranger;
    (!(own == ROOT && is_alone && is_given())).then_some(stranger)
}

/// What one name of a path leads to.
enum Step {
    Link(PathBuf),
    Other { owner: u32, mode: u32 },
}

fn look(path: &Path) -> io::Result<Step> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return fs::read_link(path).map(Step::Link);
    }
    Ok(Step::Other { owner: meta.uid(), mode: meta.mode() })
}

/// Whether only root can decide what an absolute path leads to. `is_end`: it is the end of the path, which may belong
/// to anybody; else it is a directory on the way.
fn is_roots(path: &Path, is_end: bool, links: u32, look: &impl Fn(&Path) -> io::Result<Step>) -> bool {
    let parent = path.parent();
    if !parent.is_none_or(|parent| is_roots(parent, false, links, look)) {
        return false;
    }
    match look(path) {
        Ok(Step::Link(to)) => links > 0 && is_roots(&parent.unwrap_or(path).join(to), is_end, links - 1, look),
        Ok(Step::Other { owner, mode }) => is_end || (owner == ROOT && mode & 0o022 == 0),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_itself_and_root_are_trusted_and_by_root_those_whom_root_gave_the_directory() {
        const ALICE: u32 = 1000;
        const BOB: u32 = 1001;
        for (owners, own, is_given, untrusted) in [
            ([ALICE, ALICE], ALICE, false, None),
            ([ROOT, ROOT], ALICE, false, None),
            ([ROOT, ALICE], ALICE, false, None),
            ([ALICE, ROOT], ALICE, false, None),
            ([ROOT, ROOT], ROOT, false, None),
            ([BOB, BOB], ALICE, true, Some(BOB)),
            ([BOB, ALICE], ALICE, true, Some(BOB)),
            ([ALICE, BOB], ALICE, true, Some(BOB)),
            ([BOB, BOB], ROOT, false, Some(BOB)),
            ([BOB, BOB], ROOT, true, None),
            ([BOB, ROOT], ROOT, true, None),
            ([ALICE, BOB], ROOT, true, Some(ALICE)),
            ([ROOT, BOB], ROOT, true, Some(BOB)),
            ([UNKNOWN, ALICE], ALICE, false, Some(UNKNOWN)),
        ] {
            assert_eq!(judge(owners, own, || is_given), untrusted, "{owners:?} {own} {is_given}");
        }
    }

    #[test]
    fn a_place_is_roots_when_nobody_else_can_write_on_the_way_to_it() {
        let link = |to: &str| Ok(Step::Link(to.into()));
        let look = |path: &Path| match path.to_str().unwrap() {
            "/" | "/var" | "/var/lib" | "/srv" | "/home" | "/var/lib/../../srv" | "/var/lib/.." | "/var/lib/../.." => {
                Ok(Step::Other { owner: ROOT, mode: 0o755 })
            }
            "/tmp" => Ok(Step::Other { owner: ROOT, mode: 0o1777 }),
            "/usr/local" => Ok(Step::Other { owner: ROOT, mode: 0o2775 }),
            "/var/lib/venues"
            | "/lib/venues"
            | "/tmp/venues"
            | "/srv/alice"
            | "/srv/alice/data"
            | "/home/alice"
            | "/var/lib/../../srv/alice" => Ok(Step::Other { owner: 1000, mode: 0o700 }),
            "/var/lib/moved" => link("../../srv/alice"),
            "/var/lib/astray" => link("/tmp/venues"),
            "/var/lib/circle" => link("circle"),
            "/lib" => link("/var/lib"),
            "/tmp/link" => link("/home/alice"),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        for (path, expected) in [
            ("/var/lib/venues", true),
            ("/lib/venues", true),
            ("/var/lib/moved", true),
            ("/home/alice", true),
            ("/tmp/venues", false),
            ("/tmp/link", false),
            ("/srv/alice/data", false),
            ("/var/lib/astray", false),
            ("/var/lib/circle", false),
            ("/var/lib/none", false),
        ] {
            assert_eq!(is_roots(Path::new(path), true, MOST_LINKS, &look), expected, "{path}");
        }
        assert!(!is_roots(Path::new("/usr/local/venues"), true, MOST_LINKS, &look));
    }
}
