//! `GET /bundle` exports the current snapshot as a bundle, `POST /bundle` imports one: for commands on a data directory
//! that this process holds. `GET /bundle?format=csv` sends a dump instead.
//!
//! Bundles can be larger than memory, so they pass through a nameless file in the data directory. One export or import
//! at a time; the next one waits. One upload at a time; the next one is refused. Callers: [`super::front`].

pub(crate) mod dump;
pub(crate) mod upload;

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use pingora::ErrorType;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use tokio::sync::Mutex;

use crate::api::query::file::FileQuery;
use crate::api::route::DumpKind;
use crate::data::bundle::signature::{self, Claim, Signature, SignatureError, TrustError, TrustedKeys, Voucher};
use crate::data::bundle::{BundleError, MOST_BYTES};
use crate::data::details::Details;
use crate::data::snapshots::export::Exported;
use crate::data::snapshots::{Snapshots, SnapshotsError};
use crate::data::store::{StoreError, is_full};
use crate::edge::dumps::{DumpError, Dumps, NotSelected};
use crate::protocol::coding::Coding;
use crate::protocol::excerpt::Excerpt;
use crate::tasks::{Aborted, blocking};

use self::dump::{Wanted, wanted};
use super::snapshots::status_of;
use super::{Reply, error, json_reply};

/// How much is read from a file at once.
const PIECE: usize = 256 << 10;

/// `Retry-After` of an upload that was refused because of another one, in seconds.
const AGAIN: u32 = 3;

/// The signature of an uploaded bundle: the text of its `.minisig` file, percent-encoded.
pub(crate) const SIGNATURE: &str = "bundle-signature";

/// Whether the export of the base was recorded.
pub(crate) const EXACT: &str = "bundle-exact";

/// Whether every detail could be read.
pub(crate) const WHOLE: &str = "bundle-whole";

