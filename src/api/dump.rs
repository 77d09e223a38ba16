//! The dumps: the current snapshot as one file, in the formats that other tools read.
//!
//! Names only; [`crate::dumps`] writes them. Callers: [`super::route`], [`crate::dumps`], [`crate::answer`], the commands.

/// One of the dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DumpKind {
    /// Each listing on a line of its own, as the origin sent it.
    Ndjson,
    /// The listings as a table (RFC 4180).
    Csv,
    /// The listings as points on a map (RFC 7946).
    Geojson,
    /// Each detail on a line of its own, with the id of its listing.
    Details,
}

impl DumpKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ndjson, Self::Csv, Self::Geojson, Self::Details];

    /// The path on the public listener.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Ndjson => "/dumps/listings.ndjson",
            Self::Csv => "/dumps/listings.csv",
            Self::Geojson => "/dumps/listings.geojson",
            Self::Details => "/dumps/details.ndjson",
        }
    }

    /// The dump of that path, which is compared exactly.
    pub fn of_path(path: &str) -> Option<Self> {
        // Nearly every path is another one.
        path.starts_with("/dumps/").then(|| Self::ALL.into_iter().find(|kind| kind.path() == path)).flatten()
    }

    /// The word of `bundle export --format`, also for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Geojson => "geojson",
            Self::Details => "details-ndjson",
        }
    }

    /// The dump of that word.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// `Content-Type`.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson | Self::Details => "application/x-ndjson",
            // RFC 4180 §3, RFC 7111 §5.1.
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Geojson => "application/geo+json",
        }
    }

    /// `Content-Disposition` (RFC 6266): a browser saves it under this name.
    pub const fn disposition(self) -> &'static str {
        match self {
            Self::Ndjson => "attachment; filename=\"listings.ndjson\"",
            Self::Csv => "attachment; filename=\"listings.csv\"",
            Self::Geojson => "attachment; filename=\"listings.geojson\"",
            Self::Details => "attachment; filename=\"details.ndjson\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dump_has_its_own_path_name_and_file_name() {
        for kind in DumpKind::ALL {
            assert_eq!((DumpKind::of_path(kind.path()), DumpKind::of_name(kind.as_str())), (Some(kind), Some(kind)));
            let file = kind.path().strip_prefix("/dumps/").unwrap();
            assert_eq!(kind.disposition(), format!("attachment; filename=\"{file}\""));
        }
        for path in ["/dumps/", "/dumps/listings.CSV", "/dumps/listings.csv/", "/dumps/bundle", "/listings.csv"] {
            assert_eq!(DumpKind::of_path(path), None, "{path}");
        }
    }
}
