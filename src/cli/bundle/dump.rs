//! `grandstand bundle export --format csv`: the current snapshot for other tools, in the formats of `/dumps/`.
//!
//! The server that holds the data directory writes it, or this process does. Callers: [`super::export`].

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::json;

use super::remote;
use super::unfinished::Unfinished;
use crate::api::listing::ListingId;
use crate::api::route::DumpKind;
use crate::app::core::open_snapshots;
use crate::cli::Failure;
use crate::cli::holder::Holder;
use crate::cli::progress::Display;
use crate::config::Config;
use crate::dumps::{DumpError, write};
use crate::snapshots::Snapshots;
use crate::store::StoreError;

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A bundle, for another grandstand
    Bundle,
    /// Each listing on a line of its own, as the origin sent it
    Ndjson,
    /// Each detail on a line of its own, with the id of its listing
    DetailsNdjson,
    /// The listings as a table
    Csv,
    /// The listings as points on a map
    Geojson,
}

impl Format {
    /// The dump of that format; `None`: a bundle.
    pub(super) const fn dump(self) -> Option<DumpKind> {
        match self {
            Self::Bundle => None,
            Self::Ndjson => Some(DumpKind::Ndjson),
            Self::DetailsNdjson => Some(DumpKind::Details),
            Self::Csv => Some(DumpKind::Csv),
            Self::Geojson => Some(DumpKind::Geojson),
        }
    }
}

/// What was written.
struct Done {
    snapshot: String,
    /// Details that could not be read.
    damaged: u64,
}

/// Writes a dump into a file, which has its name when it is whole, or to standard output.
pub(super) fn export(config: &Config, kind: DumpKind, path: &Path, json: bool) -> Result<ExitCode, Failure> {
    if path.as_os_str() == "-" {
        let mut out = Watching { out: io::stdout().lock(), is_closed: false };
        return match make(config, kind, &mut out) {
            // The reader has ended, as `head` does: the exit code that a shell gives for that.
            Err(_) if out.is_closed => Ok(ExitCode::from(128 + 13)),
            made => made.map(|done| finish(&done)),
        };
    }
    let mut unfinished = Unfinished::beside(path)?;
    let done = make(config, kind, unfinished.file())?;
    let bytes = unfinished.finish()?;
    if json {
        let file = path.display().to_string();
        let told = json!({ "exported": true, "file": file, "format": kind.as_str(), "snapshot": done.snapshot, "bytes": bytes });
        println!("{told}");
        return Ok(finish(&done));
    }
    println!("{}: snapshot {} as {}, {bytes} bytes", path.display(), done.snapshot, kind.as_str());
    Ok(finish(&done))
}

fn finish(done: &Done) -> ExitCode {
    if done.damaged > 0 {
        eprintln!("warning: {} stored details are damaged and were left out", done.damaged);
    }
    ExitCode::SUCCESS
}

fn make(config: &Config, kind: DumpKind, out: &mut dyn Write) -> Result<Done, Failure> {
    match Holder::find(config, open_snapshots)? {
        Holder::Here(_data_dir, snapshots) => here(&snapshots, kind, out),
        Holder::There { admin, token } => {
            Ok(Done { snapshot: remote::dump(&admin, token.as_ref(), kind, out)?, damaged: 0 })
        }
    }
}

fn here(snapshots: &Snapshots, kind: DumpKind, out: &mut dyn Write) -> Result<Done, Failure> {
    let published = snapshots.current().get().ok_or(DumpError::Nothing)?;
    let damaged = std::cell::Cell::new(0);
    let body = |(_, read): (ListingId, Result<Option<Bytes>, StoreError>)| match read {
        Err(StoreError::Damaged(_)) => {
            damaged.set(damaged.get() + 1);
            Ok(None)
        }
        // The origin has none.
        read => Ok(read?.filter(|body| !body.is_empty())),
    };
    let ids = write::detailed(kind, &published.dataset);
    let details = Box::new(snapshots.store().bodies_in_turn(&ids).map(body));
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut display = Display::new();
    let progress = &mut |done, of| display.count(0, "listings", done, of);
    let written = write::write(kind, &published.dataset, details, &mut out, progress);
    let written = written.and_then(|()| Ok(out.flush()?));
    display.finish();
    written?;
    Ok(Done { snapshot: published.dataset.id.to_string(), damaged: damaged.get() })
}

/// Notices that nobody reads what is written.
struct Watching<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Watching<W> {
    fn noticed<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_closed |= result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for Watching<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.noticed(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.noticed(flushed)
    }
}
