//! `grandstand bundle`: snapshots as files. `verify` and `inspect` touch no data directory.
//!
//! Callers: [`super`].

mod atomic_file;
mod export;
mod import;

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::terminal::{bytes_bar, facts, say, say_json, tell};
use super::{Failure, FileError, Sources, load, plain};
use crate::clock::{Clock, WallTime};
use crate::config::Config;
use crate::data::bundle::signature::{self as trust, Claim, Opened, SignatureError, TrustError, TrustedKeys, Voucher};
use crate::data::bundle::{self, Bundle as Opening, Manifest};
use crate::data::snapshot::dataset::{Dataset, DatasetError};
use crate::data::store::nameless;
use crate::protocol::freshness::{age_seconds, is_from_the_future};
use crate::server::fleet::trusted_keys;
use crate::words::{counted, seconds, with_causes};

/// Arguments of `grandstand bundle`.
#[derive(Debug, Args)]
pub(super) struct Bundle {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the current snapshot to a file, or the changes since an earlier export
    ///
    /// Values of `--format` other than `bundle` write listings or details for other tools.
    Export(export::Export),
    /// Import a bundle as the newest snapshot; the previous snapshot is kept
    Import(import::Import),
    /// Check every byte of a bundle, and its signature if bundle.trusted_keys is set
    ///
    /// The signature is FILE.minisig. A delta is checked without its base.
    Verify(One),
    /// Show counts, dates, signature, licence and attribution of a bundle
    Inspect(One),
}

/// One bundle.
#[derive(Debug, Args)]
struct One {
    #[command(flatten)]
    sources: Sources,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Bundle file; `-` is standard input, which has no signature
    file: PathBuf,
}

/// An intact and signed bundle whose snapshot cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("the bundle is intact, but its snapshot cannot be served: {0}")]
struct Unservable(#[from] DatasetError);

impl Bundle {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.action {
            Action::Export(export) => export.run(),
            Action::Import(import) => import.run(),
            Action::Verify(one) => one.verify(),
            Action::Inspect(one) => one.inspect(),
        }
    }
}

/// A file that was not written, or not imported.
#[derive(Debug, thiserror::Error)]
#[error("{} was not {undone}: {why}", path.display())]
struct NotDone {
    path: PathBuf,
    undone: &'static str,
    /// In one line: an error quotes the bundle.
    why: String,
}

/// Gives a failure the name of the file. `undone`: `"written"` or `"imported"`.
fn not_done(path: &Path, undone: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| match failure {
        Failure::Other(error) => {
            NotDone { path: path.to_owned(), undone, why: plain(&with_causes(error.as_ref())) }.into()
        }
        wrong => wrong,
    }
}

fn trusted(config: &Config) -> Result<TrustedKeys, Failure> {
    trusted_keys(config).map_err(|error| Failure::of_key("bundle.trusted_keys", &error))
}

#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
struct InFile {
    path: PathBuf,
    /// In one line.
    why: String,
}

/// The file of a bundle, and its name. `-` is standard input, of which a nameless copy is made: a bundle is read more than
/// once. The copy ends after one byte more than `most`.
fn named(path: &Path, most: u64) -> Result<(PathBuf, File), Failure> {
    if path.as_os_str() != "-" {
        return Ok((path.to_owned(), trust::open_file(path, most)?));
    }
    let (path, directory) = (PathBuf::from(trust::INPUT), std::env::temp_dir());
    let copied = format!("{}, copied to {}", trust::INPUT, directory.display());
    let mut copy = nameless(&directory)?;
    let length = io::copy(&mut io::stdin().lock().take(most.saturating_add(1)), &mut copy);
    let length = length.map_err(FileError::at(Path::new(&copied)))?;
    if length > most {
        return Err(TrustError::TooLarge { path, length, most }.into());
    }
    copy.rewind()?;
    Ok((path, copy))
}

/// A bundle that nobody has read yet.
struct UnreadBundle {
    path: PathBuf,
    file: File,
    claim: Claim,
    keys: TrustedKeys,
}

impl UnreadBundle {
    fn of(path: &Path, config: &Config) -> Result<Self, Failure> {
        let keys = trusted(config)?;
        let (path, file) = named(path, bundle::MOST_BYTES)?;
        let claim = trust::claim(&path, &file, &keys).map_err(|error| in_file(&path, error))?;
        Ok(Self { path, file, claim, keys })
    }

