//! The declaration of a configuration key, which everything that knows keys reads: the reader of the sources with its
//! suggestions, `check`, reload, the completions of `--set`, the reference page and the tests.
//!
//! Not the keys ([`super::keys`]) and not the types of their values ([`super::values`]). Callers: `config`.

use super::reader::KeyReader;
use super::sources::Node;
use super::values::{ValueForm, Values, Written};
use super::{Config, Use};

/// A key of `C`, the whole configuration or an element of `[[rate_limit.override]]`.
pub(super) struct Declaration<C> {
    pub about: About,
    pub read: Read<C>,
    pub write: Box<dyn Fn(&C) -> Written>,
    /// Takes the value of the second configuration over into the first.
    pub adopt: Adopt<C>,
    pub differs: Differs<C>,
}

type Read<C> = Box<dyn Fn(&mut KeyReader, &str, Node, &mut C)>;
type Adopt<C> = Box<dyn Fn(&mut C, &C)>;
type Differs<C> = Box<dyn Fn(&C, &C) -> bool>;

#[cfg_attr(not(test), expect(dead_code, reason = "a test writes the reference page, which shows all of it"))]
pub(super) struct About {
    /// The table of the key; empty: the top level.
    pub section: &'static str,
    /// The lines about that table.
    pub section_text: &'static [&'static str],
    pub name: &'static str,
    /// The lines about the key, in Markdown.
    pub text: &'static [&'static str],
    pub values: ValueForm,
    pub uses: &'static [Use],
    pub reload: Reload,
}

#[derive(Clone, Copy)]
pub(super) enum Reload {
    Live,
    Restart,
    /// At a reload if this is true for the configuration in effect and the new one.
    If(fn(&Config, &Config) -> bool),
}

impl About {
    pub(super) fn path(&self) -> String {
        if self.section.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.section, self.name) }
    }
}

impl<C> Declaration<C> {
    /// A key from its row in [`super::keys`]. `get` and `get_mut`: its place; `None`: its optional table is absent.
    pub(super) fn new<T: Clone + PartialEq + 'static>(
        (section, section_text): (&'static str, &'static [&'static str]),
        (name, text): (&'static str, &'static [&'static str]),
        values: Values<T>,
        (uses, reload): (&'static [Use], Reload),
        get: impl Fn(&C) -> Option<&T> + Copy + 'static,
        get_mut: impl Fn(&mut C) -> Option<&mut T> + Copy + 'static,
    ) -> Self {
        let Values { form, read, write } = values;
        Self {
            about: About { section, section_text, name, text, values: form, uses, reload },
            read: Box::new(move |reader, path, node, to| {
                if let (Some(value), Some(place)) = (read(reader, path, node), get_mut(to)) {
                    *place = value;
                }
            }),
            write: Box::new(move |of| get(of).map_or(Written::Nothing, &write)),
            adopt: Box::new(move |to, from| {
                if let (Some(place), Some(value)) = (get_mut(to), get(from)) {
                    place.clone_from(value);
                }
            }),
            differs: Box::new(move |one, other| get(one) != get(other)),
        }
    }
}

/// A struct whose fields are declared as keys.
pub(super) trait DeclaresKeys: Default + 'static {
    /// Its keys, as keys of `C`, which has this struct as the table `section` (empty: it is that table).
    fn declarations<C: 'static>(
        section: &'static str,
        get: impl Fn(&C) -> Option<&Self> + Copy + 'static,
        get_mut: impl Fn(&mut C) -> Option<&mut Self> + Copy + 'static,
    ) -> Vec<Declaration<C>>;

    fn own_declarations() -> Vec<Declaration<Self>> {
        Self::declarations("", |of| Some(of), |of| Some(of))
    }
}

impl<S: DeclaresKeys> DeclaresKeys for Option<S> {
    fn declarations<C: 'static>(
        section: &'static str,
        get: impl Fn(&C) -> Option<&Self> + Copy + 'static,
        get_mut: impl Fn(&mut C) -> Option<&mut Self> + Copy + 'static,
    ) -> Vec<Declaration<C>> {
        S::declarations(section, move |of| get(of)?.as_ref(), move |of| get_mut(of)?.as_mut())
    }
}

/// TOML that loads again; secrets become comments.
pub(super) fn written<C>(of: &C, keys: &[Declaration<C>]) -> String {
    let (mut lines, mut section) = (Vec::new(), "");
    for Declaration { about, write, .. } in keys {
        let written = match write(of) {
            Written::Value(value) => vec![format!("{} = {value}\n", about.name)],
            Written::Comment(why) => vec![format!("# {}: {why}\n", about.name)],
            Written::Tables(tables) => tables.iter().map(|table| format!("[[{}]]\n{table}", about.path())).collect(),
            Written::Nothing => continue,
        };
        if section != about.section {
            section = about.section;
            lines.push(format!("\n[{section}]\n"));
        }
        lines.extend(written);
    }
    lines.concat()
}

/// Declares a table of keys: the struct, its defaults and its declarations. The text of a row is the documentation of
/// the field and the description on the reference page. A row is:
///
/// ```text
/// "name in the file, if it is another one" field: Type = default, values, uses, reload;
/// ```
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        $(#[derive($derive:ident)])?
        pub struct $Section:ident {
            $(
                $(#[doc = $text:literal])+
                $($name:literal)? $field:ident: $Type:ty = $default:expr, $values:expr, $uses:expr, $reload:expr;
            )+
            $(tables { $([$table:ident] $part:ident: $Part:ty;)+ })?
            $(derived { $($(#[doc = $note:literal])+ $derived:ident: $Derived:ty = $own:expr;)+ })?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq $(, $derive)?)]
        pub struct $Section {
            $($(#[doc = $text])+ pub $field: $Type,)+
            $($(#[doc = concat!("`[", stringify!($table), "]`")] pub $part: $Part,)+)?
            $($($(#[doc = $note])+ pub $derived: $Derived,)+)?
        }

        impl Default for $Section {
            fn default() -> Self {
                Self {
                    $($field: $default,)+
                    $($($part: Default::default(),)+)?
                    $($($derived: $own,)+)?
                }
            }
        }

        impl DeclaresKeys for $Section {
            fn declarations<C: 'static>(
                section: &'static str,
                get: impl Fn(&C) -> Option<&Self> + Copy + 'static,
                get_mut: impl Fn(&mut C) -> Option<&mut Self> + Copy + 'static,
            ) -> Vec<Declaration<C>> {
                const ABOUT: &[&str] = &[$($about),+];
                let keys = vec![$(Declaration::new(
                    (section, ABOUT),
                    ([$($name,)? stringify!($field)][0], &[$($text),+]),
                    $values,
                    ($uses, $reload),
                    move |of| get(of).map(|of| &of.$field),
                    move |of| get_mut(of).map(|of| &mut of.$field),
                )),+];
                $($(let keys = keys.into_iter().chain(<$Part>::declarations(
                    stringify!($table),
                    move |of| get(of).map(|of| &of.$part),
                    move |of| get_mut(of).map(|of| &mut of.$part),
                )).collect::<Vec<_>>();)+)?
                keys
            }
        }
    };
}
pub(super) use keys;
