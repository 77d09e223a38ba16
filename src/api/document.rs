//! The documents of this server itself: its pages for people, the description of its API, and what browsers look for.
//!
//! Names only: [`crate::pages`] renders them. Callers: [`super::route`], [`crate::answer`], [`crate::cache`].

use super::query::ListQuery;

/// A document at a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Document {
    /// `/` for people: HTML.
    Front,
    /// `/` for programs: JSON.
    Index,
    /// `/docs`
    Docs,
    /// `/openapi.json`
    OpenApi,
    /// `/explore`
    Explore,
    /// `/llms.txt`
    Llms,
    /// `/robots.txt`
    Robots,
    /// `/favicon.svg`
    FaviconSvg,
    /// `/favicon.ico`
    FaviconIco,
}

/// Which window of the rate limit counts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// That of the API.
    Api,
    /// That of pages and their assets: ten times as large, and always this machine's own.
    Pages,
}

/// What lies in front of the name of an asset.
pub(crate) const ASSETS: &str = "/assets/";

impl Document {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Front,
        Self::Index,
        Self::Docs,
        Self::OpenApi,
        Self::Explore,
        Self::Llms,
        Self::Robots,
        Self::FaviconSvg,
        Self::FaviconIco,
    ];

    /// Its path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Front | Self::Index => "/",
            Self::Docs => "/docs",
            Self::OpenApi => "/openapi.json",
            Self::Explore => "/explore",
            Self::Llms => "/llms.txt",
            Self::Robots => "/robots.txt",
            Self::FaviconSvg => "/favicon.svg",
            Self::FaviconIco => "/favicon.ico",
        }
    }

    /// The document at a path; of `/` the one for people.
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|document| document.path() == path)
    }

    /// Which window counts requests for it.
    pub const fn window(self) -> Window {
        match self {
            Self::OpenApi | Self::Llms | Self::Robots => Window::Api,
            Self::Front | Self::Index | Self::Docs | Self::Explore | Self::FaviconSvg | Self::FaviconIco => {
                Window::Pages
            }
        }
    }

    /// Whether it says something of the data where there is some.
    pub const fn shows_data(self) -> bool {
        matches!(self, Self::Front | Self::Index | Self::OpenApi | Self::Explore | Self::Llms)
    }
}

/// A document that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WantedDocument {
    /// One that depends on nothing else in the request.
    Fixed(Document),
    /// The explorer, with these filters and this page.
    Explore(ListQuery),
    /// An asset, by its name.
    Asset(Box<str>),
}

impl WantedDocument {
    /// The explorer with the filters and the page of a list; it has one size of page.
    pub fn explorer(list: ListQuery) -> Self {
        Self::Explore(ListQuery { modified_since: None, per_page: ListQuery::DEFAULT_PER_PAGE, ..list })
    }

    /// Whether it is at this path.
    pub fn is_at(&self, path: &[u8]) -> bool {
        match self {
            Self::Fixed(document) => path == document.path().as_bytes(),
            Self::Explore(_) => path == Document::Explore.path().as_bytes(),
            Self::Asset(name) => path.strip_prefix(ASSETS.as_bytes()) == Some(name.as_bytes()),
        }
    }

    /// Whether it shows the snapshot that is served.
    pub const fn shows_data(&self) -> bool {
        match self {
            Self::Fixed(document) => document.shows_data(),
            Self::Explore(_) => true,
            Self::Asset(_) => false,
        }
    }

    /// What it weighs as a key, in bytes, about.
    pub fn weight(&self) -> usize {
        match self {
            Self::Fixed(_) => 16,
            Self::Explore(query) => query.weight(),
            Self::Asset(name) => name.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_names_its_document() {
        for document in Document::ALL {
            let named = Document::at(document.path()).unwrap();
            assert!(named == document || (named, document) == (Document::Front, Document::Index), "{document:?}");
        }
        for path in ["", "/docs/", "/Docs", "/openapi", "/index.html"] {
            assert_eq!(Document::at(path), None, "{path}");
        }
    }
}
