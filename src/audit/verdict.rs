//! The verdict on two answers: equal, different, or different by design; and whether their links lead to the same
//! places.
//!
//! Pure. [`super`] checks whether a difference outlasts a refresh. Callers: [`super::Auditor`].

use std::collections::BTreeMap;

use url::Url;

use crate::api::links::{Rewrite, WebLink};
use crate::api::query::{self, ListQuery, Parameters};
use crate::api::route::ALLOW;
use crate::api::taxonomy::VolatileKeys;

use super::compare::{self, Difference, DifferenceKind};
use super::job::Outcome;
use super::sample::Kind;

/// The mirror's answer.
pub(super) enum Ours {
    /// 200 with this text and these links, and the instant for which it is confirmed.
    Body { text: String, links: Links, at_ms: i64 },
    /// 404, and the instant for which it is confirmed.
    Missing(i64),
    /// What was learned of the origin's answers to such requests.
    Learned { status: u16, media_type: Option<String>, text: String },
    /// Ours, whatever the origin answers: nothing was learned of it.
    Own,
    /// The origin's answer.
    ReadThrough,
}

/// The origin's answer.
#[derive(Default)]
pub(super) struct Theirs {
    /// The status; only 200 has a text, and all answers to odd requests.
    pub(super) status: u16,
    /// Whether it is the answer to HEAD: then there is no text, and only status and headers are compared.
    pub(super) is_head: bool,
    /// `Content-Type`.
    pub(super) media_type: Option<String>,
    /// Whether caches may not keep it, or only one client's.
    pub(super) is_private: bool,
    /// `Link`.
    pub(super) links: Links,
    /// `Allow`, in capitals; `None`: absent.
    pub(super) allow: Option<Vec<String>>,
    /// The body.
    pub(super) text: String,
    /// Its instant.
    pub(super) at_ms: i64,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Final: a refresh would not change it.
    Settled(Outcome),
    /// At least one difference.
    Differs(Vec<Difference>),
}

/// Compares two answers. The message of `Err` says why they cannot be compared.
pub(super) fn judge(kind: Kind, ours: &Ours, theirs: &Theirs, ignored: &VolatileKeys) -> Result<Verdict, String> {
    let fixed = matches!(kind, Kind::BeyondLast | Kind::UnknownSlug | Kind::Elsewhere);
    let (differences, confirmed_ms) = match (ours, theirs.status) {
        (Ours::ReadThrough, _) => return Ok(Verdict::Settled(Outcome::ReadThrough)),
        (Ours::Learned { status, media_type, text }, _) => {
            (learned(*status, media_type.as_deref(), text, theirs), i64::MIN)
        }
        (Ours::Missing(_), 404 | 410) => (Vec::new(), i64::MIN),
        (Ours::Missing(at), 200) => (vec![Difference::new(DifferenceKind::Status, "", "404", "200")], *at),
        // An unknown id is 404 here, whatever the origin answers.
        (Ours::Missing(_) | Ours::Own, _) => return Ok(Verdict::Settled(Outcome::ByContract)),
        (Ours::Body { text, links, at_ms }, 200) => {
            let mut differences =
                if theirs.is_head { Vec::new() } else { compare_bodies(kind, text, &theirs.text, ignored)? };
            differences.extend(headers(theirs));
            differences.extend(links.differences(&theirs.links));
            (differences, *at_ms)
        }
        (Ours::Body { .. }, _) if fixed => return Ok(Verdict::Settled(Outcome::ByContract)),
        (Ours::Body { at_ms, .. }, status) => {
            (vec![Difference::new(DifferenceKind::Status, "", "200", &status.to_string())], *at_ms)
        }
    };
    if differences.is_empty() {
        return Ok(Verdict::Settled(Outcome::Equal));
    }
    if fixed && differences.iter().all(|difference| is_fixed(kind, difference)) {
        return Ok(Verdict::Settled(Outcome::ByContract));
    }
    if theirs.at_ms < confirmed_ms {
        return Err("the origin's CDN returned a copy older than the mirror's".to_owned());
    }
    Ok(Verdict::Differs(differences))
}

