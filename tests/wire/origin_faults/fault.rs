//! The faults, each as the sample origin's answer.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use http::Response;
use sample_origin::{Asked, Body, Mishap};

use super::answers;
use super::raw::{self, Raw};
use super::tamper::Tamper;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status with a small JSON error.
    Status(u16),
    /// 429; `Retry-After` in seconds, or without that header.
    TooManyRequests(Option<u64>),
    /// The connection is dropped without an answer.
    Reset,
    /// No answer, ever.
    Hang,
    /// A page of HTML with status 200 and no entity tag.
    HtmlWith200,
    /// This text as JSON with status 200 and no entity tag: wrong types, half a document, a total that collapsed.
    Body(String),
    /// The right answer without its second half, although `Content-Length` counts it.
    Truncated,
    /// The right answer in pieces of 64 bytes, each after this pause.
    SlowDrip(Duration),
    /// A JSON array that never ends, as fast as the client reads.
    EndlessBody,
    /// 302 to this address.
    Redirect(String),
    /// The right answer after so many redirects, each a relative reference to the same path with another query.
    Detour(u32),
    /// This status with a `Retry-After` that is an HTTP-date so many seconds ahead.
    Later(u16, u64),
    /// 304 to everything.
    NotModified,
    /// A JSON array that never ends, in a gzip body that grows a thousand times more slowly; endless without gzip
    /// where the client does not accept it.
    GzipBomb,
    /// The right answer, its text altered.
    Tampered(Tamper),
    /// The right answer, 200 or 304, with these header fields.
    Falsified(Vec<(&'static str, Vec<u8>)>),
    /// The right answer, its bytes altered.
    Raw(Raw),
}

#[async_trait]
impl Mishap for Fault {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        Ok(match self {
            Self::Status(status) => answers::error(asked, *status),
            Self::TooManyRequests(retry_after) => answers::too_many(asked, *retry_after),
            Self::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            Self::Hang => std::future::pending().await,
            Self::HtmlWith200 => answers::html(asked),
            Self::Body(text) => answers::json(asked, text.clone()),
            Self::Truncated => answers::cut_in_half(asked.right().await).await,
            Self::SlowDrip(pause) => answers::dripping(asked.right().await, *pause).await,
            Self::Redirect(to) => answers::redirect(to),
            Self::Detour(hops) => match answers::detour(asked.target, *hops) {
                Some(redirect) => redirect,
                None => asked.right().await,
            },
            Self::Later(status, seconds) => answers::later(asked, *status, *seconds),
            Self::NotModified => answers::bare_not_modified(),
            Self::GzipBomb if asked.accepts_gzip() => answers::gzip_bomb()?,
            Self::EndlessBody | Self::GzipBomb => answers::endless(),
            Self::Tampered(tamper) => answers::json(asked, tamper.apply(&asked.right_text())),
            Self::Falsified(fields) => answers::falsified(asked.right().await, fields),
            Self::Raw(raw) => {
                raw::write(*raw, &asked.right_text(), asked.connection).await?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        })
    }
}
