//! `grandstand bundle export`: writes the current snapshot to one file, through the server that holds the data
//! directory or directly.
//!
//! The file gets its name when it is complete. Callers: [`super`].

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::dump::{self, Format};
use super::unfinished::{FileError, Unfinished, remove};
use super::{Sources, for_scripts, in_file, remote, what};
use crate::app::core::open_snapshots;
use crate::bundle::signature::{self, Signer, open_file};
use crate::bundle::{Bundle, Manifest};
use crate::cli::holder::Holder;
use crate::cli::progress::{Display, bytes_bar};
use crate::cli::{Failure, load_for_snapshots, logging};
use crate::clock::WallTime;
use crate::config::{Config, LogConfig, LogLevel};
use crate::snapshots::Snapshots;
use crate::snapshots::export::Exported;
use crate::store::DataDir;
use crate::words::counted;

/// Arguments of `grandstand bundle export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    sources: Sources,
    /// File to write; an existing file is replaced
    ///
    /// `-` is standard output; not possible for a bundle.
    file: PathBuf,
    /// What to write: a bundle for another grandstand, or the current snapshot for other tools
    #[arg(long, value_enum, default_value = "bundle")]
    format: Format,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write only the changes since this snapshot
    ///
    /// Give the id of a snapshot that grandstand still keeps, or the file of an earlier export of it.
    #[arg(long, value_name = "ID|FILE")]
    since: Option<String>,
    /// Sign with this secret key of the minisign tool
    ///
    /// The signature is written to FILE.minisig. If the key has a password, it is read from the terminal
    /// or from standard input.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

/// Why no bundle was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("{} was not written: {source}", path.display())]
    Unwritten { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("--since is empty; give a snapshot id, or the file of an earlier export")]
    NoBase,
    #[error("--since and --sign are for bundles: leave --format out")]
    NotForDumps,
    #[error("a bundle cannot be written to standard output, because it is read again to verify it: name a file")]
    NoFile,
}

impl Export {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load_for_snapshots(&self.sources)?;
        logging::start(LogConfig { level: LogLevel::Warn, ..config.log })?;
        if let Some(kind) = self.format.dump() {
            if self.since.is_some() || self.sign.is_some() {
                return Err(Failure::usage(ExportError::NotForDumps));
            }
            return dump::export(&config, kind, &self.file, self.json);
        }
        if self.file.as_os_str() == "-" {
            return Err(Failure::usage(ExportError::NoFile));
        }
        // Before the work, so that a wrong password fails at once.
        let password = || signature::ask_password("password of the secret key: ");
        let signer = self.sign.as_ref().map(|key| Signer::open(key, password)).transpose()?;
        let since = self.since.as_deref().map(base).transpose()?;
        let mut unfinished = Unfinished::beside(&self.file)?;
        let made = make(&config, unfinished.file(), since.as_deref()).map_err(|failure| match failure {
            Failure::Other(source) => ExportError::Unwritten { path: self.file.clone(), source }.into(),
            wrong => wrong,
        })?;
        // Verified as an import will do it.
        let bar = bytes_bar("verifying");
        let bundle = Bundle::open(unfinished.file(), &mut |done, of| bar.show(done, of))?;
        bar.finish();
        let manifest = bundle.manifest();
        let sign = |signer: &Signer| -> Result<_, Failure> {
            let path = signature::path_of(&self.file);
            let mut signature = Unfinished::beside(&path)?;
            let text = signer.sign(unfinished.again()?, &comment(manifest))?;
            signature
                .file()
                .write_all(text.as_bytes())
                .map_err(|source| FileError::Io { path: path.clone(), source })?;
            Ok((signature, path, signer.key()))
        };
        let signed = signer.as_ref().map(sign).transpose()?;
        // Between these two renames the bundle has no valid signature.
        let bytes = unfinished.finish()?;
        let signed = match signed {
            Some((signature, path, key)) => signature.finish().map(|_| Some((path, key)))?,
            None => remove(&signature::path_of(&self.file)).map(|()| None)?,
        };
        made.remember();
        if self.json {
            let key = signed.map(|(_, key)| key.to_string());
            let state = if key.is_some() { "verified" } else { "none" };
            let told = for_scripts::told(&self.file, "exported", manifest, &json!({ "state": state, "key": key }))?;
            println!("{told}");
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}: {}, {}", self.file.display(), what(manifest), counted(bytes, "byte"));
        println!("{}", coverage(manifest));
        if let Some((path, key)) = signed {
            println!("signed by the key {key}: {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A written bundle.
enum Made {
    /// By a server, which records it.
    There,
    /// By this process, with the directory locked until it is recorded.
    Here(Box<(DataDir, Snapshots, Exported)>),
}

impl Made {
    /// Records the finished export.
    fn remember(self) {
        if let Self::Here(made) = self {
            let (_data_dir, snapshots, exported) = *made;
            if let Err(error) = snapshots.remember(exported) {
                eprintln!("warning: this export could not be recorded ({error}); a delta from it may be impossible");
            }
        }
    }
}

fn make(config: &Config, out: &mut File, since: Option<&str>) -> Result<Made, Failure> {
    let (made, known) = match Holder::find(config, open_snapshots)? {
        Holder::Here(data_dir, snapshots) => {
            let mut display = Display::new();
            let exported = snapshots.export(out, since, &mut |done, of| display.count(0, "details", done, of));
            display.finish();
            let exported = exported?;
            let known = remote::Known { is_exact: exported.is_exact, is_whole: exported.is_whole };
            (Made::Here(Box::new((data_dir, snapshots, exported))), known)
        }
        Holder::There { admin, token } => (Made::There, remote::export(&admin, token.as_ref(), since, out)?),
    };
    if !known.is_whole {
        eprintln!("warning: the store is damaged; details that cannot be read are missing in the bundle");
    }
    if !known.is_exact {
        eprintln!(
            "warning: the export of the base is not recorded here; for unchanged listings, the delta lacks details fetched after that export"
        );
    }
    Ok(made)
}

/// A line about its details.
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

/// The signed comment.
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
        let bundle = open_file(path).and_then(|file| Ok(Bundle::open(file, &mut |_, _| {})?));
        let bundle = bundle.map_err(|error| in_file(path, error))?;
        return Ok(bundle.manifest().snapshot.to_string());
    }
    Ok(since.to_owned())
}
