//! Layout: the common parts of all pages, which are head, navigation and the credit line.
//!
//! Callers: the pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::api::query::finder::Theme;
use crate::origin::status::Progress;
use crate::words::grouped;

use super::Pages;
use super::facts::{Credit, PageFacts};
use super::room::{PageRoom, allowed};

/// Scripts with imports, with exports for tests, or with names of their own.
const MODULES: [&str; 4] = ["age.js", "copy.js", "map.js", "explore.js"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NavigationItem {
    Front,
    Explore,
    Docs,
}

const NAVIGATION: [(NavigationItem, &str, &str); 3] = [
    (NavigationItem::Front, "./", "Overview"),
    (NavigationItem::Explore, "explore", "Explore"),
    (NavigationItem::Docs, "docs", "API"),
];

/// A whole page. `scripts` are assets; what they do is extra.
pub(super) fn page(
    pages: &Pages,
    (place, title): (NavigationItem, &str),
    scripts: &[&str],
    facts: Option<&PageFacts<'_>>,
    main: &Markup,
) -> String {
    page_below(pages, "", (Some(place), title), scripts, facts, (None, main))
}

/// A whole page at any path; `up` leads to `/`: `../` for each slash after the first. `place`: `None` for a page that the
/// navigation does not have. `more` belongs to the head, with a description.
pub(super) fn page_below(
    pages: &Pages,
    up: &str,
    (place, title): (Option<NavigationItem>, &str),
    scripts: &[&str],
    facts: Option<&PageFacts<'_>>,
    (more, main): (Option<&Markup>, &Markup),
) -> String {
    let credit = facts.map(|facts| &facts.credit);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(pages, up, (title, Theme::Auto), (styles(scripts), scripts), more))
            body {
                a .skip href="#main" { "Skip to the content" }
                (header(pages, up, place))
                main #main tabindex="-1" {
                    (main)
                    @if facts.is_some_and(|facts| facts.room.is_short()) { p { "There is more than fits here: the JSON has all of it." } }
                }
                footer { (credit_line(credit)) p .small { "Served by grandstand, a mirror of this API." } }
            }
        }
    };
    allowed(page.into_string())
}

/// The styles of a page with these scripts.
pub(super) fn styles(scripts: &[&str]) -> &'static [&'static str] {
    if scripts.contains(&"map.js") { &["leaflet.css", "style.css", "dark.css"] } else { &["style.css", "dark.css"] }
}

/// The page of the API's description. The viewer's own style comes with it.
pub(super) fn viewer(pages: &Pages, place: NavigationItem, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(pages, "", ("API documentation", Theme::Auto), (&["style.css", "dark.css", "docs.css"], &["docs.js"]), None))
            body .viewer {
                a .skip href="#main" { "Skip to the content" }
                (header(pages, "", Some(place)))
                div #main tabindex="-1" {
                    main #reference { (main) }
                    // The form brings its own main landmark.
                    div #viewer tabindex="-1" {}
                }
            }
        }
    };
    page.into_string()
}

pub(super) fn head(
    pages: &Pages,
    up: &str,
    (title, theme): (&str, Theme),
    (styles, scripts): (&[&str], &[&str]),
    more: Option<&Markup>,
) -> Markup {
    let scheme = if theme == Theme::Auto { "light dark" } else { theme.as_str() };
    let when = |style: &str| (style == "dark.css" && theme == Theme::Auto).then_some("(prefers-color-scheme: dark)");
    let styles = styles.iter().filter(|style| **style != "dark.css" || theme != Theme::Light);
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content=(scheme);
            title { (title) " · Sports venues" }
            @match more {
                Some(more) => (more),
                None => meta name="description" content="A mirror of the Public Sports Venue Listings API: front page, documentation, explorer and files.";
            }
            link rel="icon" href={ (up) "favicon.ico" } sizes="32x32";
            link rel="icon" href={ (up) "favicon.svg" } type="image/svg+xml";
            @for style in styles {
                link rel="stylesheet" href={ (up) (pages.assets.link(style)) } media=[when(style)];
            }
            @for script in scripts {
                script type=[MODULES.contains(script).then_some("module")] src={ (up) (pages.assets.link(script)) } defer {}
            }
        }
    }
}