    fn open(self) -> Result<Opened, Failure> {
        let Self { path, file, claim, keys } = self;
        let opened = trust::open(file, claim, &keys, None, &mut bytes_bar("verifying"));
        opened.map_err(|error| in_file(&path, error))
    }

    /// Verifies the signature alone.
    fn vouched(self) -> Result<(File, Voucher), Failure> {
        let Self { path, file, claim, keys } = self;
        let voucher = match claim {
            Claim::Free(voucher) => Ok(voucher),
            Claim::Signed(signature) => signature.verify(&file, &keys).map(Voucher::Signed),
        };
        Ok((file, voucher.map_err(|error| in_file(&path, error.into()))?))
    }
}

fn in_file(path: &Path, error: TrustError) -> Failure {
    match error {
        // These errors name the file themselves.
        TrustError::Signature(SignatureError::Io { .. })
        | TrustError::Unsigned(_)
        | TrustError::UnsignedInput
        | TrustError::TooLarge { .. } => error.into(),
        TrustError::Signature(SignatureError::NotASignature(_) | SignatureError::Legacy) => {
            InFile { path: trust::path_of(path), why: plain(&with_causes(&error)) }.into()
        }
        error => InFile { path: path.to_owned(), why: plain(&with_causes(&error)) }.into(),
    }
}

