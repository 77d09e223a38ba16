//! `grandstand bundle export`: writes the current snapshot to one file, as a bundle or for other tools.
//!
//! The file gets its name when it is complete. Callers: [`super`].

use std::fs::File;
use std::io::{Read as _, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::atomic_file::{AtomicFile, remove};
use super::{in_file, not_done, told, what};
use crate::api::route::DumpKind;
use crate::cli::target::ServerArgs;
use crate::cli::terminal::{Output, bytes_bar, say, say_json, start_log, tell};
use crate::cli::{Failure, FileError, needs_snapshots};
use crate::clock::WallTime;
use crate::config::{Config, LogConfig, LogLevel};
use crate::data::bundle::signature::{self, Signer, open_file};
use crate::data::bundle::{Bundle, Manifest, check_beginning};
use crate::server::admin::bundle::{EXACT, WHOLE};
use crate::server::hosted::Purpose;
use crate::words::counted;

/// Arguments of `grandstand bundle export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    server: ServerArgs,
    /// File to write; an existing file is replaced
    ///
    /// `-` is standard output; not possible for a bundle.
    file: PathBuf,
    /// What to write: a bundle for another grandstand, or the current snapshot for other tools
    #[arg(long, value_parser = formats(), default_value = "bundle")]
    format: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write only the changes since this snapshot
    ///
    /// Give the id of a snapshot that grandstand still keeps, or the file of an earlier export of it.
    #[arg(long, value_name = "ID|FILE", value_hint = clap::ValueHint::FilePath)]
    since: Option<String>,
    /// Fail, and write nothing, unless the details of all listings are mirrored
    ///
    /// For timers: without it, a bundle with a part of the details is written.
    #[arg(long)]
    require_complete: bool,
    /// Sign with this secret key of the minisign tool
    ///
    /// The signature is written to FILE.minisig. If the key has a password, it is read from the terminal
    /// or from standard input.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

/// The values of `--format`: a bundle, and the words of [`DumpKind`].
const FORMATS: [(&str, &str); 6] = [
    ("bundle", "A bundle, for another grandstand"),
    ("ndjson", "Each listing on a line of its own, as the origin sent it"),
    ("details-ndjson", "Each detail on a line of its own, with the id of its listing"),
    ("details-csv", "The listings with their details as a table"),
    ("csv", "The listings as a table"),
    ("geojson", "The listings as points on a map"),
];

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.map(|(name, help)| PossibleValue::new(name).help(help)))
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("{} exists and is no bundle; choose another name, or remove it first", .0.display())]
    Other(PathBuf),
    #[error("--since is empty; give a snapshot id, or the file of an earlier export")]
    NoBase,
    #[error("--since, --sign and --require-complete are for bundles: leave --format out")]
    NotForDumps,
    #[error("a bundle cannot be written to standard output, because it is read again to verify it: name a file")]
    NoFile,
}

impl Export {
    /// The dump of that format; `None`: a bundle.
    fn dump(&self) -> Option<DumpKind> {
        DumpKind::of_name(&self.format)
    }

