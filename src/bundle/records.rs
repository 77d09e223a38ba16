//! Encodes and decodes records. Decoding trusts nothing.
//!
//! Callers: `write`, `open`, `apply`, `details`.

use bytes::Bytes;

use super::MAX_TEXT;
use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::listing::{DetailState, ListingId, Summary, SummaryFields};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::membership::ListedTerm;

/// The problem of a record, in words.
pub(super) type Wrong = String;

/// Reads fields off the front of a part.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("a length reaches beyond the part")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("a record reaches beyond the part")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Wrong> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Wrong> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Wrong> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, Wrong> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn optional_text(&mut self) -> Result<Option<&'a str>, Wrong> {
        match self.u8()? {
            0 => Ok(None),
            1 => self.text().map(Some),
            tag => Err(format!("{tag} does not say whether a text is there")),
        }
    }

    pub(super) fn end(&self) -> Result<(), Wrong> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{} bytes follow the last record", self.0.len())) }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

/// Checks that a text has at most [`MAX_TEXT`] bytes and is UTF-8.
fn bounded(body: &[u8]) -> Result<&str, Wrong> {
    if body.len() > MAX_TEXT {
        return Err(format!("a text has {} bytes; the limit is {MAX_TEXT}", body.len()));
    }
    std::str::from_utf8(body).map_err(|_| "a text is not UTF-8".to_owned())
}

/// Checks that a body is one whole JSON object.
fn object(body: &[u8]) -> Result<&str, Wrong> {
    let text = bounded(body)?;
    json::check(text).map_err(|error| error.to_string())?;
    if text.trim_ascii_start().starts_with('{') { Ok(text) } else { Err("a text is not a JSON object".to_owned()) }
}

/// Checks before writing that a reader would accept it.
pub(super) fn check_summary(summary: &Summary) -> Result<(), Wrong> {
    match summary_of(summary.raw.clone())? {
        again if again == *summary => Ok(()),
        again => Err(format!("its text belongs to listing {}, or does not match its hash", again.id)),
    }
}

fn summary_of(raw: Bytes) -> Result<Summary, Wrong> {
    let id = SummaryFields::read(object(&raw)?).map_err(|error| error.to_string())?.id;
    Ok(Summary { id, hash: ContentHash::of(&raw), raw })
}

pub(super) fn put_summary(out: &mut Vec<u8>, summary: &Summary) {
    out.extend_from_slice(&(summary.raw.len() as u32).to_le_bytes());
    out.extend_from_slice(&summary.raw);
}

/// A summary of a part, whose text is a slice of it.
pub(super) fn summary(part: &Bytes, reader: &mut Reader<'_>) -> Result<Summary, Wrong> {
    let len = reader.u32()? as usize;
    summary_of(part.slice_ref(reader.take(len)?))
}

pub(super) fn put_term(out: &mut Vec<u8>, (kind, slug): &(TaxonomyKind, String), listed: &ListedTerm) {
    let mut ids = listed.ids.clone();
    ids.sort_unstable();
    ids.dedup();
    out.push(kind.index() as u8);
    put_text(out, slug);
    put_text(out, &listed.snapshot);
    out.extend_from_slice(&listed.fingerprint);
    out.extend_from_slice(&(ids.len() as u32).to_le_bytes());
    for id in ids {
        out.extend_from_slice(&id.0.to_le_bytes());
    }
}

pub(super) fn term(reader: &mut Reader<'_>) -> Result<((TaxonomyKind, String), ListedTerm), Wrong> {
    let kind = reader.u8()?;
    let kind = *TaxonomyKind::ALL.get(usize::from(kind)).ok_or_else(|| format!("the taxonomy {kind} is unknown"))?;
    let (slug, snapshot) = (reader.text()?.to_owned(), reader.text()?.to_owned());
    let fingerprint = reader.array()?;
    let count = reader.u32()? as usize;
    let mut listed = Reader(reader.take(count.saturating_mul(8))?);
    let ids = (0..count).map(|_| listed.u64().map(ListingId)).collect::<Result<Vec<_>, _>>()?;
    if !ids.is_sorted_by(|a, b| a < b) {
        return Err(format!("the listings of {slug:?} are not in ascending order"));
    }
    Ok(((kind, slug), ListedTerm { ids, fingerprint, snapshot }))
}

/// A detail without its validators; the text is its body, a slice of the part.
pub(super) struct Body<'a> {
    pub id: ListingId,
    pub state: DetailState,
    pub text: &'a [u8],
}

pub(super) const BODY_HEAD: usize = 8 + 1 + 4;

pub(super) fn put_body(out: &mut Vec<u8>, id: ListingId, state: DetailState, body: &[u8]) {
    out.extend_from_slice(&id.0.to_le_bytes());
    out.push(match state {
        DetailState::Present => 0,
        DetailState::Gone => 1,
    });
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(body);
}

impl<'a> Body<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Wrong> {
        let id = ListingId(reader.u64()?);
        let state = match reader.u8()? {
            0 => DetailState::Present,
            1 => DetailState::Gone,
            state => return Err(format!("the detail of listing {id} has the unknown state {state}")),
        };
        let len = reader.u32()? as usize;
        Ok(Self { id, state, text: reader.take(len)? })
    }

    /// The checked text of a present detail; empty for a gone one.
    pub(super) fn check(&self) -> Result<&'a str, Wrong> {
        match self.state {
            DetailState::Present => {
                let checked = bounded(self.text)
                    .and_then(|text| json::check_detail(text).map(|()| text).map_err(|error| error.to_string()));
                checked.map_err(|wrong| format!("the detail of listing {}: {wrong}", self.id))
            }
            DetailState::Gone if self.text.is_empty() => Ok(""),
            DetailState::Gone => Err(format!("the detail of listing {} is gone, and yet has a body", self.id)),
        }
    }
}

/// The origin's validators of a detail.
#[derive(Debug)]
pub(super) struct Validators<'a> {
    pub id: ListingId,
    pub current: bool,
    pub etag: Option<&'a str>,
    pub last_modified: Option<&'a str>,
}

impl<'a> Validators<'a> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.push(u8::from(self.current));
        put_optional_text(out, self.etag);
        put_optional_text(out, self.last_modified);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Wrong> {
        let id = ListingId(reader.u64()?);
        let current = match reader.u8()? {
            0 => false,
            1 => true,
            tag => return Err(format!("{tag} does not say whether the detail of listing {id} is current")),
        };
        let own = Self { id, current, etag: reader.optional_text()?, last_modified: reader.optional_text()? };
        own.check().map(|()| own)
    }

    /// Checks them: they may be sent to an origin later.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        const LONGEST: usize = 64 << 10;
        let fits = |text: &str| text.len() <= LONGEST && http::HeaderValue::from_bytes(text.as_bytes()).is_ok();
        match [self.etag, self.last_modified].into_iter().flatten().find(|text| !fits(text)) {
            None => Ok(()),
            Some(text) => Err(format!("{:?} of listing {} is not a header value", json::shorten(text), self.id)),
        }
    }
}
