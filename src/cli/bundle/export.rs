//! `grandstand bundle export`: what is served as one file, by the server that holds the data directory or from it.
//!
//! Nothing is seen under the file's name before it is whole. Callers: [`super`].

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::remote;
use super::{Sources, what};
use crate::app::core::{AppError, open_versions};
use crate::bundle::signature::{self, Signer};
use crate::bundle::trust::open_file;
use crate::bundle::{Bundle, Manifest};
use crate::cli::progress::bytes_bar;
use crate::cli::{Failure, load, logging};
use crate::clock::WallTime;
use crate::config::{Config, LogConfig, LogLevel, Use};
use crate::store::OpenError;

/// Arguments of `grandstand bundle export`.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    sources: Sources,
    /// The file that is written; one of that name is replaced
    file: PathBuf,
    /// Writes only what changed since a kept snapshot, named by its id or by the bundle of it that was exported before
    #[arg(long, value_name = "ID|FILE")]
    since: Option<String>,
    /// Signs with a secret key of the minisign tool, into FILE.minisig; the password is asked for, or read from standard
    /// input
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

/// Why no bundle was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("a shield keeps no snapshots: leave mirror.enabled = true")]
    Shield,
    #[error("{} was not written: {source}", path.display())]
    Unwritten { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl Export {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load(&self.sources)?.config;
        logging::start(LogConfig { level: LogLevel::Warn, ..config.log })?;
        if config.usage() == Use::Shield {
            return Err(ExportError::Shield.into());
        }
        // Before the work: a password that is wrong is told at once.
        let password = || signature::ask_password("password of the secret key: ");
        let signer = self.sign.as_ref().map(|key| Signer::open(key, password)).transpose()?;
        let since = self.since.as_deref().map(base).transpose()?;
        let mut unfinished = Unfinished::beside(&self.file)?;
        write(&config, unfinished.file(), since.as_deref()).map_err(|failure| match failure {
            Failure::Other(source) => ExportError::Unwritten { path: self.file.clone(), source }.into(),
            config @ Failure::Config(_) => config,
        })?;
        // What was written is what an import will see.
        let bundle = Bundle::open(unfinished.file(), &mut |_, _| {})?;
        let (manifest, mut signed) = (bundle.manifest(), None);
        if let Some(signer) = &signer {
            let text = signer.sign(unfinished.again()?, &comment(manifest))?;
            signed = Some((signature::path_of(&self.file), text, signer.key()));
        }
        if let Some((path, text, _)) = &signed {
            put(path, text.as_bytes())?;
        } else {
            // One that was there is of another file.
            let stale = signature::path_of(&self.file);
            match fs::remove_file(&stale) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ExportError::Io { path: stale, source }.into());
                }
                _ => {}
            }
        }
        let bytes = unfinished.finish()?;
        println!("{}: {}, {bytes} bytes", self.file.display(), what(manifest));
        let details = manifest.details.present;
        println!("details of {details} listings in it, {} of {}", coverage(manifest), manifest.listings);
        if let Some((path, _, key)) = signed {
            println!("signed by the key {key}: {}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write(config: &Config, out: &mut File, since: Option<&str>) -> Result<(), Failure> {
    match open_versions(config) {
        Ok((_data_dir, versions)) => {
            let bar = bytes_bar("details");
            let written = versions.export(out, since, &mut |done, of| bar.show(done, of));
            bar.finish();
            written?;
            Ok(())
        }
        Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
            remote::export(&format!("http://{admin}"), config.admin.token.as_ref(), since, out)
        }
        Err(error) => Err(error.into()),
    }
}

/// How many details there are here.
fn coverage(manifest: &Manifest) -> String {
    match manifest.coverage.gone {
        0 => format!("{} mirrored", manifest.coverage.present),
        gone => format!("{} mirrored and {gone} gone", manifest.coverage.present),
    }
}

/// What the signature says of the file.
fn comment(manifest: &Manifest) -> String {
    let confirmed = WallTime::from_millis(manifest.confirmed_ms).rfc3339();
    format!("grandstand {}, confirmed at {confirmed}", what(manifest))
}

/// The snapshot that a delta is to build upon: that of a bundle, where there is a file of that name, else that id.
fn base(since: &str) -> Result<String, Failure> {
    let path = Path::new(since);
    if !path.is_file() {
        return Ok(since.to_owned());
    }
    let bundle = Bundle::open(open_file(path)?, &mut |_, _| {})?;
    Ok(bundle.manifest().snapshot.to_string())
}

/// A file that gets its name when it is whole, and is gone if that never happens.
struct Unfinished {
    file: File,
    path: PathBuf,
    name: PathBuf,
}

impl Unfinished {
    fn beside(name: &Path) -> Result<Self, ExportError> {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(path);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(|source| ExportError::Io { path: path.clone(), source })?;
        Ok(Self { file, path, name: name.to_owned() })
    }

    fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The same bytes from the start.
    fn again(&self) -> Result<File, ExportError> {
        File::open(&self.path).map_err(|source| ExportError::Io { path: self.path.clone(), source })
    }

    fn finish(self) -> Result<u64, ExportError> {
        let bytes = self.file.sync_all().and_then(|()| self.file.metadata()).map(|meta| meta.len());
        let bytes = bytes.and_then(|bytes| fs::rename(&self.path, &self.name).map(|()| bytes));
        bytes.map_err(|source| ExportError::Io { path: self.name.clone(), source })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone already when it was finished.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a small file, whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let mut unfinished = Unfinished::beside(path)?;
    unfinished.file().write_all(bytes).map_err(|source| ExportError::Io { path: path.to_owned(), source })?;
    unfinished.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("b.gsb");
        fs::write(&name, "old").unwrap();
        drop(Unfinished::beside(&name).unwrap());
        assert_eq!((fs::read(&name).unwrap().as_slice(), fs::read_dir(dir.path()).unwrap().count()), (&b"old"[..], 1));
        put(&name, b"new").unwrap();
        assert_eq!((fs::read(&name).unwrap().as_slice(), fs::read_dir(dir.path()).unwrap().count()), (&b"new"[..], 1));
    }
}