impl One {
    fn verify(&self) -> Result<ExitCode, Failure> {
        let unread = UnreadBundle::of(&self.file, &load(&self.sources.told())?.config)?;
        let path = unread.path.clone();
        let Opened { bundle, voucher, .. } = unread.open()?;
        let (manifest, content, evidence) = bundle.into_content();
        if let Some(content) = content {
            Dataset::build(content, &evidence).map_err(Unservable)?;
        }
        if self.json {
            say_json(told(&path, "intact", &manifest, &signature(&Ok(voucher)))?)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(format!("{}: intact, {}\n{}", path.display(), what(&manifest), signed(&voucher)))?;
        let (now, confirmed) = (Clock::system().now_wall(), WallTime::from_millis(manifest.confirmed_ms));
        if is_from_the_future(confirmed, now) {
            tell(format!("warning: the data is dated {confirmed}, in the future; an import treats it as unconfirmed"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Shows a bundle that is intact, whoever signed it.
    fn inspect(&self) -> Result<ExitCode, Failure> {
        let keys = trusted(&load(&self.sources.told())?.config)?;
        let (path, file) = named(&self.file, u64::MAX)?;
        let length = file.metadata()?.len();
        let (bundle, voucher) = match trust::claim(&path, &file, &keys) {
            Ok(claim) => trust::read(&file, claim, &keys, None, &mut bytes_bar("reading")),
            Err(error) => (Opening::open(&file, &mut bytes_bar("reading")), Err(error)),
        };
        let bundle = bundle.map_err(|error| in_file(&path, error.into()))?;
        let now = Clock::system().now_wall();
        if self.json {
            say_json(inspected(&path, &bundle, length, &voucher, now)?)?;
        } else {
            say(screen(&path, &bundle, length, &voucher, now))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn screen(path: &Path, bundle: &Opening, length: u64, voucher: &Result<Voucher, TrustError>, now: WallTime) -> String {
    let manifest = bundle.manifest();
    let confirmed = WallTime::from_millis(manifest.confirmed_ms);
    let counts = |counts: bundle::Counts| format!("{} mirrored, {} missing at the origin", counts.present, counts.gone);
    let none = || "(none)".to_owned();
    let mut lines = vec![
        ("bundle", format!("{}, {}, format {}", path.display(), counted(length, "byte"), bundle.format())),
        ("what", what(manifest)),
        ("confirmed", format!("{confirmed}, {}; {}", ago(now, confirmed), manifest.certificate.as_str())),
        ("details", format!("{}; of {}", counts(manifest.coverage), counted(manifest.listings, "listing"))),
    ];
    if let Some(base) = &manifest.base {
        let change = format!("{} added, {} changed, {} removed", base.added, base.changed, base.removed);
        lines.push(("base", format!("snapshot {} of {}: {change}", base.snapshot, counted(base.listings, "listing"))));
        lines.push(("in this file", format!("details: {}", counts(manifest.details))));
    }
    lines.extend([
        ("origin", manifest.origin.clone().unwrap_or_else(none)),
        ("license", manifest.license.clone().unwrap_or_else(none)),
        ("attribution", manifest.attribution.clone().unwrap_or_else(none)),
        ("made by", manifest.program.clone()),
        ("digest", bundle.digest().to_string()),
        ("signature", voucher.as_ref().map_or_else(ToString::to_string, signed)),
    ]);
    lines.extend(manifest.open_points.iter().map(|point| ("open", point.clone())));
    let lines: Vec<(&str, String)> = lines.into_iter().map(|(name, text)| (name, plain(&text))).collect();
    facts(&lines)
}

fn inspected(
    path: &Path,
    bundle: &Opening,
    length: u64,
    voucher: &Result<Voucher, TrustError>,
    now: WallTime,
) -> Result<Value, Failure> {
    let manifest = bundle.manifest();
    let confirmed = WallTime::from_millis(manifest.confirmed_ms);
    Ok(json!({
        "file": path.display().to_string(),
        "bytes": length,
        "format": bundle.format(),
        "kind": manifest.kind(),
        "digest": bundle.digest().to_string(),
        "confirmed_at": confirmed.rfc3339(),
        "unconfirmed": is_from_the_future(confirmed, now),
        "age_seconds": (!is_from_the_future(confirmed, now)).then(|| age_seconds(now, confirmed)),
        "signature": signature(voucher),
        "manifest": serde_json::to_value(manifest)?,
    }))
}

/// What was done with which file, and what is in it, for scripts. `done`: `"intact"`, `"exported"` or `"imported"`.
fn told(file: &Path, done: &str, manifest: &Manifest, signature: &Value) -> Result<Value, Failure> {
    Ok(json!({
        done: true,
        "file": file.display().to_string(),
        "kind": manifest.kind(),
        "snapshot": manifest.snapshot.to_string(),
        "listings": manifest.listings,
        "signature": signature,
        "manifest": serde_json::to_value(manifest)?,
    }))
}

fn signature(voucher: &Result<Voucher, TrustError>) -> Value {
    match voucher {
        Ok(Voucher::Nobody) => json!({ "state": "none" }),
        Ok(Voucher::Unreadable(why)) => json!({ "state": "unreadable", "problem": why }),
        Ok(Voucher::Unverified(key)) => json!({ "state": "unverified", "key": key.to_string() }),
        Ok(Voucher::Signed(by)) => json!({ "state": "verified", "key": by.key.to_string(), "comment": by.comment }),
        Err(error) => json!({ "state": "refused", "problem": error.to_string() }),
    }
}

fn what(manifest: &Manifest) -> String {
    let (snapshot, listings) = (&manifest.snapshot, counted(manifest.listings, "listing"));
    match &manifest.base {
        None => format!("snapshot {snapshot} with {listings}"),
        Some(base) => format!("delta from snapshot {} to {snapshot} with {listings}", base.snapshot),
    }
}

fn signed(voucher: &Voucher) -> String {
    match voucher {
        Voucher::Nobody => "not signed".to_owned(),
        Voucher::Unreadable(why) => {
            format!(
                "the signature file cannot be read ({}); signatures are not required, so it was ignored",
                plain(why)
            )
        }
        Voucher::Unverified(key) => {
            format!("signed by the key {key}, but not verified: bundle.trusted_keys is empty")
        }
        Voucher::Signed(signed) => format!("signed by the trusted key {}: {}", signed.key, plain(&signed.comment)),
    }
}

fn ago(now: WallTime, then: WallTime) -> String {
    if is_from_the_future(then, now) {
        return "in the future: not confirmed".to_owned();
    }
    format!("{} ago", seconds(age_seconds(now, then).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_the_bundle_holds() {
        let error = || bundle::BundleError::Disagrees { what: "x", manifest: "a\n\u{1b}[2J".into(), found: "b".into() };
        let failures = [
            in_file(Path::new("x.bundle"), error().into()),
            not_done(Path::new("x.bundle"), "imported")(error().into()),
        ];
        for failure in failures {
            let told = failure.to_string();
            assert!(told.contains("a\\n\\u{1b}[2J") && !told.contains(char::is_control), "{told:?}");
        }
    }
}