/// The differences from what was learned of an answer.
fn learned(status: u16, media_type: Option<&str>, text: &str, theirs: &Theirs) -> Vec<Difference> {
    let [one, other] = [status, theirs.status].map(|status| status.to_string());
    let mut differences = Vec::new();
    if one != other {
        differences.push(Difference::new(DifferenceKind::Status, "", &one, &other));
    }
    let name = |media_type: Option<&str>| media_type.unwrap_or("(absent)").to_owned();
    let (one, other) = (name(media_type), name(theirs.media_type.as_deref()));
    if one != other {
        differences.push(Difference::new(DifferenceKind::Header, "Content-Type", &one, &other));
    }
    if !theirs.is_head && text != theirs.text {
        differences.push(Difference::new(DifferenceKind::Text, "", text, &theirs.text));
    }
    differences.extend(methods(theirs));
    differences
}

/// The difference of the methods that a client may use. Ours are those of a read-only API by contract, some more or
/// some fewer: only an origin that allows none of them differs.
fn methods(theirs: &Theirs) -> Option<Difference> {
    let methods = theirs.allow.as_deref().filter(|methods| !methods.is_empty())?;
    let is_ours = |method: &String| ALLOW.split(", ").any(|ours| ours == method);
    (!methods.iter().any(is_ours)).then(|| Difference::new(DifferenceKind::Header, "Allow", ALLOW, &methods.join(", ")))
}

/// What the origin does in a way of its own where the contract fixes ours: told once, and no difference.
pub(super) fn properties(ours: &Ours, theirs: &Theirs) -> Vec<&'static str> {
    let Ours::Body { text, .. } = ours else { return Vec::new() };
    let properties = [
        (
            theirs.is_private,
            "it forbids shared caches to store its answers (`Cache-Control: private` or `no-store`); the mirror's answers \
             are public",
        ),
        (
            compare::spells_its_own(text, &theirs.text),
            "it echoes `filters.modified_since` in a spelling of its own; the mirror echoes what was asked",
        ),
    ];
    properties.into_iter().filter(|(holds, _)| *holds && theirs.status == 200).map(|(_, property)| property).collect()
}

/// The differences of headers that clients act on: the type of a body, and which methods there are.
fn headers(theirs: &Theirs) -> Vec<Difference> {
    const JSON: &str = "application/json";
    let mut differences = Vec::new();
    if let Some(media_type) = &theirs.media_type
        && !media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
    {
        differences.push(Difference::new(DifferenceKind::Header, "Content-Type", JSON, media_type));
    }
    differences.extend(methods(theirs));
    differences
}

fn compare_bodies(kind: Kind, ours: &str, theirs: &str, ignored: &VolatileKeys) -> Result<Vec<Difference>, String> {
    let document = matches!(kind, Kind::Taxonomy(_) | Kind::Detail | Kind::UnknownListing);
    if document {
        return Ok(compare::documents(ours, theirs, ignored));
    }
    compare::lists(ours, theirs, ignored).map_err(|error| format!("the origin's answer is not a list: {error}"))
}

/// Whether this difference is by design: no listings beyond the last page, and none for an unknown slug or filters that
/// exclude each other.
fn is_fixed(kind: Kind, difference: &Difference) -> bool {
    match kind {
        Kind::UnknownSlug | Kind::Elsewhere => true,
        _ => difference.what == DifferenceKind::Ids || matches!(difference.place.as_str(), "page" | "items"),
    }
}

/// The links of an answer by relation. Relations that only one side has, and targets that only the origin understands, are
/// no difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links(BTreeMap<String, Vec<Link>>);

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    /// As it is written.
    text: String,
    target: Target,
}

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// To this page of the list.
    Page(ListQuery),
    /// To this address, without what its spelling can differ in.
    Address(String),
    /// To what cannot be compared: another host, or parameters that only the origin understands.
    Unclear,
}

