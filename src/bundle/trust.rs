//! Opens a bundle file, if its signature suffices.
//!
//! The signature is verified before the content is read. Callers: verify, inspect, import and `serve --bundle`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::signature::{KeyId, Signature, SignatureError, Signed, TrustedKeys};
use super::{Bundle, BundleError, Progress, regular};

/// Why a bundle file is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    /// The file cannot be opened.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The file is larger than the limit.
    #[error("{} has {length} bytes, more than bundle.max_size ({most})", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        length: u64,
        /// The bound.
        most: u64,
    },
    /// The required signature is missing.
    #[error("{} is not signed, but bundle.trusted_keys requires a signature beside it (.minisig)", .0.display())]
    Unsigned(PathBuf),
    /// The signature is not accepted.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The bundle is not accepted.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// The result of checking the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// There is no signature, and none is required.
    Nobody,
    /// The signature names this key; it was not verified, because no key is trusted.
    Unverified(KeyId),
    /// The signature cannot be read, and none is required.
    Unreadable(String),
    /// A trusted key signed it.
    Signed(Signed),
}

/// A bundle that may be used.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file, for [`Bundle::details`].
    pub file: File,
    pub bundle: Bundle,
    pub voucher: Voucher,
}

/// Verifies signature and bundle. `most`: the most bytes that the file may have. `progress` gets bytes of the bundle.
///
/// # Errors
/// When either is refused. An unsigned bundle is refused if any key is trusted.
pub(crate) fn open(
    path: &Path,
    trusted: &TrustedKeys,
    most: u64,
    progress: Progress<'_>,
) -> Result<Opened, TrustError> {
    let file = open_file(path)?;
    let length = file.metadata().map_err(|source| TrustError::Io { path: path.to_owned(), source })?.len();
    if length > most {
        return Err(TrustError::TooLarge { path: path.to_owned(), length, most });
    }
    let voucher = vouch(path, &file, trusted)?;
    let bundle = Bundle::open(&file, progress)?;
    match &voucher {
        Voucher::Signed(signed) if signed.file_hash != bundle.file_hash() => Err(BundleError::Changed.into()),
        _ => Ok(Opened { file, bundle, voucher }),
    }
}

/// Opens a file for reading, more than once.
///
/// # Errors
/// When it is no regular file, or cannot be opened.
pub(crate) fn open_file(path: &Path) -> Result<File, TrustError> {
    regular::open(path).map_err(|source| TrustError::Io { path: path.to_owned(), source })
}

/// Verifies the signature beside a file alone.
///
/// # Errors
/// As for [`open`].
pub(crate) fn vouch(path: &Path, file: &File, trusted: &TrustedKeys) -> Result<Voucher, TrustError> {
    Ok(match (Signature::beside(path), trusted.is_empty()) {
        (Ok(None), true) => Voucher::Nobody,
        (Ok(None), false) => return Err(TrustError::Unsigned(path.to_owned())),
        (Ok(Some(signature)), true) => Voucher::Unverified(signature.key()),
        (Ok(Some(signature)), false) => Voucher::Signed(signature.verify(file, trusted)?),
        (Err(error), true) => Voucher::Unreadable(error.to_string()),
        (Err(error), false) => return Err(error.into()),
    })
}