/// A page for a frame on another site: no navigation, and the credit stays in sight.
pub(super) fn framed(
    pages: &Pages,
    (title, theme): (&str, Theme),
    scripts: &[&str],
    (main, footer): (&Markup, &Markup),
) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(pages, "", (title, theme), (styles(scripts), scripts), None))
            body .widget { main { (main) } footer { (footer) } }
        }
    };
    allowed(page.into_string())
}

/// The description of a page, also for links that people share (Open Graph); `link` is relative to `public_url`.
pub(super) fn shared(pages: &Pages, room: &PageRoom, (title, text): (&str, &str), link: &str) -> Markup {
    let (title, text) = (room.short(title), room.short(text));
    html! {
        meta name="description" content=(text);
        meta property="og:type" content="website";
        meta property="og:site_name" content="Sports venues";
        meta property="og:title" content=(title);
        meta property="og:description" content=(text);
        meta property="og:url" content={ (pages.site.public_url) "/" (link) };
    }
}

fn header(pages: &Pages, up: &str, place: Option<NavigationItem>) -> Markup {
    let offered = NAVIGATION.iter().filter(|(to, ..)| pages.site.has_snapshots || *to != NavigationItem::Explore);
    html! {
        header .top {
            a .brand href={ (up) "./" } {
                img src={ (up) (pages.assets.link("mark.svg")) } width="32" height="32" alt="";
                span { "Sports venues" }
            }
            nav aria-label="Pages" {
                @for (to, href, text) in offered {
                    a href={ (up) (href) } aria-current=[(Some(*to) == place).then_some("page")] { (text) }
                }
            }
            @if pages.is_demo { p .demo { "This is a demo: its data is invented." } }
        }
    }
}

/// The data's source, as the licence wants it: the provider's words, a link back, and the licence.
pub(super) fn credit_line(credit: Option<&Credit>) -> Markup {
    let Some(credit) = credit else {
        return html! {
            p .credit {
                "Venue data from the Public Sports Venue Listings API, under "
                a href="https://creativecommons.org/licenses/by/4.0/" rel="license" { "CC BY 4.0" }
                ". Every list names its licence and the attribution that it requires."
            }
        };
    };
    let words = credit.attribution.as_deref().unwrap_or("Public Sports Venue Listings API");
    html! {
        p .credit {
            "Venue data: "
            @match &credit.backlink {
                Some(link) => a href=(link) { (words) },
                None => bdi { (words) },
            }
            ", licensed under "
            @match &credit.license {
                Some(link) => a href=(link) rel="license" { (credit.license_name) },
                None => (credit.license_name),
            }
            "." span .keep { " If you use it, keep this credit and the link." }
        }
    }
}

/// An instant for people; scripts add its age.
pub(super) fn instant(at: &str) -> Markup {
    let shown = at.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(at) { (shown) } }
}

pub(super) fn first_copy(Progress { done, of }: Progress) -> Markup {
    html! {
        p {
            "The first copy of the data is being made: "
            @if of == 0 {
                "it waits for the first page of the origin."
            } @else {
                strong { (grouped(done)) " of " (grouped(of)) " pages" } " are here. "
                progress max=(of) value=(done) aria-label="First copy" {}
            }
        }
    }
}

/// When the browser loads the page again by itself.
pub(super) fn again(seconds: u64) -> Markup {
    html! { p .small { "This page tries again in " span data-seconds=(seconds) { (seconds) } " s." } }
}

/// The button that copies the text of the element with this id; a script shows it.
pub(super) fn copy_button(id: &str, described_by: Option<&str>) -> Markup {
    html! { button .copy type="button" data-copies=(id) aria-describedby=[described_by] hidden { "Copy" } }
}

/// A command or a program to copy; `id` is its own on the page.
pub(super) fn example(id: &str, title: &str, text: &str) -> Markup {
    let title_id = format!("{id}-title");
    html! {
        figure .example {
            figcaption { span id=(title_id) { (title) } (copy_button(id, Some(&title_id))) }
            pre { code id=(id) { (text) } }
        }
    }
}

/// A bar as wide as a share of the widest.
pub(super) fn bar(count: u64, most: u64) -> Markup {
    let width = (count as f64 * 100.0 / most.max(1) as f64).max(0.5);
    let width = format!("{width:.1}");
    html! {
        svg .bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect width=(PreEscaped(width)) height="10" {}
        }
    }
}
