//! Codec of records. Decoding trusts nothing.
//!
//! Callers: `write`, `open`, `delta`.

use bytes::Bytes;

use super::part::PartPosition;
use super::{BundleError, MAX_TEXT};
use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::listing::{DetailState, ListingId, Summary, SummaryFields};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::fields::{Fields, Subject, put_optional_text, put_text};
use crate::data::snapshot::membership::ListedTerm;

/// The problem of a record, in words.
pub(super) type Wrong = String;

/// Fields of a part.
pub(super) type Records<'a> = Fields<'a, PartPosition>;

impl Subject for PartPosition {
    type Error = BundleError;

    fn wrong(&self, what: &str) -> BundleError {
        BundleError::Malformed { at: *self, what: format!("it has a wrong {what}") }
    }
}

impl<'a> Records<'a> {
    pub(super) fn malformed(&self, what: impl Into<String>) -> BundleError {
        BundleError::Malformed { at: self.of, what: what.into() }
    }

    /// A summary of this part, whose text is a slice of it.
    pub(super) fn summary(&mut self, part: &Bytes) -> Result<Summary, BundleError> {
        let len = self.u32()? as usize;
        summary_of(part.slice_ref(self.take(len)?)).map_err(|wrong| self.malformed(wrong))
    }

    pub(super) fn term(&mut self) -> Result<((TaxonomyKind, String), ListedTerm), BundleError> {
        let kind = self.u8()?;
        let known = TaxonomyKind::ALL.get(usize::from(kind));
        let kind = *known.ok_or_else(|| self.malformed(format!("the taxonomy {kind} is unknown")))?;
        let (slug, snapshot) = (self.text()?.to_owned(), self.text()?.to_owned());
        let fingerprint = self.array()?;
        let count = self.u32()? as usize;
        let (ids, _) = self.take(count.saturating_mul(8))?.as_chunks::<8>();
        let ids: Vec<ListingId> = ids.iter().map(|id| ListingId(u64::from_le_bytes(*id))).collect();
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(self.malformed(format!("the listings of {slug:?} are not in ascending order")));
        }
        Ok(((kind, slug), ListedTerm { ids, fingerprint, snapshot }))
    }

    /// The body of a detail, not checked.
    pub(super) fn body(&mut self) -> Result<RecordBody<'a>, BundleError> {
        let id = ListingId(self.u64()?);
        let state = match self.u8()? {
            0 => DetailState::Present,
            1 => DetailState::Gone,
            state => return Err(self.malformed(format!("the detail of listing {id} has the unknown state {state}"))),
        };
        let len = self.u32()? as usize;
        Ok(RecordBody { id, state, text: self.take(len)? })
    }

    /// The validators of a detail, checked.
    pub(super) fn validators(&mut self) -> Result<Validators<'a>, BundleError> {
        let id = ListingId(self.u64()?);
        let current = match self.u8()? {
            0 => false,
            1 => true,
            tag => {
                let what = format!("{tag} does not say whether the detail of listing {id} is current");
                return Err(self.malformed(what));
            }
        };
        let own = Validators { id, current, etag: self.optional_text()?, last_modified: self.optional_text()? };
        own.check().map(|()| own).map_err(|wrong| self.malformed(wrong))
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

pub(super) fn put_term(out: &mut Vec<u8>, (kind, slug): &(TaxonomyKind, String), listed: &ListedTerm) {
    let mut ids = listed.ids.clone();
    ids.sort_unstable();
    ids.dedup();
    out.push(kind.index() as u8);
    put_text(out, slug.as_bytes());
    put_text(out, listed.snapshot.as_bytes());
    out.extend_from_slice(&listed.fingerprint);
    out.extend_from_slice(&(ids.len() as u32).to_le_bytes());
    for id in ids {
        out.extend_from_slice(&id.0.to_le_bytes());
    }
}

/// A detail without its validators; the text is its body, a slice of the part.
pub(super) struct RecordBody<'a> {
    pub id: ListingId,
    pub state: DetailState,
    pub text: &'a [u8],
}

impl<'a> RecordBody<'a> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.push(match self.state {
            DetailState::Present => 0,
            DetailState::Gone => 1,
        });
        put_text(out, self.text);
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

#[derive(Debug)]
pub(super) struct Validators<'a> {
    pub id: ListingId,
    pub current: bool,
    pub etag: Option<&'a str>,
    pub last_modified: Option<&'a str>,
}

impl Validators<'_> {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.push(u8::from(self.current));
        put_optional_text(out, self.etag);
        put_optional_text(out, self.last_modified);
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