impl Links {
    /// The links of our own answers: the licence, and for a page of the list those around it.
    pub(super) fn ours(license: Option<&str>, page: Option<(&ListQuery, u64)>, rewrite: &Rewrite) -> Self {
        let mut links = Self::default();
        if let Some(license) = license {
            links.put("license", license.to_owned(), address(license, None, rewrite));
        }
        if let Some((query, total)) = page {
            let last = query.total_pages(total).max(1);
            let around = [
                ("first", Some(1)),
                ("prev", (query.page > 1).then(|| (query.page - 1).min(last))),
                ("next", (query.page < last).then(|| query.page + 1)),
                ("last", Some(last)),
            ];
            for (relation, page) in around {
                let Some(query) = page.map(|page| query.with_page(page)) else { continue };
                links.put(relation, query.path_and_query(), Target::Page(plain(query)));
            }
        }
        links
    }

    /// The links of the origin's answer to a request for `url`.
    pub(super) fn theirs(links: Vec<WebLink>, url: &Url, rewrite: &Rewrite) -> Self {
        let mut read = Self::default();
        for WebLink { target, relations } in links {
            for relation in relations {
                let to = if relation == "license" {
                    address(&target, Some(url), rewrite)
                } else {
                    page(&target, url, rewrite)
                };
                read.put(&relation, target.clone(), to);
            }
        }
        read
    }

    fn put(&mut self, relation: &str, text: String, target: Target) {
        self.0.entry(relation.to_owned()).or_default().push(Link { text, target });
    }

    /// The differences of the relations that both have.
    pub(super) fn differences(&self, theirs: &Self) -> Vec<Difference> {
        let both =
            self.0.iter().filter_map(|(relation, ours)| Some((relation, ours.first()?, theirs.0.get(relation)?)));
        let differing = both.filter(|(_, ours, theirs)| {
            theirs.iter().all(|link| link.target != Target::Unclear && link.target != ours.target)
        });
        let told = differing.filter_map(|(relation, ours, theirs)| {
            let theirs = theirs.first()?;
            Some(Difference::new(DifferenceKind::Header, format!("Link rel={relation}"), &ours.text, &theirs.text))
        });
        told.collect()
    }
}

/// The page of the list to which a target leads.
fn page(target: &str, from: &Url, rewrite: &Rewrite) -> Target {
    let Some(rest) = rewrite.rest(target, Some(from)) else { return Target::Unclear };
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_known = |pair: &str| {
        let name = query::decode(pair.split('=').next().unwrap_or_default());
        name.is_ok_and(|name| name.is_empty() || (name != "snapshot" && query::KNOWN.contains(&&*name)))
    };
    match Parameters::parse(query) {
        Ok(Parameters { list, is_odd: false, .. })
            if path == "/api/listings.json" && query.split('&').all(is_known) =>
        {
            Target::Page(plain(list))
        }
        _ => Target::Unclear,
    }
}

/// A query without the spelling of its instant.
fn plain(mut query: ListQuery) -> ListQuery {
    if let Some(since) = &mut query.modified_since {
        since.text = Box::default();
    }
    query
}

/// An address of any host. `http` and `https`, and a slash at the end, make no difference.
fn address(target: &str, from: Option<&Url>, rewrite: &Rewrite) -> Target {
    let rest = |url: &Url| {
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{}{query}", url.host_str().unwrap_or_default(), url.path().trim_end_matches('/'))
    };
    let url = from.map_or_else(|| Url::parse(target), |from| from.join(target));
    match (rewrite.rest(target, from), url) {
        (Some(own), _) => Target::Address(own.trim_end_matches('/').to_owned()),
        (None, Ok(url)) if matches!(url.scheme(), "http" | "https") => Target::Address(rest(&url)),
        _ => Target::Unclear,
    }
}

#[cfg(test)]
mod tests;
