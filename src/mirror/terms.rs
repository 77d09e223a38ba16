//! What the origin lists for terms whose membership names and counts do not prove.
//!
//! Evidence is collected here and judged in [`crate::snapshot::membership`]. Callers: [`super::task`].

use crate::api::page::Page;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::ListedTerm;

use super::copies::{Copies, CopyError, DATE_GRAIN_MS};
use super::crawl::check_page;
use crate::upstream::client::{AskError, Asker};
use crate::upstream::window::Class;

/// What the origin says of a term.
#[derive(Debug)]
pub(super) enum TermAnswer {
    /// Its listings.
    Listed(ListedTerm),
    /// Its pages do not fit together, or name unknown listings: the data has moved on, and the term stays in doubt
    /// until it is asked again.
    Moved,
    /// A copy of the origin's CDN from before the data set was published: it may lack newer listings.
    Older,
}

/// Asks the origin which listings a term stands for, in a data set that was published at `published_ms`.
pub(super) async fn ask(
    copies: &Copies,
    dataset: &Dataset,
    published_ms: i64,
    kind: TaxonomyKind,
    slug: &str,
    fingerprint: [u8; 16],
) -> Result<TermAnswer, CopyError> {
    let mut query = ListQuery { per_page: ListQuery::MAX_PER_PAGE, ..ListQuery::default() };
    query.slugs[kind.index()] = Some(slug.into());
    let mut ids = Vec::new();
    let mut total = 0;
    let mut page = 1;
    loop {
        let path = query.with_page(page).path_and_query();
        let copy = copies.look(&path, Asker::mirror(Class::Crawl), check_page).await?;
        let parsed = Page::parse(&copy.body, &copies.volatile()).map_err(|error| AskError::nonsense(&path, error))?;
        if page == 1 {
            total = parsed.total;
        }
        // An origin that ignores the filter lists everything, which is no evidence.
        let is_everything = total == dataset.len() as u64 && dataset.terms(kind).len() > 1;
        if parsed.total != total || total > dataset.len() as u64 || is_everything {
            return Ok(TermAnswer::Moved);
        }
        if copy.until_ms + 2 * DATE_GRAIN_MS < published_ms {
            return Ok(TermAnswer::Older);
        }
        ids.extend(parsed.items.iter().map(|item| item.id));
        if page >= query.total_pages(total) {
            break;
        }
        page += 1;
    }
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let whole = distinct.len() as u64 == total && ids.len() == distinct.len();
    let known = distinct.iter().all(|id| dataset.summary(*id).is_some());
    let listed = ListedTerm { ids: distinct, fingerprint, snapshot: dataset.id.to_string() };
    Ok(if whole && known { TermAnswer::Listed(listed) } else { TermAnswer::Moved })
}
