//! Map element, with everything that `static/map.js` needs to draw it: without a script it takes no room.
//!
//! Callers: [`super::explore`], [`super::venue`].

use maud::{Markup, html};

use crate::api::query::search::{Near, PER_DEGREE, Point};

use super::Pages;
use super::places::{Extent, written};

/// The scripts of a page with a map, in this order.
pub(super) const SCRIPTS: [&str; 2] = ["leaflet.js", "map.js"];

/// What a map shows beside the venues that the page lists.
#[derive(Default)]
pub(super) struct Map<'a> {
    pub label: &'a str,
    /// `../` for each slash of the page's path after the first.
    pub up: &'a str,
    /// What it shows at first, without a circle.
    pub extent: Option<Extent>,
    /// A link to the points; `None`: the page lists all of them.
    pub points: Option<String>,
    /// The circle that was searched.
    pub near: Option<&'a Near>,
    /// One venue, which the page is about, and its name.
    pub here: Option<(Point, &'a str)>,
}

/// A map with a caption; no caption if it is empty.
pub(super) fn map(pages: &Pages, shown: &Map<'_>, caption: &str) -> Markup {
    let circle = |near: &Near| {
        let [lat, lng] = [near.point.lat, near.point.lng].map(|units| f64::from(units) / PER_DEGREE);
        format!("{lat},{lng},{}", near.radius)
    };
    let site = &pages.site;
    html! {
        figure .map {
            div #map role="region" aria-label=(shown.label)
                data-outlines={ (shown.up) (pages.assets.link("states.json")) }
                data-tiles=[site.tiles.as_deref()]
                data-extent=[shown.extent.map(|extent| extent.written())]
                data-points=[shown.points.as_deref()]
                data-near=[shown.near.map(circle)]
                data-here=[shown.here.map(|(point, _)| written(point))]
                data-name=[shown.here.map(|(_, name)| name)] {}
            p #map-notice .notice role="status" hidden {}
            figcaption .small {
                span #off-map { (caption) }
                @if let Some(credit) = site.tiles_credit.as_deref().filter(|_| site.tiles.is_some()) { " Map: " (credit) }
            }
        }
    }
}
