//! Format of the origin's lists, where it differs from the documentation: the same content, spelled otherwise.
//!
//! Pure. Callers: `mirror::examiner` learns it from answers, [`crate::data::snapshot`] keeps it, [`crate::api::render`] and
//! [`crate::edge::answer`] follow it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::json::{self, Field};
use super::page::{Envelope, EnvelopeField, Page};
use super::query::ListQuery;
use crate::words::named;

named! {
    /// How `total_pages` follows from the total.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PageCount, as_str {
        /// As many pages as there are.
        #[default]
        Full = "full",
        /// One more where the last page is full.
        OneMore = "one-more",
        /// By no rule that is known: the field is left out.
        LeftOut = "left-out",
    }
}

/// The numbers that the origin computes: others may be in quotes because they repeat what was asked for.
const QUOTABLE: [&str; 2] = ["total", "total_pages"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListForm {
    /// Fields beside the items that are others under a filter: filtered lists do without them.
    pub without: BTreeSet<String>,
    pub pages: PageCount,
    /// The listings of a page where no number is asked for.
    pub page_size: u16,
    /// The numbers that are in quotes, of [`QUOTABLE`].
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub quoted: BTreeSet<String>,
    /// Whether `filters` echoes something else than what was asked for. Ours stays as it was received.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub echoes_otherwise: bool,
}

impl Default for ListForm {
    fn default() -> Self {
        let page_size = ListQuery::DEFAULT_PER_PAGE;
        let (without, quoted) = (BTreeSet::new(), BTreeSet::new());
        Self { without, pages: PageCount::Full, page_size, quoted, echoes_otherwise: false }
    }
}

/// What an answer of the origin shows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FormSeen {
    /// The fields that differ from those of the unfiltered list.
    differing: Vec<String>,
    /// `total_pages`, and what it is by each rule.
    pages: Option<[u64; 3]>,
    page_size: Option<u16>,
    quoted: Option<BTreeSet<String>>,
    echoes_otherwise: bool,
}

impl FormSeen {
    /// Reads the answer to a query. `ours`: the envelope of the unfiltered list. `is_bare`: the query named no page size.
    /// Fields that are ignored are no content.
    pub(crate) fn of(
        body: &str,
        page: &Page,
        (query, is_bare): (&ListQuery, bool),
        ours: &Envelope,
        is_ignored: impl Fn(&str) -> bool,
    ) -> Self {
        let fields = json::fields(body).unwrap_or_default();
        let value = |name: &str| fields.iter().find(|field: &&Field<'_>| field.key == name).map(|field| field.value);
        let is_quoted = |name: &&str| value(name).is_some_and(|value| value.starts_with('"'));
        let quoted = Some(QUOTABLE.into_iter().filter(is_quoted).map(str::to_owned).collect());
        let differs = |one: &Envelope, other: &Envelope| {
            let carried = one.fields.iter().filter(|field| !other.has(field));
            carried.filter_map(carried_key).filter(|key| !is_ignored(key)).map(str::to_owned).collect::<Vec<_>>()
        };
        let differing = if query.is_filtered() {
            [differs(ours, &page.envelope), differs(&page.envelope, ours)].concat()
        } else {
            Vec::new()
        };
        let size = u64::from(query.per_page);
        let rules = [query.total_pages(page.total), page.total / size + 1];
        let pages = value("total_pages")
            .and_then(json::whole)
            .filter(|_| page.total > 0)
            .map(|shown| [shown, rules[0], rules[1]]);
        let shown = page.per_page.unwrap_or(page.items.len() as u64);
        let page_size = u16::try_from(shown).ok().filter(|shown| is_bare && (1..=100).contains(shown));
        // A list that is shorter than a page does not show how long a page is.
        let page_size = page_size.filter(|_| page.per_page.is_some() || page.total > shown);
        let echo = value("filters").and_then(|echo| json::fields(echo).ok());
        let is_echoed = |echo: &[Field<'_>], (name, value): (&str, &str)| {
            echo.iter().any(|field| field.key == name && json::string(field.value).is_some_and(|text| text == value))
        };
        let echoes_otherwise = echo.is_some_and(|echo| !query.filters().all(|filter| is_echoed(&echo, filter)));
        Self { differing, pages, page_size, quoted, echoes_otherwise }
    }
}

fn carried_key(field: &EnvelopeField) -> Option<&str> {
    match field {
        EnvelopeField::Carried { key, .. } => Some(key),
        _ => None,
    }
}

impl ListForm {
    /// So many fields are known by name.
    const MOST: usize = 64;

    /// Learns from an answer; `true`: it is another form now.
    pub(crate) fn learn(&mut self, seen: &FormSeen) -> bool {
        let before = self.clone();
        let room = Self::MOST.saturating_sub(self.without.len());
        self.without.extend(seen.differing.iter().take(room).cloned());
        if let Some([shown, full, one_more]) = seen.pages {
            self.pages = match self.pages {
                PageCount::Full if shown == full => PageCount::Full,
                PageCount::Full | PageCount::OneMore if shown == one_more => PageCount::OneMore,
                _ => PageCount::LeftOut,
            };
        }
        self.page_size = seen.page_size.unwrap_or(self.page_size);
        if let Some(quoted) = &seen.quoted {
            self.quoted.clone_from(quoted);
        }
        self.echoes_otherwise |= seen.echoes_otherwise;
        *self != before
    }

