//! Rendering of replies from the snapshot: body, entity tag and links of one list, taxonomy or detail, or of what
//! changed; and one hash over the inputs of a cached taxonomy or detail: if a new snapshot has the same, the reply stays
//! right.
//!
//! Callers: [`super::find`], which keeps what is made here.

use crate::api::json::JsonError;
use crate::api::links;
use crate::api::links::Rewrite;
use crate::api::query::ListQuery;
use crate::api::query::search::SearchQuery;
use crate::api::render::{ChangesDocument, ListPage, SearchPage, Tag};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::cache::reply::Reply;
use crate::data::snapshot::dataset::{Doubt, Found};
use crate::data::snapshot::journal::Changes;
use crate::data::snapshot::odd::Applied;
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::search::index::Hits;
use crate::protocol::precondition::EntityTag;

pub(crate) fn list(
    published: &Snapshot,
    query: &ListQuery,
    found: Found<'_>,
    public_url: &str,
    pin: Option<&str>,
) -> Reply {
    let dataset = &published.dataset;
    let total = found.total;
    let page = ListPage {
        frame: published.frame_of(query),
        envelope_hash: dataset.envelope_hash,
        query,
        total,
        items: found.items,
    };
    let link =
        links::list(published.license.as_deref(), (query, published.meta.form.page_size), total, public_url, pin);
    Reply::new(page.body(), tag(page.tag()), link, published.epoch)
}

/// A page of the list without its listings, as an odd query may come to.
pub(crate) fn odd_list(
    published: &Snapshot,
    applied: &Applied,
    public_url: &str,
    pin: Option<&str>,
) -> Result<Reply, Doubt> {
    Ok(list(published, &applied.query, applied.find(&published.dataset)?, public_url, pin))
}

pub(crate) fn taxonomy(published: &Snapshot, kind: TaxonomyKind, rewrite: &Rewrite) -> Result<Reply, JsonError> {
    let blanked = rewrite.apply(published.dataset.content.taxonomy(kind), kind.path())?;
    let volatile = &published.meta.volatile;
    let values = published.meta.volatile_of(kind.path());
    let body = volatile.fill(&blanked, |key| values.get(key).cloned());
    let entity = Tag::of("taxonomy", crate::api::hash::ContentHash::of(blanked.as_bytes()), "");
    Ok(Reply::new(body, tag(entity), links::license(published.license.as_deref()), published.epoch))
}

/// A detail, as the origin sent it.
pub(crate) fn detail(published: &Snapshot, body: bytes::Bytes) -> Reply {
    let content = published.meta.volatile.hash(&String::from_utf8_lossy(&body));
    Reply::new(body, tag(Tag::of("detail", content, "")), links::license(published.license.as_deref()), published.epoch)
}

pub(crate) fn changes(published: &Snapshot, since: &str, changes: &Changes) -> Reply {
    let envelope = &published.dataset.content.envelope;
    let document = ChangesDocument {
        since,
        snapshot: published.dataset.id.as_str(),
        generated_at: &published.generated_at,
        license: envelope.carried("license"),
        attribution: envelope.carried("attribution"),
        added: &changes.added,
        changed: &changes.changed,
        removed: &changes.removed,
    };
    let link = links::license(published.license.as_deref());
    Reply::new(document.body(), tag(document.tag()), link, published.epoch)
}

pub(crate) fn search(published: &Snapshot, query: &SearchQuery, hits: &Hits, public_url: &str) -> Reply {
    let dataset = &published.dataset;
    let items = hits.page.iter().map(|hit| &dataset.content.summaries[hit.position as usize]).collect();
    let list = ListPage {
        frame: &published.frame,
        envelope_hash: dataset.envelope_hash,
        query: &query.list,
        total: hits.total,
        items,
    };
    let page = SearchPage {
        list,
        query,
        ignored: &hits.ignored,
        facets: hits.facets.as_ref(),
        metres: hits.page.iter().map(|hit| hit.metres).collect(),
    };
    let link = links::search(published.license.as_deref(), query, hits.total, public_url);
    Reply::new(page.body(), tag(page.tag()), link, published.epoch)
}

fn tag(tag: Tag) -> Option<EntityTag> {
    EntityTag::parse(tag.to_header().as_bytes())
}
