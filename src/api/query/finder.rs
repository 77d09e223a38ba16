//! Finder query, for people: that of a search, and how the venues are shown.
//!
//! Nothing in it is an error: what has no meaning is left out, and said. Callers: [`crate::edge::answer`] parses,
//! [`crate::edge::pages`] shows.

use std::borrow::Cow;

use super::search::{Bounds, MOST_CHARACTERS, Order, Point, SearchQuery, bounds, point};
use super::{ListQuery, QueryError, boxed, decode, encode, pairs};
use crate::protocol::excerpt;
use crate::words::named;

/// A longer value is not shown whole where it is said that it was left out, in bytes.
const MOST_SAID: usize = 60;

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Theme, as_str {
        /// Those of the visitor's screen.
        #[default]
        Auto = "auto",
        Light = "light",
        Dark = "dark",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WidgetLook {
    pub theme: Theme,
    /// `None`: the number of venues, and of what.
    pub title: Option<Box<str>>,
}

/// So many venues are on a page of the widget.
const IN_WIDGET: u16 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinderForm {
    Page,
    Widget,
    /// The points for the map, of a part of the earth; `None`: of all.
    Points(Option<Bounds>),
}

/// The query of the finder. Other than in a search, unknown parameters are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FinderQuery {
    pub search: SearchQuery,
    pub form: FinderForm,
    pub look: WidgetLook,
    /// The name of a place in `near`. Until [`settle`](Self::settle), the point of the search has no meaning.
    pub place: Option<Box<str>>,
    /// What was written for a place and means none.
    pub no_place: Option<Box<str>>,
    /// What was left out, and why, as sentences.
    pub left_out: Vec<Box<str>>,
}

impl WidgetLook {
    /// Of a raw query string. Other themes are as if absent.
    fn read(raw: &str) -> Self {
        let value = |name: &str| {
            let mut values = pairs(raw).filter(|(key, _)| key == name).filter_map(|(_, value)| decode(value).ok());
            values.find(|value| !value.trim().is_empty())
        };
        let theme = value("theme").and_then(|text| Theme::ALL.into_iter().find(|theme| theme.as_str() == text));
        Self { theme: theme.unwrap_or_default(), title: boxed(value("title")) }
    }
}

impl FinderQuery {
    pub(crate) const KNOWN: [&str; 9] = ["q", "near", "radius", "bbox", "sport", "state", "city", "page", "sort"];

