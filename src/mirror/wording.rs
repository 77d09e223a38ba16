//! The stored wording of listings that did not change. Some origins send other bytes at each look: hash maps, padded
//! texts, counters. What has the stored values keeps the stored bytes, so that everything else may compare bytes.
//!
//! A field of listings is volatile only if it differs in three looks within two minutes, in nine of ten listings whose
//! `modified` stands; every other difference is a change. Callers: [`super::copies`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::api::json::{self, Field, Picked};
use crate::api::listing::ListingId;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::api::values;
use crate::clock::Monotonic;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::origin::client::{Answer, Asker, OriginClient};

/// So many listings, at least, show that a field is volatile.
const FEWEST: usize = 20;

/// The looks at a field take no longer.
const LOOKS: Duration = Duration::from_secs(120);

/// A field is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(86_400);

/// So many fields are looked at within that time.
const MOST_LOOKED_AT: usize = 16;

/// How much of listings that are not in the newest snapshot is remembered, in bytes.
const MOST_NEWS: usize = 16 << 20;

/// Texts of listings, as they came first.
#[derive(Default)]
struct News {
    texts: HashMap<ListingId, String>,
    bytes: usize,
}

impl News {
    fn get(&self, id: ListingId) -> Option<&str> {
        self.texts.get(&id).map(String::as_str)
    }

    fn remember(&mut self, id: ListingId, text: &str) {
        let forgotten = self.texts.remove(&id).map_or(0, |before| before.len());
        self.bytes -= forgotten;
        if self.bytes + text.len() > MOST_NEWS {
            *self = Self::default();
        }
        if text.len() <= MOST_NEWS {
            self.bytes += text.len();
            self.texts.insert(id, text.to_owned());
        }
    }
}

/// The texts that listings are compared with.
#[derive(Default)]
pub(super) struct Wording {
    newest: SnapshotPointer,
    /// Listings that the newest snapshot does not have with these values, as they came first.
    news: Mutex<News>,
    looking: tokio::sync::Mutex<()>,
    /// When the fields that seem volatile were looked at.
    looked: Mutex<HashMap<String, Monotonic>>,
}

impl Wording {
    pub(super) fn new(newest: SnapshotPointer) -> Self {
        Self { newest, ..Self::default() }
    }

    /// The text of a taxonomy in the newest snapshot.
    pub(super) fn taxonomy(&self, kind: TaxonomyKind) -> Option<Arc<str>> {
        Some(self.newest.get()?.dataset.content.taxonomies[kind.index()].clone())
    }

    /// A page with the stored texts of all listings and fields whose values did not change, and the stored order of its
    /// fields. `known`: the stored page of that path. `None`: nothing has another text.
    pub(super) fn page(&self, text: &str, known: Option<&str>, volatile: &VolatileKeys) -> Option<String> {
        let newest = self.newest.get();
        if newest.is_none() && known.is_none() {
            return None;
        }
        let mut fields = json::fields(text).ok()?;
        let known = known.and_then(|known| json::fields(known).ok()).unwrap_or_default();
        let on_page: HashMap<ListingId, &str> = items(&known).collect();
        let mut news = self.news.lock();
        let mut stored_text = |(id, raw): (ListingId, &str)| {
            let published = newest.as_ref().and_then(|newest| newest.dataset.summary(id));
            let published = published.and_then(|summary| std::str::from_utf8(&summary.raw).ok());
            let stored = [published, news.get(id), on_page.get(&id).copied()];
            let is_same = |stored: &&str| values::same_but_for(stored, raw, |key| volatile.contains_in_items(key));
            if let Some(stored) = stored.into_iter().flatten().find(is_same) {
                return (stored != raw).then(|| stored.to_owned());
            }
            if newest.is_some() {
                news.remember(id, raw);
            }
            None
        };
        let listings: HashMap<&str, String> =
            items(&fields).filter_map(|(id, raw)| Some((raw, stored_text((id, raw))?))).collect();
        let place = |field: &Field<'_>| known.iter().position(|known| known.key == field.key);
        let mut is_other = !listings.is_empty();
        if fields.len() == known.len() && fields.iter().all(|field| place(field).is_some()) {
            is_other |= !fields.is_sorted_by_key(place);
            fields.sort_by_key(place);
        }
        let mut value = |field: &Field<'_>| -> String {
            let stored = place(field).map(|place| known[place].value);
            match stored.filter(|stored| values::same(stored, field.value)) {
                Some(stored) => {
                    is_other |= stored != field.value;
                    stored.to_owned()
                }
                None if field.key == "items" => {
                    let own = json::elements(field.value).unwrap_or_default();
                    let own: Vec<&str> = own.iter().map(|raw| listings.get(raw).map_or(*raw, String::as_str)).collect();
                    format!("[{}]", own.join(","))
                }
                None => field.value.to_owned(),
            }
        };
        let worded: Vec<String> =
            fields.iter().map(|field| format!("{}:{}", json::quote(&field.key), value(field))).collect();
        is_other.then(|| format!("{{{}}}", worded.join(",")))
    }

    /// Looks twice more at a page, if fields of most of its listings differ from the stored `before` although `modified`
    /// stands: those that differ each time are volatile, others are not.
    pub(super) async fn look_closer(
        &self,
        client: &OriginClient,
        volatile: &RwLock<VolatileKeys>,
        path: &str,
        (before, first): (&Bytes, &Answer),
        asker: &Asker,
    ) {
        let mut restless = restless(before, &first.body);
        if restless.is_empty() {
            return;
        }
        // Who comes meanwhile waits for the verdict.
        let _looking = self.looking.lock().await;
        let began = client.now_mono();
        {
            let mut looked = self.looked.lock();
            looked.retain(|_, looked| began.since(*looked) < AGAIN);
            restless.retain(|field| !looked.contains_key(field));
            restless.truncate(MOST_LOOKED_AT.saturating_sub(looked.len()));
            looked.extend(restless.iter().map(|field| (field.clone(), began)));
        }
        let (mut left, mut last) = (restless.clone(), first.body.clone());
        for _ in 0..2 {
            if left.is_empty() {
                break;
            }
            let asked = tokio::time::timeout(LOOKS, client.ask(path, None, asker.clone())).await;
            let Some(answer) = asked.ok().and_then(Result::ok).filter(|_| client.now_mono().since(began) <= LOOKS)
            else {
                self.looked.lock().retain(|field, _| !restless.contains(field));
                return;
            };
            let differ = self::restless(&last, &answer.body);
            left.retain(|field| differ.contains(field));
            last = answer.body;
        }
        for field in restless {
            let is_volatile = left.contains(&field);
            if volatile.write().set_in_items(&field, is_volatile) {
                tracing::info!(field, is_volatile, "a field differs in most listings although `modified` stands");
            }
        }
    }
}

