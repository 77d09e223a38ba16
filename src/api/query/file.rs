//! File query: what a search finds, or everything.
//!
//! Callers: [`crate::edge::answer`] parses, [`crate::edge::dumps`] selects.

use super::search::{SearchQuery, bad};
use super::{QueryError, known_only};

/// The parameters of files.
pub(crate) const KNOWN: [&str; 8] = ["q", "near", "radius", "bbox", "sport", "state", "city", "bom"];
const NAMED: &str = "q, near, radius, bbox, sport, state and city; bom=1 for tables";

/// Which listings a file has, and how it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileQuery {
    /// `None`: all.
    pub search: Option<Box<SearchQuery>>,
    /// Whether it is for Excel: with a byte order mark, and without formulas.
    pub bom: bool,
}

impl FileQuery {
    /// Reads a raw query string; an empty value is as if absent. A client that saves a file does not see that a
    /// parameter had no effect, so unknown ones are refused. `is_table`: `bom` is for tables.
    pub fn parse(raw: &str, is_table: bool) -> Result<Self, QueryError> {
        let [q, near, radius, bbox, sport, state, city, bom] = known_only(raw, &KNOWN, NAMED)?;
        let bom = match bom.as_deref().unwrap_or_default() {
            "" => false,
            "1" if is_table => true,
            other => return Err(bad("bom", other, "1, and only of a table (CSV)")),
        };
        let search = SearchQuery::of([q, near, radius, bbox, sport, state, city, None, None, None, None])?;
        Ok(Self { search: Some(search).filter(|search| !search.is_empty()).map(Box::new), bom })
    }

    /// The same for equal selections.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(search) = &self.search {
            search.write(1, &mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_what_a_search_takes_and_nothing_else() {
        let parse = |raw: &str, is_table| FileQuery::parse(raw, is_table).map_err(|error| error.to_string());
        assert_eq!(parse("", false), Ok(FileQuery::default()));
        assert_eq!(parse("sport=&q=", true), Ok(FileQuery::default()));
        let one = parse("state=texas&q=golf&near=1,2&radius=5&bbox=1,2,3,4&bom=1", true).unwrap();
        assert!(one.bom && one.text() == "/search.json?q=golf&near=1%2C2&radius=5&bbox=1%2C2%2C3%2C4&state=texas");
        for (raw, named) in [
            ("page=2", "`page`"),
            ("sort=name", "`sort`"),
            ("modified_since=2026-01-01", "`modified_since`"),
            ("bom=2", "`bom`"),
            ("radius=5", "together with near"),
            ("q=%2B", "`q`"),
        ] {
            assert!(parse(raw, true).is_err_and(|error| error.contains(named)), "{raw}");
        }
        assert!(parse("bom=1", false).is_err_and(|error| error.contains("CSV")));
    }
}