    /// As many pages as the origin would show.
    pub(crate) fn total_pages(&self, query: &ListQuery, total: u64) -> u64 {
        match self.pages {
            PageCount::OneMore => total / u64::from(query.per_page) + 1,
            PageCount::Full | PageCount::LeftOut => query.total_pages(total),
        }
    }

    /// The path and query of a list for the origin, whose page size where none is asked for may be another one than is
    /// documented.
    pub(crate) fn path_of(&self, query: &ListQuery) -> String {
        let path = query.path_and_query();
        if query.per_page != ListQuery::DEFAULT_PER_PAGE || self.page_size == query.per_page {
            return path;
        }
        let separator = if path.contains('?') { '&' } else { '?' };
        format!("{path}{separator}per_page={}", query.per_page)
    }

    /// How it differs from what is documented, for people; `None`: it does not.
    pub fn told(&self) -> Option<String> {
        let mut told = Vec::new();
        if self.page_size != ListQuery::DEFAULT_PER_PAGE {
            told.push(format!("a page has {} listings where no number is asked for", self.page_size));
        }
        match self.pages {
            PageCount::Full => {}
            PageCount::OneMore => told.push("`total_pages` counts one more where the last page is full".to_owned()),
            PageCount::LeftOut => told.push("`total_pages` follows no rule, and is left out".to_owned()),
        }
        if !self.without.is_empty() {
            let names: Vec<&str> = self.without.iter().map(String::as_str).collect();
            told.push(format!(
                "fields that depend on the filters are left out of filtered lists: {}",
                names.join(", ")
            ));
        }
        for name in &self.quoted {
            told.push(format!("`{name}` is in quotes"));
        }
        if self.echoes_otherwise {
            told.push("`filters` does not repeat what was asked for; this server repeats it as received".to_owned());
        }
        (!told.is_empty()).then(|| told.join("; "))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let is_known = (1..=100).contains(&self.page_size)
            && self.without.len() <= Self::MOST
            && self.quoted.iter().all(|name| QUOTABLE.contains(&&**name));
        if is_known { Ok(()) } else { Err("the form of lists cannot be used".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api::taxonomy::VolatileKeys;

    /// What is learned of answers to a query: how many match, the page size that is shown, `total_pages`, more fields.
    fn learned(query: &str, answers: &[(u64, u64, u64, &str)]) -> ListForm {
        let mut form = ListForm::default();
        let of = |total: u64, size: u64, pages: u64, more: &str| {
            format!(r#"{{"license":"x","per_page":{size},"total":{total},"total_pages":{pages},{more}"items":[]}}"#)
        };
        let page = |body: String| Page::parse(&Bytes::from(body), &VolatileKeys::default()).unwrap();
        let ours = page(of(500, 50, 10, r#""facets":1,"#)).envelope;
        for (total, size, pages, more) in answers {
            let body = of(*total, *size, *pages, more);
            let mut list = crate::api::query::Parameters::parse(query).unwrap().list;
            list.per_page = u16::try_from(*size).unwrap();
            let is_bare = !query.contains("per_page");
            form.learn(&FormSeen::of(&body, &page(body.clone()), (&list, is_bare), &ours, |_| false));
        }
        form
    }

    #[test]
    fn the_form_of_lists_is_learned_and_told() {
        let same = r#""facets":1,"#;
        assert_eq!(learned("sport=golf", &[(100, 50, 2, same), (101, 50, 3, same)]).told(), None);
        assert_eq!(learned("", &[(500, 20, 25, same)]).page_size, 20);
        assert_eq!(learned("per_page=20", &[(500, 20, 25, same)]).page_size, 50, "it was asked for");
        for (answers, expected) in [
            (&[(101, 50, 3, same), (100, 50, 3, same)][..], PageCount::OneMore),
            (&[(100, 50, 3, same), (100, 50, 2, same)], PageCount::LeftOut),
            (&[(100, 50, 1, same)], PageCount::LeftOut),
            (&[(0, 50, 1, same)], PageCount::Full),
        ] {
            assert_eq!(learned("sport=golf", answers).pages, expected);
        }
        for (more, is_told) in [
            (r#""facets":1,"filters":{"sport":"golf"},"#, false),
            (r#""facets":1,"filters":{"sport":"golf","state":null},"#, false),
            (r#""facets":1,"filters":{},"#, true),
            (r#""facets":1,"filters":{"sportSlug":"golf"},"#, true),
            (r#""facets":1,"filters":{"sport":"Golf"},"#, true),
        ] {
            assert_eq!(learned("sport=golf", &[(100, 50, 2, more)]).told().is_some(), is_told, "{more}");
        }
        for (more, without) in [(r#""facets":2,"#, "facets"), ("", "facets"), (r#""facets":1,"bounds":[1],"#, "bounds")]
        {
            let form = learned("sport=golf", &[(100, 50, 2, more)]);
            assert!(form.without.iter().eq([without]) && form.told().unwrap().ends_with(without), "{form:?}");
            assert_eq!(learned("", &[(100, 50, 2, more)]).told(), None, "another list");
        }
        assert!(ListForm { page_size: 0, ..ListForm::default() }.check().is_err());
    }
}
