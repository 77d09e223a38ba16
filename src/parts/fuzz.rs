//! Entrances for fuzzing: untrusted bytes go in, and the parsed result comes out. Each is total: whatever
//! goes in, none of them panics.
//!
//! Only what the other parts do not offer. Callers: `tests/fuzz`.

use std::fs;
use std::io::Cursor;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use url::Url;

use crate::api::links::Rewrite;
use crate::api::page::Page;
use crate::api::taxonomy::{self, VolatileKeys};
use crate::bundle::signature::{Signature, TrustedKeys};
use crate::bundle::{self, Bundle};
use crate::clock::WallTime;
use crate::semantics::caching::{self, Exchange, Policy, RequestDirectives, ResponseDirectives, Terms};
use crate::semantics::client_address::{self, ClientIpConfig};
use crate::store::{DataDir, Store, StoreError, salvage};

/// The name of the store in its directory.
pub const STORE: &str = "grandstand.redb";

/// The client of a request.
pub fn client(config: &ClientIpConfig, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    client_address::resolve(config, peer, headers)
}

/// The ids of a page of the origin's list; `None`: the body is no page.
pub fn page(body: &Bytes) -> Option<Vec<u64>> {
    let page = Page::parse(body, &VolatileKeys::default()).ok()?;
    Some(page.items.iter().map(|summary| summary.id.0).collect())
}

/// The slugs of a taxonomy; `None`: the body is none.
pub fn taxonomy(text: &str) -> Option<Vec<String>> {
    let terms = taxonomy::terms(text).ok()?;
    Some(terms.into_iter().map(|term| term.slug).collect())
}

/// A taxonomy whose addresses name this server; `None`: the body is no JSON.
pub fn rewritten(text: &str) -> Option<String> {
    let origin = Url::parse("https://api.example.org/v1").ok()?;
    let rewrite = Rewrite::new(Some(&origin), &[], "http://mirror.test/base");
    Some(rewrite.apply(text, "/api/sports.json").ok()?.into_owned())
}

/// How long an answer is fresh and how old it is when it arrives; and whether it answers a request with these fields a
/// minute later.
pub fn caching(status: StatusCode, answer: &HeaderMap, request: &HeaderMap) -> (Duration, Duration, bool) {
    let now = WallTime::from_seconds(1_700_000_000);
    let exchange = Exchange { asked: now, received: now };
    let terms = Terms::of(status, answer, &ResponseDirectives::of(answer), exchange, None);
    let age = terms.age(Duration::from_secs(60));
    let policy = Policy { known: false, stale_while_revalidate: Duration::ZERO, stale_if_error: Duration::ZERO };
    let reuse = caching::reuse(&terms, age, &RequestDirectives::of(request), &policy);
    (terms.lifetime, age, reuse.is_usable())
}

/// The number of listings in a bundle and of details that can be read from it, or what is wrong with it.
///
/// # Errors
/// With the message for people.
pub fn bundle(file: &[u8]) -> Result<(usize, usize), String> {
    let opened = Bundle::open(Cursor::new(file), &mut |_, _| {}).map_err(|error| error.to_string())?;
    let details =
        opened.details(Cursor::new(file)).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let listings = opened.content().map_or(0, |content| content.summaries.len());
    Ok((listings, details.len()))
}

/// A bundle with these parts, sealed with the right hashes; `None`: a part is of no known kind.
pub fn sealed(parts: &[(u8, &[u8])]) -> Option<Vec<u8>> {
    bundle::sealed::seal(parts)
}

/// Whether the text of a signature file and these trusted keys are well-formed.
pub fn signature(text: &[u8], keys: &[&str]) -> (bool, bool) {
    (Signature::parse(text).is_ok(), TrustedKeys::parse(keys.iter().copied()).is_ok())
}

/// Reads everything in the store of a data directory, and repairs it if something cannot be read. How many snapshots
/// and details were read.
///
/// # Errors
/// With the message for people.
pub fn store(directory: &Path) -> Result<(usize, usize), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let dir = DataDir::open(directory).map_err(|error| text(&error))?;
    let store = if let Ok(store) = Store::open(&dir) {
        store
    } else {
        salvage(&dir).map_err(|error| text(&error))?;
        Store::open(&dir).map_err(|error| text(&error))?
    };
    let read = || -> Result<(usize, usize), StoreError> {
        let snapshots = store.snapshots()?;
        for (record, _) in &snapshots {
            store.load(record)?;
            store.evidence_of(record.seq)?;
        }
        store.current()?;
        store.evidence()?;
        store.copy_metas()?;
        let details = store.detail_metas()?;
        for (id, _) in &details {
            store.detail(*id)?;
        }
        Ok((snapshots.len(), details.len()))
    };
    match read() {
        Ok(read) => Ok(read),
        Err(error) => {
            store.heal(None).map_err(|error| text(&error))?;
            read().map_err(|again| format!("{error}; healed, and then {again}"))
        }
    }
}

/// The bytes of a small store with one snapshot, to be damaged.
///
/// # Errors
/// When the directory cannot be written.
pub fn small_store(directory: &Path, bundle: &[u8]) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let bundle = Bundle::open(Cursor::new(bundle), &mut |_, _| {}).map_err(|error| text(&error))?;
    let dir = DataDir::open(directory).map_err(|error| text(&error))?;
    let store = Store::open(&dir).map_err(|error| text(&error))?;
    let content = bundle.content().ok_or("the bundle is a delta")?;
    store.publish(content, &bundle.meta(0)).map_err(|error| text(&error))?;
    drop(store);
    fs::read(directory.join(STORE)).map_err(|error| text(&error))
}