    /// Refuses to replace a file that is no bundle by one: a configuration, say, if the name was forgotten.
    fn expect_replaceable(&self) -> Result<(), ExportError> {
        let is_file = self.dump().is_none() && self.file.metadata().is_ok_and(|found| found.is_file());
        let mut start = Vec::new();
        // A file that cannot be read is an error of the export.
        let is_read = is_file && File::open(&self.file).and_then(|file| file.take(16).read_to_end(&mut start)).is_ok();
        let is_other = is_read && !start.is_empty() && check_beginning(&start).is_err();
        if is_other { Err(ExportError::Other(self.file.clone())) } else { Ok(()) }
    }

    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let is_for_bundles = self.since.is_some() || self.sign.is_some() || self.require_complete;
        if self.dump().is_some() && is_for_bundles {
            return Err(Failure::usage(ExportError::NotForDumps));
        }
        self.expect_replaceable().map_err(Failure::usage)?;
        let config = self.server.config(needs_snapshots)?;
        start_log(LogConfig { level: LogLevel::Warn, ..config.log })?;
        if let Some(kind) = self.dump() {
            return self.export_dump(&config, kind);
        }
        if self.file.as_os_str() == "-" {
            return Err(Failure::usage(ExportError::NoFile));
        }
        // Before the work, so that a wrong password fails at once.
        let password = || signature::ask_password("password of the secret key: ");
        let signer = self.sign.as_ref().map(|key| Signer::open(key, password)).transpose()?;
        let since = self.since.as_deref().map(base).transpose()?;
        let mut unfinished = AtomicFile::beside(&self.file)?;
        self.make(&config, unfinished.file(), since.as_deref()).map_err(not_done(&self.file, "written"))?;
        // Verified as an import will do it.
        let bundle = Bundle::open(unfinished.file(), &mut bytes_bar("verifying"))?;
        let manifest = bundle.manifest();
        let sign = |signer: &Signer| -> Result<_, Failure> {
            let path = signature::path_of(&self.file);
            let mut signature = AtomicFile::beside(&path)?;
            let text = signer.sign(unfinished.again()?, &comment(manifest))?;
            signature.file().write_all(text.as_bytes()).map_err(FileError::at(&path))?;
            Ok((signature, path, signer.key()))
        };
        let signed = signer.as_ref().map(sign).transpose()?;
        // Between these two renames the bundle has no valid signature.
        let bytes = unfinished.finish()?;
        let signed = match signed {
            Some((signature, path, key)) => signature.finish().map(|_| Some((path, key)))?,
            None => remove(&signature::path_of(&self.file)).map(|()| None)?,
        };
        if self.json {
            let key = signed.map(|(_, key)| key.to_string());
            let state = if key.is_some() { "verified" } else { "none" };
            let told = told(&self.file, "exported", manifest, &json!({ "state": state, "key": key }))?;
            say_json(told)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(format!("{}: {} as a bundle, {}", self.file.display(), what(manifest), counted(bytes, "byte")))?;
        say(coverage(manifest))?;
        if let Some((path, key)) = signed {
            say(format!("signed by the key {key}: {}", path.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn purpose(&self) -> Purpose {
        let directory = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        Purpose::Export(directory.unwrap_or(Path::new(".")).to_owned())
    }

    fn make(&self, config: &Config, out: &mut File, since: Option<&str>) -> Result<(), Failure> {
        let since = since.map(|id| format!("&since={}", utf8_percent_encode(id, NON_ALPHANUMERIC)));
        let complete = if self.require_complete { "&complete=true" } else { "" };
        let query = format!("?format=bundle{}{complete}", since.unwrap_or_default());
        let server = self.server.server(config, &self.purpose())?;
        out.set_len(0).and_then(|()| out.rewind())?;
        let head = server.download(&query, "the bundle is being written", out);
        server.close();
        let head = head?;
        let [is_exact, is_whole] = [EXACT, WHOLE].map(|name| head.get(name).is_none_or(|told| told != "false"));
        if !is_whole {
            tell("warning: the store is damaged; details that cannot be read are missing in the bundle");
        }
        if !is_exact {
            tell(
                "warning: the export of the base is not recorded here; for unchanged listings, the delta lacks details fetched after that export; if the other side needs them, export a full bundle",
            );
        }
        Ok(())
    }

    /// Writes a dump into a file, which has its name when it is whole, or to standard output.
    fn export_dump(&self, config: &Config, kind: DumpKind) -> Result<ExitCode, Failure> {
        let path = &self.file;
        if path.as_os_str() == "-" {
            let mut out = Output::default();
            return match self.make_dump(config, kind, &mut out) {
                // The reader has ended, as `head` does: the exit code that a shell gives for that.
                Err(_) if out.is_closed => Ok(ExitCode::from(128 + 13)),
                made => made.map(|_snapshot| ExitCode::SUCCESS),
            };
        }
        let mut unfinished = AtomicFile::beside(path)?;
        let snapshot = self.make_dump(config, kind, unfinished.file()).map_err(not_done(path, "written"))?;
        let (bytes, file, format) = (unfinished.finish()?, path.display().to_string(), kind.as_str());
        if self.json {
            let told =
                json!({ "exported": true, "file": file, "format": format, "snapshot": snapshot, "bytes": bytes });
            say_json(told)?;
        } else {
            say(format!("{file}: snapshot {snapshot} as {format}, {bytes} bytes"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes a dump; returns the id of its snapshot.
    fn make_dump(&self, config: &Config, kind: DumpKind, out: &mut dyn Write) -> Result<String, Failure> {
        let server = self.server.server(config, &self.purpose())?;
        let head = server.download(&format!("?format={}", kind.as_str()), "the file is being made", out);
        server.close();
        let head = head?;
        Ok(head.get("mirror-snapshot").and_then(|id| id.to_str().ok()).unwrap_or("-").to_owned())
    }
}

fn coverage(manifest: &Manifest) -> String {
    let Manifest { coverage, details, listings, .. } = manifest;
    let gone = if coverage.gone == 0 { String::new() } else { format!(", {} missing at the origin", coverage.gone) };
    let here = format!("details: {} of {} mirrored{gone}", coverage.present, counted(*listings, "listing"));
    if manifest.base.is_some() {
        format!("{here}; {} new or changed details are in the bundle", details.all())
    } else {
        here
    }
}

fn comment(manifest: &Manifest) -> String {
    let confirmed = WallTime::from_millis(manifest.confirmed_ms);
    format!("grandstand {}, confirmed at {confirmed}", what(manifest))
}

/// The base of a delta: the snapshot of a bundle if there is a file of that name, else the id.
fn base(since: &str) -> Result<String, Failure> {
    let path = Path::new(since);
    if since.is_empty() {
        return Err(Failure::usage(ExportError::NoBase));
    }
    if !since.bytes().all(|byte| byte.is_ascii_hexdigit()) || path.is_file() {
        let bundle = open_file(path, u64::MAX).and_then(|file| Ok(Bundle::open(file, &mut |_, _| {})?));
        let bundle = bundle.map_err(|error| in_file(path, error))?;
        return Ok(bundle.manifest().snapshot.to_string());
    }
    Ok(since.to_owned())
}
