//! Length bounds of a page for texts of the data: long texts are cut, and what does not fit is left out.
//!
//! An origin may send names and lists without end. All of it is in the JSON. Callers: the pages.

use std::borrow::Cow;
use std::cell::Cell;

use crate::protocol::excerpt;

/// A longer text is cut, in bytes; and one in a list, so that a page of a list has all of its venues.
pub(super) const MOST_OF_A_TEXT: usize = 4_000;
const MOST_IN_A_LIST: usize = 200;

/// So many bytes of a page are for the data. The rest of a mebibyte is for the dots of the map, links and the layout.
const MOST_OF_A_PAGE: usize = 448 << 10;

/// What is left for the data on a page.
pub(super) struct PageRoom {
    left: Cell<usize>,
    is_short: Cell<bool>,
}

impl Default for PageRoom {
    fn default() -> Self {
        Self { left: Cell::new(MOST_OF_A_PAGE), is_short: Cell::default() }
    }
}

impl PageRoom {
    /// Whether there is room for so many bytes, which are taken.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        left.map_or_else(|| self.leave_out(), |left| self.left.set(left));
        left.is_some()
    }

    pub(super) fn leave_out(&self) {
        self.is_short.set(true);
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_short.get()
    }

    /// [`takes`](Self::takes) what a whole text needs.
    pub(super) fn fits(&self, text: &str) -> bool {
        self.takes(size(text))
    }

    /// A text, or its start and `…`.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start(text, MOST_OF_A_TEXT)
    }

    /// A text in a list, or its start and `…`.
    pub(super) fn short<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.start(text, MOST_IN_A_LIST)
    }

    fn start<'t>(&self, text: &'t str, most: usize) -> Cow<'t, str> {
        const REST: &str = "…";
        let shown = match excerpt::start(text, most) {
            whole if whole.len() == text.len() => Cow::Borrowed(text),
            _ => Cow::Owned(excerpt::start(text, most - REST.len()).to_owned() + REST),
        };
        if self.fits(&shown) { shown } else { REST.into() }
    }
}

/// The most bytes that a text takes in HTML or in a JSON text there: `&quot;`, `\u003c`, `\u2028`.
fn size(text: &str) -> usize {
    let size = |byte: u8| match byte {
        0..0x20 | 0x7f | b'"' | b'&' | b'<' | b'>' | b'\\' => 6,
        0x80.. => 2,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

/// Whether HTML forbids a character (HTML §13.2.3.5).
fn is_forbidden(letter: char) -> bool {
    let is_space = matches!(letter, '\t' | '\n' | '\u{c}' | '\r');
    letter.is_control() && !is_space
        || matches!(letter, '\u{fdd0}'..='\u{fdef}')
        || u32::from(letter) & 0xfffe == 0xfffe
}

/// A page without characters that HTML forbids, whatever its texts have.
pub(super) fn allowed(page: String) -> String {
    if page.contains(is_forbidden) { page.replace(is_forbidden, "\u{fffd}") } else { page }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_what_does_not_fit_is_left_out() {
        let room = PageRoom::default();
        let long = "é".repeat(MOST_OF_A_TEXT);
        assert_eq!(room.text("short"), "short");
        assert!(room.text(&long).len() <= MOST_OF_A_TEXT && room.text(&long).ends_with("é…"));
        assert!(room.short(&long).len() <= MOST_IN_A_LIST && !room.is_short());
        let shown: usize = (0..1000).map(|_| size(&room.text(&long))).sum();
        assert!(shown <= MOST_OF_A_PAGE + 1000 * size("…") && room.is_short(), "{shown}");
    }

    #[test]
    fn a_text_takes_at_most_its_size_in_html_and_in_json() {
        for letter in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let text = letter.to_string();
            let html = allowed(maud::html! { (text) }.into_string());
            let json = serde_json::Value::from(&*text).to_string();
            assert!(size(&text) >= html.len().max(json.len() - 2), "{letter:?}");
        }
    }

    #[test]
    fn a_page_has_no_character_that_html_forbids() {
        assert_eq!(
            allowed("a\0b\u{1b}\u{7f}\u{85}\u{fdd0}\u{ffff}\u{1ffff}c\t\n".to_owned()),
            "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}c\t\n"
        );
        assert_eq!(allowed("São \u{1f3df}".to_owned()), "São \u{1f3df}");
    }
}
