//! Bundles to and from the server that holds the data directory, through its admin listener.
//!
//! Callers: [`super::export`], [`super::import`].

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Method, Response};
use hyper::body::{Body as _, Incoming};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::admin::bundle::{EXACT, SIGNATURE, WHOLE};
use crate::api::route::DumpKind;
use crate::bundle::signature;
use crate::cli::Failure;
use crate::cli::progress::{Spinner, bytes_bar};
use crate::cli::server_client::{self, ServerClient};
use crate::cli::status::refusal;
use crate::config::Secret;

/// For the connection only. The time until the answer depends on the bundle.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may be busy with other uploads.
const TURN: Duration = Duration::from_secs(1800);

/// Why a server refused.
#[derive(Debug, thiserror::Error)]
enum RemoteError {
    #[error("the server at {url} is unreachable: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{0}")]
    Refused(String),
    #[error("{why}")]
    Busy { why: String, again: Duration },
    #[error("the download ended after {done} of {of} bytes; try again")]
    BrokenOff { done: u64, of: u64 },
}

/// The server's statement about its bundle.
pub(super) struct Known {
    /// Which details came with the base.
    pub is_exact: bool,
    /// Whether every detail could be read.
    pub is_whole: bool,
}

/// Has the server write a bundle, into a file.
pub(super) fn export(
    admin: &str,
    token: Option<&Secret>,
    since: Option<&str>,
    out: &mut File,
) -> Result<Known, Failure> {
    let query = since.map(|id| format!("?since={}", utf8_percent_encode(id, NON_ALPHANUMERIC)));
    let url = format!("{admin}/bundle{}", query.unwrap_or_default());
    out.set_len(0).and_then(|()| out.rewind())?;
    let out = out.try_clone()?;
    run(async move {
        let waiting = Spinner::new("the server is writing the bundle");
        let server = client(&url, token)?;
        let response = send(&server, Method::GET, &url, HeaderMap::new(), None).await;
        waiting.finish();
        let mut response = response?;
        let unless_denied = |name| response.headers().get(name).is_none_or(|told| told != "false");
        let known = Known { is_exact: unless_denied(EXACT), is_whole: unless_denied(WHOLE) };
        let of = response.body().size_hint().exact().unwrap_or(0);
        let (bar, mut done) = (bytes_bar("exporting"), 0);
        let mut out = tokio::fs::File::from_std(out);
        while let Some(piece) =
            server_client::next_piece(&mut response).await.map_err(|reason| unreachable(&url, reason))?
        {
            out.write_all(&piece).await?;
            done += piece.len() as u64;
            bar.show(done, of);
        }
        bar.finish();
        out.flush().await?;
        if done == of { Ok(known) } else { Err(RemoteError::BrokenOff { done, of }.into()) }
    })
}

/// Has the server write a dump; the id of its snapshot.
pub(super) fn dump(
    admin: &str,
    token: Option<&Secret>,
    kind: DumpKind,
    out: &mut dyn Write,
) -> Result<String, Failure> {
    let url = format!("{admin}/bundle?format={}", kind.as_str());
    run(async move {
        let waiting = Spinner::new("the server writes the dump");
        let server = client(&url, token)?;
        let response = send(&server, Method::GET, &url, HeaderMap::new(), None).await;
        waiting.finish();
        let mut response = response?;
        let snapshot = response.headers().get("mirror-snapshot").and_then(|id| id.to_str().ok()).unwrap_or("-");
        let snapshot = snapshot.to_owned();
        let of = response.body().size_hint().exact().unwrap_or(0);
        let (bar, mut done) = (bytes_bar("exporting"), 0);
        while let Some(piece) =
            server_client::next_piece(&mut response).await.map_err(|reason| unreachable(&url, reason))?
        {
            out.write_all(&piece)?;
            done += piece.len() as u64;
            bar.show(done, of);
        }
        out.flush()?;
        bar.finish();
        if done == of { Ok(snapshot) } else { Err(RemoteError::BrokenOff { done, of }.into()) }
    })
}

/// Lets the server import a bundle with its signature; returns its answer.
pub(super) fn import(
    admin: &str,
    token: Option<&Secret>,
    path: &Path,
    file: &File,
    allow_older: bool,
) -> Result<Value, Failure> {
    let url = format!("{admin}/bundle{}", if allow_older { "?allow_older=true" } else { "" });
    // Whether it is one is for the server to say.
    let signature = signature::text_beside(path)?.map(|text| percent_encode(&text, NON_ALPHANUMERIC).to_string());
    run(async move {
        let (server, began) = (client(&url, token)?, Instant::now());
        let mut headers = HeaderMap::new();
        if let Some(signature) = &signature {
            headers.insert(SIGNATURE, HeaderValue::from_str(signature)?);
        }
        let waiting = Spinner::new("the server is importing the bundle");
        let response = loop {
            let mut again = file.try_clone()?;
            again.rewind()?;
            match send(&server, Method::POST, &url, headers.clone(), Some(again)).await {
                // It accepts one upload at a time.
                Err(RemoteError::Busy { again, .. }) if began.elapsed() < TURN => tokio::time::sleep(again).await,
                response => break response,
            }
        };
        waiting.finish();
        let response = response.inspect_err(|error| {
            // The import may have been done before the connection failed.
            if matches!(error, RemoteError::Unreachable { .. }) {
                eprintln!("`grandstand snapshot list` shows whether the bundle was imported");
            }
        })?;
        let text = server_client::text(response).await.map_err(|reason| unreachable(&url, reason))?;
        Ok(serde_json::from_str(&text)?)
    })
}

fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

fn client(url: &str, token: Option<&Secret>) -> Result<ServerClient, RemoteError> {
    ServerClient::new(PATIENCE, token).map_err(|reason| unreachable(url, reason))
}

fn unreachable(url: &str, reason: String) -> RemoteError {
    RemoteError::Unreachable { url: url.to_owned(), reason }
}

/// A successful answer, or the server's error.
async fn send(
    server: &ServerClient,
    method: Method,
    url: &str,
    headers: HeaderMap,
    file: Option<File>,
) -> Result<Response<Incoming>, RemoteError> {
    let response = server.send(method, url, headers, file).await.map_err(|reason| unreachable(url, reason))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let again = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let text = server_client::text(response).await.unwrap_or_default();
    let why = refusal(url, status, &text);
    Err(match again {
        Some(seconds) => RemoteError::Busy { why, again: Duration::from_secs(seconds) },
        None => RemoteError::Refused(why),
    })
}