/// The listings of a page.
fn items<'a>(fields: &[Field<'a>]) -> impl Iterator<Item = (ListingId, &'a str)> {
    let items = fields.iter().find(|field| field.key == "items").and_then(|items| json::elements(items.value).ok());
    items.unwrap_or_default().into_iter().filter_map(|raw| match json::pick(raw, &["id"]) {
        Ok([Picked::Once(id)]) => Some((ListingId::parse(id)?, raw)),
        _ => None,
    })
}

/// How many listings of a page have other values although nothing on it was modified, added, moved or removed; `None`:
/// something was.
pub(super) fn unmodified(before: &[u8], after: &[u8]) -> Option<u64> {
    fn decisive<'a>((id, raw): &(ListingId, &'a str)) -> (ListingId, [Picked<'a>; 1]) {
        (*id, json::pick(raw, &["modified"]).unwrap_or_default())
    }
    let [before, after] = [before, after].map(|body| std::str::from_utf8(body).ok());
    let [before, after] = [json::fields(before?).ok()?, json::fields(after?).ok()?];
    let [before, after] = [&before, &after].map(|fields| items(fields).collect::<Vec<_>>());
    let differ = before.iter().zip(&after).filter(|(before, after)| !values::same(before.1, after.1)).count();
    let is_unmodified = before.iter().map(decisive).eq(after.iter().map(decisive));
    (is_unmodified && differ > 0).then_some(differ as u64)
}

/// The fields that differ between two pages in nine of ten of their common listings whose `modified` stands, but for
/// those that decide which lists have them.
fn restless(before: &[u8], after: &[u8]) -> Vec<String> {
    const DECISIVE: [&str; 5] = ["id", "city", "state", "sport", "modified"];
    if before == after {
        return Vec::new();
    }
    let fields = |body| std::str::from_utf8(body).ok().and_then(|text| json::fields(text).ok()).unwrap_or_default();
    let (before, after) = (fields(before), fields(after));
    let before: HashMap<ListingId, &str> = items(&before).collect();
    let (mut standing, mut differ) = (0, BTreeMap::<String, usize>::new());
    for (id, raw) in items(&after) {
        let Some(before) = before.get(&id) else { continue };
        if *before == raw {
            standing += 1;
            continue;
        }
        let [before, after] = [*before, raw].map(|text| json::fields(text).unwrap_or_default());
        let before: HashMap<&str, &str> = before.iter().map(|field| (&*field.key, field.value)).collect();
        let is_in_both =
            |field: &&Field<'_>| before.get(&*field.key).is_some_and(|value| values::same(value, field.value));
        if !after.iter().filter(is_in_both).any(|field| field.key == "modified") {
            continue;
        }
        standing += 1;
        for field in after.iter().filter(|field| !is_in_both(field) && !DECISIVE.contains(&&*field.key)) {
            *differ.entry(field.key.clone().into_owned()).or_default() += 1;
        }
    }
    let is_restless =
        |(field, times): (String, usize)| (standing >= FEWEST && times * 10 >= standing * 9).then_some(field);
    differ.into_iter().filter_map(is_restless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_in_bytes() {
        let (mut news, text) = (News::default(), "x".repeat(1 << 20));
        let id = |id: u64| ListingId::parse(&id.to_string()).unwrap();
        for nth in 0..40 {
            news.remember(id(nth % 20), &text);
            let bytes: usize = news.texts.values().map(String::len).sum();
            assert!(bytes == news.bytes && bytes <= MOST_NEWS, "{bytes}");
            assert_eq!(news.get(id(nth % 20)), Some(&*text), "the last one is there");
        }
        news.remember(id(1), "short");
        assert_eq!(news.get(id(1)), Some("short"));
        news.remember(id(2), &text.repeat(17));
        assert_eq!((news.get(id(2)), news.bytes), (None, 0));
    }
}