    /// Reads a raw query string for the page, or for the widget.
    pub fn parse(raw: &str, form: FinderForm) -> Self {
        let mut left_out = Vec::new();
        let mut values: [Option<Cow<'_, str>>; 9] = Default::default();
        for (key, value) in pairs(raw) {
            let Some(at) = Self::KNOWN.iter().position(|known| *known == key) else { continue };
            match decode(value) {
                Ok(value) if value.is_empty() || values[at].as_ref() == Some(&value) => {}
                Ok(value) if values[at].is_none() => values[at] = Some(value),
                Ok(value) => left_out.push(said_why(Self::KNOWN[at], &value, "it was given twice")),
                Err(value) => left_out.push(said(Self::KNOWN[at], &value)),
            }
        }
        if let Some(text) = values[0].as_mut().filter(|text| text.chars().count() > MOST_CHARACTERS) {
            let cut: String = text.chars().take(MOST_CHARACTERS).collect();
            left_out.push(said("q", &text[cut.len()..]));
            *text = cut.into();
        }
        // "30.26 -97.7" is a point as well.
        if let Some(near) = &mut values[1]
            && let [lat, lng] = near.split_whitespace().collect::<Vec<_>>()[..]
            && let written = format!("{},{lng}", lat.trim_end_matches(','))
            && point(&written).is_ok()
        {
            *near = written.into();
        }
        let mut no_place = None;
        // A name stands there in the place of a point.
        let is_name = |near: &mut Cow<'_, str>| near.contains(char::is_alphabetic) && point(near).is_err();
        let place = boxed(values[1].take_if(is_name));
        values[1] = values[1].take().or(place.is_some().then_some("0,0".into()));
        loop {
            let [q, near, radius, bbox, sport, state, city, page, sort] = values.clone();
            // An order by distance is left behind where `near` goes.
            let sort = sort.filter(|sort| sort != Order::Distance.as_str() || near.is_some());
            let parameter = match SearchQuery::of([q, near, radius, bbox, sport, state, city, None, page, None, sort]) {
                Ok(mut search) => {
                    if form == FinderForm::Widget {
                        search.list.per_page = IN_WIDGET;
                    }
                    let look = if form == FinderForm::Widget { WidgetLook::read(raw) } else { WidgetLook::default() };
                    return Self { search, form, look, place, no_place, left_out };
                }
                Err(QueryError::BadValue { parameter, .. } | QueryError::Repeated { parameter, .. }) => parameter,
                Err(QueryError::Unknown { .. }) => "",
            };
            let wrong = Self::KNOWN.iter().position(|known| *known == parameter).map(|at| values[at].take());
            match wrong {
                Some(Some(value)) => {
                    left_out.push(said(parameter, &value));
                    no_place = no_place.or(boxed((parameter == "near").then_some(value)));
                }
                // Not reached: every error names a value. The query of everything has none.
                _ => values = Default::default(),
            }
        }
    }

    /// Reads a raw query string for the points of a map: `view=W,S,E,N`, and that of the page.
    pub fn parse_points(raw: &str) -> Self {
        let mut views = pairs(raw).filter(|(key, _)| key == "view").filter_map(|(_, view)| decode(view).ok());
        let view = views.find_map(|view| bounds(&view).ok());
        let query = Self::parse(raw, FinderForm::Points(view));
        Self { search: query.search.in_usual_order(), left_out: Vec::new(), ..query }
    }

    /// Puts a point in the place of its name; `None`: no place has that name.
    pub fn settle(&mut self, point: Option<Point>) {
        if let (Some(near), Some(point)) = (&mut self.search.near, point) {
            near.settle(point);
        } else {
            let name = self.place.take().unwrap_or_default();
            self.left_out.push(said("near", &name));
            self.no_place = Some(name);
            self.search.near = None;
        }
    }

    /// Whether it is the widget for other sites.
    pub fn is_embedded(&self) -> bool {
        self.form == FinderForm::Widget
    }

    /// Whether a list of the API cannot have the same venues.
    pub fn selects(&self) -> bool {
        self.search.own_filters().next().is_some()
    }

    /// Whether a list of the API cannot have the same venues in the same order.
    pub fn searches(&self) -> bool {
        self.selects() || self.search.order != Order::Usual
    }

    /// A link to the points of the same venues, to which `view=W,S,E,N` is appended.
    pub fn points(&self) -> String {
        let link = self.file("explore/points.json");
        let joint = if link.contains('?') { '&' } else { '?' };
        link + &format!("{joint}view=")
    }

    /// `path` of a file with the query of the same venues.
    pub fn file(&self, path: &str) -> String {
        let mut text = String::new();
        self.search.in_usual_order().write_at(path, 1, &mut text);
        text
    }

    /// `path` with the canonical query of another page of the same venues.
    pub fn link(&self, path: &str, page: u64) -> String {
        let (mut search, mut text) = (self.search.clone(), String::new());
        search.list.per_page = ListQuery::DEFAULT_PER_PAGE;
        if let (Some(near), Some(place)) = (&mut search.near, &self.place) {
            near.text = place.clone();
        }
        search.write_at(path, page, &mut text);
        text
    }

    pub fn widget(&self, page: u64) -> String {
        let mut link = self.link("embed", page);
        let theme = Some(self.look.theme).filter(|theme| *theme != Theme::Auto).map(Theme::as_str);
        for (name, value) in [("theme", theme), ("title", self.look.title.as_deref())] {
            let Some(value) = value else { continue };
            link.push(if link.contains('?') { '&' } else { '?' });
            link.extend([name, "="]);
            encode(value, &mut link);
        }
        link
    }

    /// What it weighs as a key, in bytes, about.
    pub fn weight(&self) -> usize {
        let title = self.look.title.as_ref().map_or(0, |title| title.len());
        let no_place = self.no_place.as_ref().map_or(0, |name| name.len());
        title + no_place + self.search.weight() + self.left_out.iter().map(|said| said.len()).sum::<usize>()
    }
}

/// `radius=5` as a sentence of what was left out.
fn said(parameter: &str, value: &str) -> Box<str> {
    let why = match parameter {
        "q" => "at most 200 characters are looked for, and they need a letter or a digit",
        "near" => "there is no such place: write a city, or a latitude and a longitude",
        "radius" => "a distance is above 0, at most half way round the earth, and needs a place",
        "page" => "pages are numbered from 1",
        "sort" => "there is no such order",
        "bbox" => "it is no part of the earth: write west,south,east,north in degrees",
        _ => "it is too long, or not UTF-8",
    };
    said_why(parameter, value, why)
}

fn said_why(parameter: &str, value: &str, why: &str) -> Box<str> {
    let start = excerpt::start(value, MOST_SAID);
    let rest = if start.len() < value.len() { "\u{2026}" } else { "" };
    format!("{parameter} \u{201c}{start}{rest}\u{201d} ({why})").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> FinderQuery {
        FinderQuery::parse(raw, FinderForm::Page)
    }

    #[test]
    fn what_means_nothing_is_left_out_and_said() {
        let (long, wide) = (format!("q={}", "x".repeat(300)), format!("state={}", "x".repeat(900)));
        for (raw, link, said) in [
            ("page=0&state=texas", "explore?state=texas", "page \u{201c}0\u{201d}"),
            ("page=x", "explore", "page \u{201c}x\u{201d}"),
            ("radius=5&q=golf", "explore?q=golf", "radius \u{201c}5\u{201d}"),
            ("near=1,2&radius=-3", "explore?near=1%2C2", "radius \u{201c}-3\u{201d}"),
            ("near=91,0&radius=5&q=golf", "explore?q=golf", "near \u{201c}91,0\u{201d}"),
            ("bbox=1,2&sport=golf", "explore?sport=golf", "bbox"),
            ("sort=price&q=%2B", "explore", "sort \u{201c}price\u{201d}"),
            ("state=a&state=b", "explore?state=a", "state \u{201c}b\u{201d} (it was given twice)"),
            ("q=%ff&city=austin", "explore?city=austin", "q \u{201c}"),
            (&long, &format!("explore?q={}", "x".repeat(200)), "at most 200 characters"),
            (&wide, "explore", "state \u{201c}xxx"),
        ] {
            let query = parse(raw);
            assert_eq!(query.link("explore", query.search.list.page), link, "{raw}");
            assert!(query.left_out.iter().any(|text| text.contains(said)), "{raw}: {:?}", query.left_out);
            assert!(query.left_out.iter().all(|text| text.len() < 250), "{raw}");
        }
        let usual = parse("q=golf&near=1,2&radius=5&sport=&utm=1&state=texas&state=texas&page=2&sort=distance");
        assert_eq!((usual.left_out.len(), usual.place), (0, None));
        assert_eq!(parse("sort=distance").left_out.len(), 0, "it goes with the place");
    }

    #[test]
    fn a_name_in_the_place_of_a_point_waits_for_it() {
        let mut query = parse("near=Austin,+Texas&radius=5");
        assert_eq!(query.place.as_deref(), Some("Austin, Texas"));
        query.settle(Point::of(30.27, -97.74));
        assert_eq!(query.link("explore", 1), "explore?near=Austin%2C%20Texas&radius=5");
        assert_eq!(query.file("search.json"), "search.json?near=30.27%2C-97.74&radius=5");
        let mut lost = parse("near=Atlantis&radius=5&q=golf");
        lost.settle(None);
        assert_eq!((lost.link("explore", 1), lost.place), ("explore?q=golf".to_owned(), None));
        assert!(lost.left_out[0].contains("Atlantis"), "{:?}", lost.left_out);
    }

    #[test]
    fn a_widget_has_pages_of_its_own_that_look_the_same() {
        let query = FinderQuery::parse("state=texas&theme=dark&title=Our+%26+venues&page=2", FinderForm::Widget);
        assert_eq!((query.search.list.per_page, query.look.theme), (IN_WIDGET, Theme::Dark));
        assert_eq!(query.widget(3), "embed?state=texas&page=3&theme=dark&title=Our%20%26%20venues");
        assert_eq!(query.link("explore", 1), "explore?state=texas");
        let other = FinderQuery::parse("theme=pink&title=+&page=2", FinderForm::Widget);
        assert_eq!((&other.look, other.widget(1).as_str()), (&WidgetLook::default(), "embed"));
        assert_eq!(parse("theme=dark").look, WidgetLook::default());
    }

    #[test]
    fn a_view_of_the_map_is_read_and_a_wrong_one_is_all_of_the_earth() {
        let form = |raw: &str| FinderQuery::parse_points(raw).form;
        assert!(matches!(form("state=texas&view=-107,26,-94,37"), FinderForm::Points(Some(_))));
        for raw in ["view=", "view=1,2,3", "view=1,5,3,4", ""] {
            assert_eq!(form(raw), FinderForm::Points(None), "{raw}");
        }
    }
}
