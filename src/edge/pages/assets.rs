//! The files of the pages, compiled in: style, scripts, mark, the map, and the viewer of the API's description.
//!
//! Each name contains a hash of the content, so that browsers may keep a file for good. `vendored/README.md` says where
//! the large ones come from, and how they were made. Callers: [`super`].

use std::sync::Arc;

use bytes::Bytes;

use crate::api::hash::ContentHash;
use crate::data::cache::reply::{Confinement, Lifetime, Rendered};
use crate::protocol::coding::Coding;

use super::{RENDERER, kind};

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

#[derive(Clone, Copy)]
enum Packing {
    Plain(&'static [u8]),
    Brotli(&'static [u8]),
}

/// Name, media type, content.
const FILES: [(&str, &str, Packing); 15] = [
    ("style.css", CSS, Packing::Plain(include_bytes!("static/style.css"))),
    ("dark.css", CSS, Packing::Plain(include_bytes!("static/dark.css"))),
    ("docs.css", CSS, Packing::Plain(include_bytes!("static/docs.css"))),
    ("docs.js", SCRIPT, Packing::Plain(include_bytes!("static/docs.js"))),
    ("age.js", SCRIPT, Packing::Plain(include_bytes!("static/age.js"))),
    ("copy.js", SCRIPT, Packing::Plain(include_bytes!("static/copy.js"))),
    ("map.js", SCRIPT, Packing::Plain(include_bytes!("static/map.js"))),
    ("explore.js", SCRIPT, Packing::Plain(include_bytes!("static/explore.js"))),
    ("mark.svg", "image/svg+xml", Packing::Plain(include_bytes!("static/mark.svg"))),
    ("favicon.ico", "image/vnd.microsoft.icon", Packing::Plain(include_bytes!("static/favicon.ico"))),
    ("states.json", "application/json", Packing::Plain(include_bytes!("vendored/states.json"))),
    ("leaflet.css", CSS, Packing::Brotli(include_bytes!("vendored/leaflet.css.br"))),
    ("leaflet.js", SCRIPT, Packing::Brotli(include_bytes!("vendored/leaflet.js.br"))),
    ("swagger-ui.css", CSS, Packing::Brotli(include_bytes!("vendored/swagger-ui.css.br"))),
    ("swagger-ui-bundle.js", SCRIPT, Packing::Brotli(include_bytes!("vendored/swagger-ui-bundle.js.br"))),
];

pub(super) struct Asset {
    /// Its name in this program.
    name: &'static str,
    /// Its public name.
    served: String,
    pub content_type: &'static str,
    stored: Packing,
    /// For clients that accept the stored coding.
    packed: Option<Arc<Rendered>>,
}

pub(super) struct Assets(Vec<Asset>);

impl Assets {
    pub(super) fn new() -> Self {
        Self(FILES.into_iter().map(|(name, content_type, stored)| Asset::new(name, content_type, stored)).collect())
    }

    pub(super) fn link(&self, name: &str) -> String {
        let served = self.0.iter().find(|asset| asset.name == name).map(|asset| asset.served.as_str());
        format!("assets/{}", served.unwrap_or(name))
    }

    pub(super) fn served_as(&self, name: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.served == name)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Asset> {
        self.0.iter().find(|asset| asset.name == name)
    }

    /// A file that is stored in this coding.
    pub(super) fn packed(&self, name: &str, coding: Coding) -> Option<Arc<Rendered>> {
        self.served_as(name)?.packed.clone().filter(|_| coding == Coding::Brotli)
    }
}

impl Asset {
    fn new(name: &'static str, content_type: &'static str, stored: Packing) -> Self {
        let (Packing::Plain(bytes) | Packing::Brotli(bytes)) = stored;
        let hash = ContentHash::of_parts([RENDERER.as_bytes(), bytes]);
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let served = format!("{stem}.{}.{ending}", &hash.to_string()[..10]);
        let kind = kind(content_type, Confinement::None, Lifetime::Immutable);
        let packed =
            matches!(stored, Packing::Brotli(_)).then(|| Arc::new(Rendered::packed(kind, hash, Coding::Brotli, bytes)));
        Self { name, served, content_type, stored, packed }
    }

    /// The file itself. One that cannot be decoded is empty; a test decodes them all.
    pub(super) fn unpacked(&self) -> Bytes {
        match self.stored {
            Packing::Plain(bytes) => Bytes::from_static(bytes),
            Packing::Brotli(packed) => {
                let mut bytes = Vec::with_capacity(packed.len() * 5);
                let decoded = brotli::BrotliDecompress(&mut &*packed, &mut bytes);
                decoded.map(|()| bytes.into()).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that built-in files add, in bytes.
    const MOST: usize = 3 << 19;

    #[test]
    fn every_file_can_be_served_under_its_link() {
        let assets = Assets::new();
        for (name, ..) in FILES {
            let link = assets.link(name);
            let asset = assets.served_as(link.strip_prefix("assets/").unwrap()).unwrap();
            assert_eq!(asset.name, name);
            assert!(asset.unpacked().len() > 100, "{name}");
        }
        assert!(assets.served_as("style.0000000000.css").is_none());
        assert!(assets.served_as("style.css").is_none(), "it would be kept for good");
    }

    #[test]
    fn what_is_built_in_is_small() {
        let bytes = |stored: &Packing| match stored {
            Packing::Plain(bytes) | Packing::Brotli(bytes) => bytes.len(),
        };
        let sum: usize = FILES.iter().map(|(_, _, stored)| bytes(stored)).sum();
        assert!(sum < MOST / 3, "{sum} bytes");
    }

    #[test]
    fn scripts_and_styles_load_nothing_from_elsewhere() {
        for (name, _, stored) in FILES {
            let Packing::Plain(bytes) = stored else { continue };
            let text = String::from_utf8_lossy(bytes);
            for word in ["@import", "eval(", "//# sourceMappingURL", "innerHTML"] {
                assert!(!text.contains(word), "{name} has {word}");
            }
            let addresses = text.matches("http://").count() + text.matches("https://").count();
            assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count(), "{name}");
        }
    }
}
