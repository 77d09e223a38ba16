//! Bundles to and from the server that holds the data directory, through its admin listener.
//!
//! Callers: [`super::export`], [`super::import`].

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::admin::bundle::{EXACT, SIGNATURE, WHOLE};
use crate::bundle::signature;
use crate::cli::Failure;
use crate::cli::progress::{Spinner, bytes_bar};
use crate::cli::status::refusal;
use crate::config::Secret;

/// A server that is there takes a connection sooner. How long it works before it answers depends on the bundle.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may be busy with other uploads.
const TURN: Duration = Duration::from_secs(1800);

/// Why a server did not do it.
#[derive(Debug, thiserror::Error)]
enum RemoteError {
    #[error("the server at {url} cannot be asked: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("{0}")]
    Refused(String),
    #[error("{why}")]
    Busy { why: String, again: Duration },
    #[error("the bundle broke off after {done} of {of} bytes")]
    BrokenOff { done: u64, of: u64 },
}

/// What the server knows of a bundle that it wrote.
pub(super) struct Known {
    /// Which details came with the base.
    pub is_exact: bool,
    /// That all could be read.
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
        let waiting = Spinner::new("the server writes the bundle");
        let response = send(client()?.get(&url), token, &url).await;
        waiting.finish();
        let mut response = response?;
        let unless_denied = |name| response.headers().get(name).is_none_or(|told| told != "false");
        let known = Known { is_exact: unless_denied(EXACT), is_whole: unless_denied(WHOLE) };
        let of = response.content_length().unwrap_or(0);
        let (bar, mut done) = (bytes_bar("exporting"), 0);
        let mut out = tokio::fs::File::from_std(out);
        while let Some(piece) = response.chunk().await.map_err(|error| unreachable(&url, &error))? {
            out.write_all(&piece).await?;
            done += piece.len() as u64;
            bar.show(done, of);
        }
        bar.finish();
        out.flush().await?;
        if done == of { Ok(known) } else { Err(RemoteError::BrokenOff { done, of }.into()) }
    })
}

/// Has the server import a bundle, with the signature beside it; what it tells.
pub(super) fn import(
    admin: &str,
    token: Option<&Secret>,
    path: &Path,
    file: &File,
    allow_older: bool,
) -> Result<Value, Failure> {
    let url = format!("{admin}/bundle{}", if allow_older { "?allow_older=true" } else { "" });
    let signature = match std::fs::read_to_string(signature::path_of(path)) {
        Ok(text) => Some(utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let length = file.metadata()?.len();
    run(async move {
        let (client, began) = (client()?, Instant::now());
        let waiting = Spinner::new("the server imports the bundle");
        let response = loop {
            let mut request = client.post(&url).header(reqwest::header::CONTENT_LENGTH, length);
            if let Some(signature) = &signature {
                request = request.header(SIGNATURE, signature);
            }
            let mut again = file.try_clone()?;
            again.rewind()?;
            let body = reqwest::Body::from(tokio::fs::File::from_std(again));
            match send(request.body(body), token, &url).await {
                // It takes in one upload at a time.
                Err(RemoteError::Busy { again, .. }) if began.elapsed() < TURN => tokio::time::sleep(again).await,
                response => break response,
            }
        };
        waiting.finish();
        let response = response.inspect_err(|error| {
            // It may have been done when the connection went.
            if matches!(error, RemoteError::Unreachable { .. }) {
                eprintln!("`grandstand snapshot list` tells whether it was imported");
            }
        })?;
        let text = response.text().await.map_err(|error| unreachable(&url, &error))?;
        Ok(serde_json::from_str(&text)?)
    })
}

fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

fn client() -> Result<reqwest::Client, Failure> {
    Ok(reqwest::Client::builder().no_proxy().connect_timeout(PATIENCE).tcp_keepalive(PATIENCE).build()?)
}

fn unreachable(url: &str, error: &reqwest::Error) -> RemoteError {
    RemoteError::Unreachable { url: url.to_owned(), reason: error.to_string() }
}

/// The answer, if it is a good one; else what the server says is wrong.
async fn send(
    mut request: reqwest::RequestBuilder,
    token: Option<&Secret>,
    url: &str,
) -> Result<reqwest::Response, RemoteError> {
    if let Some(token) = token {
        request = request.bearer_auth(token.expose());
    }
    let response = request.send().await.map_err(|error| unreachable(url, &error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let again =
        response.headers().get(reqwest::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let text = response.text().await.unwrap_or_default();
    let why = refusal(url, status, &text);
    Err(match again {
        Some(seconds) => RemoteError::Busy { why, again: Duration::from_secs(seconds) },
        None => RemoteError::Refused(why),
    })
}
