//! Upload of a bundle: the body of `POST /bundle`, received into a file without a name.
//!
//! An unsuitable upload is refused before it is stored: by its announced length, and by its first bytes. A slow client
//! would block other uploads, so an upload has a deadline that moves with the received bytes, and one for the whole.
//! The bundle is not read here. Callers: [`super`].

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, header};
use pingora::protocols::http::ServerSession;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout_at};

use super::Failed;
use crate::data::bundle;

/// An upload may lag this far behind the slowest pace.
const GRACE: Duration = Duration::from_secs(20);

/// The slowest pace of an upload, in bytes a second.
const SLOWEST: u64 = 64 << 10;

const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// Refuses an upload that announces more than `most` bytes.
pub(super) fn check_length(headers: &HeaderMap, most: u64) -> Result<(), Failed> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match announced {
        Some(length) if length > most => Err(Failed::TooLarge(most)),
        _ => Ok(()),
    }
}

/// Takes in a body of at most `most` bytes.
pub(super) async fn receive(session: &mut ServerSession, directory: &Path, most: u64) -> Result<File, Failed> {
    let fail = |source| Failed::Io { path: directory.to_owned(), source };
    let waits = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if session.req_header().headers.get(header::EXPECT).is_some_and(waits) {
        session.write_continue_response().await.map_err(|_| Failed::BrokenOff)?;
    }
    // Silence is slow, too: the deadline is ours.
    session.set_read_timeout(None);
    let began = Instant::now();
    let (mut length, mut beginning) = (0, Vec::new());
    let mut file = tokio::fs::File::from_std(nameless(directory)?);
    loop {
        let read = timeout_at(began + due(length), session.read_request_body()).await;
        let Some(piece) = read.map_err(|_| Failed::Slow)?.map_err(|_| Failed::BrokenOff)? else { break };
        length += piece.len() as u64;
        if length > most {
            return Err(Failed::TooLarge(most));
        }
        if beginning.len() < bundle::BEGINNING {
            beginning.extend(piece.iter().take(bundle::BEGINNING));
            bundle::check_beginning(&beginning)?;
        }
        file.write_all(&piece).await.map_err(fail)?;
    }
    // Tokio writes behind: without this, an error of the last write would be lost. No sync, because the file does not
    // outlive the process.
    file.flush().await.map_err(fail)?;
    let mut file = file.into_std().await;
    file.rewind().map_err(fail)?;
    Ok(file)
}

/// The deadline, after the start, for more than this many bytes.
fn due(received: u64) -> Duration {
    (GRACE + Duration::from_secs(received / SLOWEST)).min(LONGEST)
}

/// A file that nobody else can open, and that disappears when it is closed.
pub(super) fn nameless(directory: &Path) -> Result<File, Failed> {
    let fail = |source| Failed::Io { path: directory.to_owned(), source };
    crate::data::store::nameless(directory).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_has_to_keep_a_pace_and_to_end() {
        for (received, seconds) in [(0, 20), (SLOWEST - 1, 20), (60 * SLOWEST, 80), (u64::MAX, 7200)] {
            assert_eq!(due(received), Duration::from_secs(seconds), "{received}");
        }
    }

    #[test]
    fn what_announces_too_much_is_refused_by_that() {
        for (length, refused) in [("10", false), ("11", true), ("18446744073709551615", true)] {
            let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, length.parse().unwrap())]);
            assert_eq!(check_length(&headers, 10).is_err(), refused, "{length}");
        }
        assert!(check_length(&HeaderMap::new(), 10).is_ok());
    }
}
