//! Odd requests of an audit: drawn at random, and the mirror's answer to them by what it has learned.
//!
//! Callers: [`super::Auditor`], [`super::sample`].

use rand::RngExt;
use rand::rngs::StdRng;

use crate::api::edges::lesson::LearnedAnswer;
use crate::api::edges::{Case, OddQuery};
use crate::api::query::Parameters;
use crate::api::render::{Frame, ListPage, VolatileValues};
use crate::snapshot::coverage::relies_on_disproved;
use crate::snapshot::edges::apply::Applied;
use crate::snapshot::edges::{self, Decision};
use crate::snapshot::pointer::Snapshot;

use super::Auditor;
use super::links::Links;
use super::sample::Request;
use super::verdict::Ours;

/// The path and query of a request of a case; `None`: other samples draw it, from the data.
pub(super) fn draw(case: Case, dice: &mut StdRng) -> Option<String> {
    let word: String = (0..6).map(|_| char::from(dice.random_range(b'a'..=b'z'))).collect();
    let number = dice.random_range(2..100_000_u32);
    let query = match case {
        Case::PageBeyond | Case::UnknownSport | Case::UnknownState | Case::UnknownCity | Case::UnknownId => {
            return None;
        }
        Case::PageZero => "page=0".to_owned(),
        Case::PageNegative => format!("page=-{number}"),
        Case::PageWord => format!("page={word}"),
        Case::PerPageZero => "per_page=0".to_owned(),
        Case::PerPageNegative => format!("per_page=-{number}"),
        Case::PerPageOver => format!("per_page={}", dice.random_range(101..=200)),
        Case::PerPageWord => format!("per_page={word}"),
        Case::SinceMalformed => format!("modified_since={word}"),
        Case::SinceFuture => format!("modified_since={}-01-01", dice.random_range(2900..3000)),
        Case::IdWord => return Some(format!("/api/listings/{word}.json")),
        Case::RepeatedNumber => format!("page=1&page={}", dice.random_range(2..5)),
        Case::RepeatedFilter => format!("sport={word}&sport={word}x"),
        Case::EmptyNumber => "page=".to_owned(),
        Case::EmptyFilter => "sport=".to_owned(),
        Case::EmptySince => "modified_since=".to_owned(),
    };
    Some(format!("/api/listings.json?{query}"))
}

impl Auditor {
    /// The mirror's answer to a request by what it has learned; `None`: nothing was learned of it.
    pub(super) fn learned(&self, published: &Snapshot, request: &Request) -> Option<Ours> {
        let lessons = self.edges.learned()?;
        let now = self.clock.now_wall().as_millis().saturating_mul(1_000_000);
        let dataset = &published.dataset;
        let decision = match request {
            Request::List(query) => {
                let is_empty = dataset.find(query).is_ok_and(|found| found.items.is_empty());
                match edges::of_empty(Some(&lessons), dataset, query, now).filter(|_| is_empty)? {
                    Decision::AsOurs => Decision::List(Applied::plain(query.clone())),
                    decision => decision,
                }
            }
            Request::Odd(path) => {
                let (path, query) = path.split_once('?').unwrap_or((path.as_str(), ""));
                match (path.strip_prefix("/api/listings/"), OddQuery::read(query)) {
                    (Some(id), _) => {
                        let id = id.strip_suffix(".json").unwrap_or(id);
                        return Some(body(edges::of_id(lessons.lessons.get(&Case::IdWord), id)?));
                    }
                    (None, Some(asked)) => match edges::of_odd(&lessons, dataset, &asked, now) {
                        Decision::AsOurs => Decision::List(Applied::plain(Parameters::parse(query).ok()?.list)),
                        decision => decision,
                    },
                    // It is odd by its value, which the data shows.
                    (None, None) => {
                        let query = Parameters::parse(query).ok()?.list;
                        match edges::of_empty(Some(&lessons), dataset, &query, now)? {
                            Decision::AsOurs => Decision::List(Applied::plain(query)),
                            decision => decision,
                        }
                    }
                }
            }
            Request::Detail(id) if dataset.summary(*id).is_none() => {
                let lesson = lessons.lessons.get(&Case::UnknownId);
                return Some(body(edges::of_id(lesson, &id.to_string())?));
            }
            Request::Detail(_) | Request::Taxonomy(_) => return None,
        };
        match decision {
            Decision::Ours | Decision::AsOurs => None,
            Decision::Through | Decision::Odd(_) => Some(Ours::ReadThrough),
            Decision::Body(answer, text) => Some(body((answer, text))),
            Decision::List(applied) if relies_on_disproved(&published.meta, &applied.query) => Some(Ours::ReadThrough),
            Decision::List(applied) => match applied.find(dataset) {
                Err(_doubt) => Some(Ours::ReadThrough),
                Ok((total, items)) => {
                    let envelope = &dataset.content.envelope;
                    let page = ListPage {
                        frame: &Frame::new(envelope, &published.generated_at, &VolatileValues::new()),
                        envelope_hash: dataset.envelope_hash,
                        query: &applied.query,
                        total,
                        items,
                        shown: applied.shown(),
                    };
                    let text = String::from_utf8_lossy(&page.body()).into_owned();
                    // The links around an odd page are ours by contract.
                    Some(Ours::Body { text, links: Links::default(), at_ms: published.meta.confirmed_ms })
                }
            },
        }
    }
}

fn body((answer, text): (&LearnedAnswer, String)) -> Ours {
    Ours::Learned { status: answer.status, media_type: answer.media_type.clone(), text }
}
