//! The address of a map's tiles: a template, and the server that browsers may load images from.
//!
//! Callers: [`super::keys`]; [`crate::server`] passes both parts on.

use url::Url;

use super::values::Values;

/// The parts that a map fills in.
const PARTS: [&str; 3] = ["{z}", "{x}", "{y}"];

/// An address with `{z}`, `{x}` and `{y}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileUrl {
    text: String,
    origin: String,
}

impl TileUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The server, as policies name it: `https://tile.example.org`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    fn parse(text: &str) -> Option<Self> {
        let filled = PARTS.iter().try_fold(text.to_owned(), |text, part| {
            (text.matches(part).count() == 1).then(|| text.replace(part, "1"))
        })?;
        // The template goes to browsers as it is: nothing in it is repaired.
        let is_plain = filled.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}\"'<>\\;,".contains(&byte));
        let url = Url::parse(&filled).ok().filter(|_| is_plain)?;
        let origin = url.origin().ascii_serialization();
        // The parts lie in the path or the query, not in the name of the server.
        let is_of_server = text.get(..origin.len()).is_some_and(|start| start.eq_ignore_ascii_case(&origin));
        let is_web = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        (is_of_server && is_web).then(|| Self { text: text.to_owned(), origin })
    }
}

pub(super) fn tile_url() -> Values<TileUrl> {
    const WHAT: &str = "the URL of map tiles, such as \"https://tile.example.org/{z}/{x}/{y}.png\"";
    Values::text("URL with `{z}`, `{x}` and `{y}`", WHAT, TileUrl::parse, |url| url.text.clone())
}

pub(super) fn credit() -> Values<String> {
    const WHAT: &str = "a text of at most 200 characters, such as \"© OpenStreetMap contributors\"";
    let parse = |text: &str| {
        let fits = (1..=200).contains(&text.chars().count()) && !text.contains(char::is_control);
        fits.then(|| text.to_owned())
    };
    Values::text("text", WHAT, parse, String::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_names_its_server_and_the_three_parts() {
        let origin = |text: &str| TileUrl::parse(text).map(|url| url.origin);
        for (text, expected) in [
            ("https://tile.example.org/{z}/{x}/{y}.png", Some("https://tile.example.org")),
            ("http://10.0.0.1:8080/t?z={z}&x={x}&y={y}", Some("http://10.0.0.1:8080")),
            ("https://tile.example.org/{z}/{x}.png", None),
            ("https://{z}.example.org/{x}/{y}.png", None),
            ("https://{s}.example.org/{z}/{x}/{y}.png", None),
            ("https://tile.example.org/{z}/{x}/{y}/{z}.png", None),
            ("ftp://tile.example.org/{z}/{x}/{y}.png", None),
            ("javascript:{z}{x}{y}", None),
            ("https://me:pw@tile.example.org/{z}/{x}/{y}.png", None),
            ("https://tile.example.org/{z}/{x}/{y}.png; script-src *", None),
            ("/tiles/{z}/{x}/{y}.png", None),
        ] {
            assert_eq!(origin(text).as_deref(), expected, "{text}");
        }
    }
}
