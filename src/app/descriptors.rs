//! The limit on open files, and its share for connections.
//!
//! Running out of descriptors would block the admin listener, the origin's client and the store. So the limit is raised
//! as far as the system allows, and a part is never given to clients. Callers: [`super::rules`].

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The reserve for the admin listener, the origin and the store, and for accepted connections that are not yet checked:
/// a half, within bounds.
const RESERVE: std::ops::RangeInclusive<u64> = 64..=1024;

/// The limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub clients: usize,
    pub operators: usize,
}

/// Raises the soft limit to the hard one; returns the new limit. `None`: unlimited.
pub(crate) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files could not be raised");
            current
        }
    }
}

/// Each side's share of `files`, if clients shall have `wanted` connections.
pub(crate) fn share(files: Option<u64>, wanted: u32) -> Shares {
    let Some(files) = files else { return Shares { clients: wanted as usize, operators: 256 } };
    let reserve = (files / 2).clamp(*RESERVE.start(), *RESERVE.end());
    let clients = files.saturating_sub(reserve).max(1).min(u64::from(wanted));
    // Less than a pointer's worth: `wanted` is.
    Shares { clients: usize::try_from(clients).unwrap_or(usize::MAX), operators: (reserve / 4) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_kept_for_what_is_not_a_client() {
        for (files, wanted, clients, operators) in [
            (None, 20_000, 20_000, 256),
            (Some(1 << 20), 20_000, 20_000, 256),
            (Some(20_000), 20_000, 18_976, 256),
            (Some(4096), 20_000, 3072, 256),
            (Some(1024), 20_000, 512, 128),
            (Some(1024), 100, 100, 128),
            (Some(256), 20_000, 128, 32),
            (Some(10), 20_000, 1, 16),
        ] {
            assert_eq!(share(files, wanted), Shares { clients, operators }, "{files:?}");
        }
    }
}
