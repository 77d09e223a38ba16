//! `Link` of the pages of a list, as an origin could spell it.
//!
//! Callers: `lists`.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::answer::Context;
use super::query::Query;

/// What `Link` says of the pages around a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkStyle {
    /// Nothing: there is no such header.
    #[default]
    None,
    /// `first`, `prev`, `next` and `last`, with the origin's whole address.
    Absolute,
    /// The same relative to the list, in another order and spelling, with parameters and relations that others lack.
    Relative,
    /// By a mark that only this origin understands, not by page.
    Cursor,
    /// As [`Self::Absolute`], but `next` leads to the page itself.
    Stuck,
}

/// The value for a page; `None`: there is none.
pub(super) fn of_page(context: &Context<'_>, query: &Query, page: u64, per_page: u64, last: u64) -> Option<String> {
    let style = context.switches.links;
    if style == LinkStyle::None {
        return None;
    }
    let next = if style == LinkStyle::Stuck { page } else { page.saturating_add(1) };
    let mut pages = vec![("first", 1)];
    pages.extend((page > 1).then(|| ("prev", page - 1)));
    pages.extend((page < last).then_some(("next", next)));
    pages.push(("last", last));
    let filters = query.filters.iter().map(|(name, value)| format!("&{name}={}", encoded(value)));
    let filters = filters.collect::<Vec<String>>().concat();
    let base = context.base;
    let links: Vec<String> = match style {
        LinkStyle::None | LinkStyle::Absolute | LinkStyle::Stuck => {
            let target = |page| format!("{base}/api/listings.json?page={page}&per_page={per_page}{filters}");
            pages.iter().map(|(rel, page)| format!("<{}>; rel=\"{rel}\"", target(*page))).collect()
        }
        LinkStyle::Relative => {
            let target = |page| format!("../api/listings.json?per_page={per_page}{filters}&page={page}");
            let pages = pages.iter().rev();
            let links =
                pages.map(|(rel, page)| format!("<{}> ; title=\"a, b\"; REL={}", target(*page), rel.to_uppercase()));
            links.chain(["<https://docs.example/>; rel=\"help describedby\"".to_owned()]).collect()
        }
        LinkStyle::Cursor => {
            let target =
                |page: u64| format!("{base}/api/listings.json?after={}{filters}", page.saturating_mul(per_page));
            pages.iter().map(|(rel, page)| format!("<{}>; rel={rel}", target(*page))).collect()
        }
    };
    Some(links.join(", "))
}

fn encoded(value: &str) -> String {
    utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
}