pub(crate) struct Bundles {
    /// The kept snapshots; `None` in shield use, as the details and the dumps.
    pub snapshots: Option<Snapshots>,
    pub details: Option<Details>,
    pub dumps: Option<Dumps>,
    pub trusted: TrustedKeys,
    /// Where files without a name lie.
    pub directory: PathBuf,
    /// Held during an export or import.
    pub turn: Mutex<()>,
    /// Held from the first byte of an upload to the end of its import.
    pub uploading: Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("a shield keeps no snapshots; set mirror.enabled = true")]
    Shield,
    #[error("{0}")]
    Query(String),
    #[error(transparent)]
    Dump(#[from] NotSelected),
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error("{0}, and restart the server")]
    Untrusted(SignatureError),
    #[error(
        "the bundle is not signed, but bundle.trusted_keys requires a signature: put its .minisig file beside it, and run \
         `grandstand bundle import`, which sends both"
    )]
    Unsigned,
    #[error("the bundle is too large: it may have {0} bytes")]
    TooLarge(u64),
    #[error("the upload ended early; try again")]
    BrokenOff,
    #[error("the upload is too slow: at least 64 KiB per second are required, and at most two hours in all")]
    Slow,
    #[error("another bundle is being uploaded or imported; try again later")]
    Busy,
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl Failed {
    fn status(&self) -> StatusCode {
        match self {
            _ if self.lacks_room() => StatusCode::INSUFFICIENT_STORAGE,
            Self::Shield | Self::Dump(NotSelected::Dump(DumpError::Nothing)) => StatusCode::CONFLICT,
            Self::Query(_) | Self::BrokenOff => StatusCode::BAD_REQUEST,
            Self::Snapshots(error) => status_of(error),
            Self::Trust(TrustError::Signature(_)) | Self::Signature(_) | Self::Untrusted(_) | Self::Unsigned => {
                StatusCode::FORBIDDEN
            }
            Self::Bundle(_) | Self::Trust(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::Dump(NotSelected::Busy) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Dump(_) | Self::Io { .. } | Self::Aborted(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn lacks_room(&self) -> bool {
        let first: &(dyn std::error::Error + 'static) = self;
        std::iter::successors(Some(first), |error| (*error).source()).any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| is_full(error.kind()))
                || matches!(cause.downcast_ref(), Some(StoreError::NoSpace { .. }))
        })
    }

    fn reply(&self) -> Reply {
        let mut reply = error(self.status(), &self.to_string());
        if matches!(self, Self::Busy) {
            reply.headers_mut().insert(header::RETRY_AFTER, AGAIN.into());
        }
        reply
    }
}

pub(crate) enum Sent {
    Reply(Reply),
    File(Box<BundleDownload>),
}

impl Bundles {
    pub(crate) async fn answer(&self, method: &Method, query: Option<&str>, session: &mut ServerSession) -> Sent {
        let done = if *method == Method::POST {
            self.import(query, session).await.map(Sent::Reply)
        } else {
            self.export(query).await
        };
        done.unwrap_or_else(|failed| {
            let what = if *method == Method::POST { "imported" } else { "exported" };
            tracing::info!(error = %Excerpt(&failed), "no bundle was {what}");
            Sent::Reply(failed.reply())
        })
    }

    fn stored(&self) -> Result<(Snapshots, Details), Failed> {
        self.snapshots.clone().zip(self.details.clone()).ok_or(Failed::Shield)
    }

    async fn export(&self, query: Option<&str>) -> Result<Sent, Failed> {
        let (snapshots, details) = self.stored()?;
        let wanted = wanted(query)?;
        // So that all that have arrived can be exported. Failures of the disk are reported elsewhere.
        blocking(move || Ok::<_, Failed>(details.flush())).await?;
        let (since, complete) = match wanted {
            Wanted::Bundle { since, complete } => (since, complete),
            Wanted::Dump(kind) => {
                let dumps = self.dumps.as_ref().ok_or(Failed::Shield)?;
                return Ok(Sent::File(Box::new(BundleDownload::of_dump(kind, dumps).await?)));
            }
        };
        // Given back before the file is sent: a slow client holds up nobody.
        let _turn = self.turn.lock().await;
        let directory = self.directory.clone();
        blocking(move || {
            let mut file = upload::nameless(&directory)?;
            let exported = snapshots.export(&mut file, since.as_deref(), complete)?;
            file.rewind().map_err(|source| Failed::Io { path: directory, source })?;
            Ok(Sent::File(Box::new(BundleDownload::of_bundle(file, exported))))
        })
        .await
    }

    async fn import(&self, query: Option<&str>, session: &mut ServerSession) -> Result<Reply, Failed> {
        let (snapshots, details) = self.stored()?;
        let allow_older = allow_older(query)?;
        // Without trusted keys, no signature is read.
        let claim = if self.trusted.is_empty() {
            Claim::Free(Voucher::Nobody)
        } else {
            let signature = signature(&session.req_header().headers)?.ok_or(Failed::Unsigned)?;
            signature.check_key(&self.trusted).map_err(Failed::Untrusted)?;
            Claim::Signed(signature)
        };
        upload::check_length(&session.req_header().headers, MOST_BYTES)?;
        // Order: `uploading`, then `turn`. An upload takes its turn only when all of it is here.
        let Ok(_uploading) = self.uploading.try_lock() else { return Err(Failed::Busy) };
        let file = upload::receive(session, &self.directory, MOST_BYTES).await?;
        let trusted = self.trusted.clone();
        let _turn = self.turn.lock().await;
        blocking(move || {
            let known = snapshots.newest().get().map(|newest| newest.dataset.clone());
            let opened = signature::open(file, claim, &trusted, known.as_deref(), &mut |_, _| {})?;
            drop(known);
            let outcome = snapshots.import_opened(opened, allow_older, &details)?;
            Ok(json_reply(StatusCode::OK, &outcome))
        })
        .await
    }

    /// Sends a file, and records an export that was delivered. After an error, the connection must be closed.
    pub(crate) async fn send(&self, session: &mut ServerSession, mut download: BundleDownload) -> pingora::Result<()> {
        let mut head = ResponseHeader::build(StatusCode::OK, Some(8))?;
        for (name, value) in download.fields {
            head.insert_header(name, value)?;
        }
        session.write_response_header(Box::new(head)).await?;
        let mut last = Bytes::new();
        while let Some(piece) = download.pieces.next().await {
            let piece = piece.map_err(|error| {
                tracing::warn!(%error, "an export ended early");
                pingora::Error::explain(ErrorType::FileReadError, error.to_string())
            });
            let before = std::mem::replace(&mut last, piece?);
            // An empty one would be the end.
            if !before.is_empty() {
                session.write_response_body(before, false).await?;
            }
        }
        // Before the last piece: a client that has all of it may end, and with it the process, if that is a command's.
        if let Some((exported, snapshots)) = download.exported.zip(self.snapshots.clone()) {
            let remembered = tokio::task::spawn_blocking(move || snapshots.remember(exported)).await;
            if let Ok(Err(error)) = remembered {
                tracing::warn!("this export could not be recorded ({error}); a delta from it may be impossible");
            }
        }
        session.write_response_body(last, true).await
    }
}

/// A file that is sent: its head, and its pieces.
pub(crate) struct BundleDownload {
    fields: Vec<(HeaderName, String)>,
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// What is recorded once it is delivered.
    exported: Option<Exported>,
}

impl BundleDownload {
    fn of_bundle(file: File, exported: Exported) -> Self {
        let (length, snapshot) = (exported.written.bytes, exported.written.manifest.snapshot.as_str());
        let mut fields = fields(
            "application/octet-stream",
            Some(length),
            &format!("attachment; filename=\"{snapshot}.gsb\""),
            snapshot,
        );
        let marks = [(EXACT, exported.is_exact), (WHOLE, exported.is_whole)];
        fields.extend(marks.map(|(name, holds)| (HeaderName::from_static(name), holds.to_string())));
        let pieces = stream::try_unfold((file, length), |(mut file, left)| async move {
            let want = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            if want == 0 {
                return Ok(None);
            }
            let mut piece = vec![0; want];
            blocking(move || file.read_exact(&mut piece).map(|()| Some((piece.into(), (file, left - want as u64)))))
                .await
        });
        Self { fields, pieces: Box::pin(pieces), exported: Some(exported) }
    }

    async fn of_dump(kind: DumpKind, dumps: &Dumps) -> Result<Self, NotSelected> {
        let chosen = dumps.choose(kind, FileQuery::default(), Ipv4Addr::LOCALHOST.into()).await?;
        let snapshot = chosen.published.dataset.id.clone();
        let fields = fields(kind.media_type(), None, kind.disposition(false), snapshot.as_str());
        let selected = chosen.open(Coding::Identity, None).await?;
        let pieces = stream::unfold(selected, |mut selected| async { Some((selected.next().await?, selected)) });
        Ok(Self { fields, pieces: Box::pin(pieces), exported: None })
    }
}

/// `length`: of what is whole already.
fn fields(media_type: &str, length: Option<u64>, disposition: &str, snapshot: &str) -> Vec<(HeaderName, String)> {
    let length = length.map(|length| (header::CONTENT_LENGTH, length.to_string()));
    let others = [
        (header::CONTENT_TYPE, media_type.to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_DISPOSITION, disposition.to_owned()),
        (HeaderName::from_static("mirror-snapshot"), snapshot.to_owned()),
    ];
    length.into_iter().chain(others).collect()
}

/// Whether an import may be older than an earlier one.
fn allow_older(query: Option<&str>) -> Result<bool, Failed> {
    match query.unwrap_or_default() {
        "" | "allow_older=false" => Ok(false),
        "allow_older=true" => Ok(true),
        other => {
            Err(Failed::Query(format!("{other:?} is not understood; the only parameter is `allow_older=true`, once")))
        }
    }
}

fn signature(headers: &HeaderMap) -> Result<Option<Signature>, Failed> {
    let Some(value) = headers.get(SIGNATURE) else { return Ok(None) };
    let text: Vec<u8> = percent_decode_str(value.to_str().unwrap_or_default()).collect();
    Ok(Some(Signature::parse(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_data_is_allowed_in_so_many_words() {
        for (query, allowed) in
            [(None, false), (Some(""), false), (Some("allow_older=false"), false), (Some("allow_older=true"), true)]
        {
            assert_eq!(allow_older(query).unwrap(), allowed, "{query:?}");
        }
        for wrong in ["allow_older", "allow_older=1", "allow-older=true", "since=ab", "allow_older=true&x=1"] {
            assert!(allow_older(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
