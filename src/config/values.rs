//! The types of values: how a value is read, written, and described on the reference page.
//!
//! A message is `<the value> is not <what is expected>`. Addresses are in [`super::address`] and
//! [`super::object_store`], secrets in [`super::secret`]. Callers: [`super::keys`].

use std::fmt::Display;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, Method};

use crate::protocol::caching::{Allowed, is_never_onward};
use crate::words::grouped;

use super::declaration::{About, DeclaresKeys, written};
use super::reader::KeyReader;
use super::sources::{Node, Raw};
use super::units::{duration_text, parse_duration, parse_size, size_text};

/// The values that a key takes, as a `T`.
pub(super) struct Values<T> {
    pub form: ValueForm,
    /// Reads the value of the key with this path. `None`: it is wrong, which has been reported.
    pub read: Read<T>,
    pub write: Box<dyn Fn(&T) -> Written>,
}

type Read<T> = Box<dyn Fn(&mut KeyReader, &str, Node) -> Option<T>>;

/// What is known of values without their type.
#[derive(Default)]
#[cfg_attr(not(test), expect(dead_code, reason = "a test writes the reference page, which shows all of it"))]
pub(super) struct ValueForm {
    /// The words for them, in Markdown.
    pub words: String,
    /// The text in the place of the default that the code has.
    pub default: Option<&'static str>,
    pub is_required: bool,
    /// Whether the value is the path of a file to read.
    pub is_file: bool,
    /// The keys of the tables that the value holds.
    pub inner: Vec<About>,
}

/// A value as `check` shows it.
pub(super) enum Written {
    Value(toml::Value),
    /// What a comment says in its place.
    Comment(String),
    /// The keys of each table of an array.
    Tables(Vec<String>),
    /// There is no such key.
    Nothing,
}

impl<T: 'static> Values<T> {
    pub(super) fn new(
        words: impl Into<String>,
        read: impl Fn(&mut KeyReader, &str, Node) -> Option<T> + 'static,
        write: impl Fn(&T) -> Written + 'static,
    ) -> Self {
        let form = ValueForm { words: words.into(), ..ValueForm::default() };
        Self { form, read: Box::new(read), write: Box::new(write) }
    }

    /// Values that are one node, read by `parse` and written back by `to_toml`.
    pub(super) fn single<V: Into<toml::Value>>(
        words: impl Into<String>,
        parse: impl Fn(&Node) -> Result<T, String> + 'static,
        to_toml: impl Fn(&T) -> V + 'static,
    ) -> Self {
        let read = move |reader: &mut KeyReader, path: &str, node: Node| reader.parsed(path, &node, &parse);
        Self::new(words, read, move |value| Written::Value(to_toml(value).into()))
    }

    /// Values that are one text; `parse` takes the right ones, of which `what` says what they are.
    pub(super) fn text(
        words: impl Into<String>,
        what: impl Into<String>,
        parse: impl Fn(&str) -> Option<T> + 'static,
        to_text: impl Fn(&T) -> String + 'static,
    ) -> Self {
        let what = what.into();
        let parse = move |node: &Node| node.as_text().and_then(&parse).map_or_else(|| expected(node, &what), Ok);
        Self::single(words, parse, to_text)
    }

    /// The same or nothing; `absent` is the comment in its place.
    pub(super) fn or_none(self, absent: &'static str) -> Values<Option<T>> {
        let Self { form, read, write } = self;
        Values {
            form,
            read: Box::new(move |reader, path, node| read(reader, path, node).map(Some)),
            write: Box::new(move |value| value.as_ref().map_or_else(|| Written::Comment(absent.to_owned()), &write)),
        }
    }

    /// A list of these, or one alone. `example` is one element as TOML, for the message.
    pub(super) fn list(self, words: &'static str, example: &'static str) -> Values<Vec<T>> {
        let (read, write) = (self.read, self.write);
        let read_list = move |reader: &mut KeyReader, path: &str, node: Node| {
            if node.as_text().is_some() {
                return read(reader, path, node).map(|value| vec![value]);
            }
            let Raw::Array(items) = node.value else {
                reader.fail(path, format!("{} is not a list such as [{example}]", node.shown()));
                return None;
            };
            let indexed = items.into_iter().enumerate();
            Some(indexed.filter_map(|(index, item)| read(reader, &format!("{path}[{index}]"), item)).collect())
        };
        let write_list = move |values: &Vec<T>| {
            let items = values.iter().map(&write);
            let values = items.filter_map(|item| if let Written::Value(value) = item { Some(value) } else { None });
            Written::Value(toml::Value::Array(values.collect()))
        };
        Values::new(words, read_list, write_list)
    }

    pub(super) fn required(self) -> Self {
        Self { form: ValueForm { is_required: true, ..self.form }, ..self }
    }

    /// With another text for the default on the reference page.
    pub(super) fn default_is(self, text: &'static str) -> Self {
        Self { form: ValueForm { default: Some(text), ..self.form }, ..self }
    }
}

/// `<value> is not <expected>`.
pub(super) fn expected<T>(node: &Node, expected: &str) -> Result<T, String> {
    Err(format!("{} is not {expected}", node.shown()))
}

pub(super) fn tables<T: DeclaresKeys>() -> Values<Vec<T>> {
    let read = |reader: &mut KeyReader, path: &str, node: Node| {
        let Raw::Array(items) = node.value else {
            reader.fail(path, format!("{} is not an array of tables: write [[{path}]]", node.shown()));
            return None;
        };
        let mut kept = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let path = format!("{path}[{index}]");
            reader.places.insert(path.clone(), Some(item.source.clone()));
            let (mut element, failed) = (T::default(), reader.errors.len());
            match item.into_table() {
                Ok(table) => reader.read(&path, table, &T::own_declarations(), &mut element),
                Err(shown) => reader.fail(&path, format!("{shown} is not a table")),
            }
            if reader.errors.len() == failed {
                kept.push(element);
            }
        }
        Some(kept)
    };
    let write = |tables: &Vec<T>| {
        let keys = T::own_declarations();
        Written::Tables(tables.iter().map(|table| written(table, &keys)).collect())
    };
    let inner = T::own_declarations().into_iter().map(|key| key.about).collect();
    Values { form: ValueForm { inner, ..ValueForm::default() }, ..Values::new("", read, write) }
}

pub(super) fn boolean() -> Values<bool> {
    let parse = |node: &Node| match node.value {
        Raw::Boolean(flag) => Ok(flag),
        _ => expected(node, "true or false"),
    };
    Values::single("`true` or `false`", parse, |flag| *flag)
}

pub(super) fn whole<N>(what: &'static str, bounds: RangeInclusive<N>) -> Values<N>
where
    N: TryFrom<i128> + PartialOrd + Copy + Display + Into<u64> + Into<toml::Value> + 'static,
{
    let words = format!("whole number, {} to {}", bounds.start(), grouped((*bounds.end()).into()));
    let parse = move |node: &Node| {
        let number = if let Raw::Integer(number) = node.value { N::try_from(number).ok() } else { None };
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(number),
            None => expected(node, &format!("a whole number of {what} from {} to {}", bounds.start(), bounds.end())),
        }
    };
    Values::single(words, parse, |number| *number)
}

/// Requests per minute; 0 is `None`: no limit.
pub(super) fn rate(zero_means: &'static str) -> Values<Option<NonZeroU32>> {
    const MAX: u32 = 1_000_000_000;
    let parse = move |node: &Node| match node.value {
        Raw::Integer(number) if (0..=i128::from(MAX)).contains(&number) => {
            Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
        }
        Raw::Integer(_) => expected(node, &format!("a whole number of requests from 0 to {MAX} (0: {zero_means})")),
        _ => expected(node, &format!("a whole number of requests (0: {zero_means})")),
    };
    let words = format!("whole number, 0 to {}", grouped(MAX.into()));
    Values::single(words, parse, |rate| rate.map_or(0, NonZeroU32::get))
}

pub(super) fn share() -> Values<f64> {
    let parse = |node: &Node| {
        let share = match node.value {
            Raw::Float(share) => share,
            Raw::Integer(0) => 0.0,
            Raw::Integer(1) => 1.0,
            _ => f64::NAN,
        };
        if (0.0..=1.0).contains(&share) { Ok(share.abs()) } else { expected(node, "a share from 0 to 1, such as 0.2") }
    };
    Values::single("number, 0 to 1", parse, |share| *share)
}

pub(super) fn duration(bounds: RangeInclusive<Duration>) -> Values<Duration> {
    let ends = [*bounds.start(), *bounds.end()].map(duration_text).join(" to ");
    let words = format!("duration, {ends}");
    let parse = move |node: &Node| {
        let duration = match node.value {
            // The only number without a unit.
            Raw::Integer(0) => Some(Duration::ZERO),
            Raw::String => parse_duration(&node.text),
            _ => None,
        };
        match duration.filter(|duration| bounds.contains(duration)) {
            Some(duration) => Ok(duration),
            None => {
                expected(node, &format!("a duration from {ends}, such as \"10s\" or \"1h30m\" (units: d, h, m, s, ms)"))
            }
        }
    };
    Values::single(words, parse, |duration| duration_text(*duration))
}

/// A number of bytes: a whole number, or one with a unit.
pub(super) fn size(bounds: RangeInclusive<u64>) -> Values<u64> {
    let ends = [*bounds.start(), *bounds.end()].map(size_text).join(" to ");
    let words = format!("size, {ends}");
    let parse = move |node: &Node| {
        let size = match node.value {
            Raw::Integer(bytes) => u64::try_from(bytes).ok(),
            Raw::String => parse_size(&node.text),
            _ => None,
        };
        match size.filter(|size| bounds.contains(size)) {
            Some(size) => Ok(size),
            None => expected(
                node,
                &format!("a size from {ends}, such as \"32MiB\" or \"10MB\" (units: B, kB, MB, GB, TB, KiB, MiB, GiB)"),
            ),
        }
    };
    Values::single(words, parse, |bytes| size_text(*bytes))
}

pub(super) fn word<T: Copy + 'static, const N: usize>(all: [T; N], word: fn(T) -> &'static str) -> Values<T> {
    let quoted = |mark: &str| all.map(|value| format!("{mark}\"{}\"{mark}", word(value)));
    let listed = quoted("").join(", ");
    let words = match &quoted("`")[..] {
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    };
    let parse = move |text: &str| all.into_iter().find(|value| word(*value) == text);
    Values::text(words, format!("one of {listed}"), parse, move |value| word(*value).to_owned())
}

pub(super) fn path(words: &'static str) -> Values<PathBuf> {
    let parse = |text: &str| (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text));
    Values::text(words, "a path", parse, |path| path.to_string_lossy().into_owned())
}

/// The path of a file that `check` opens.
pub(super) fn file(words: &'static str) -> Values<PathBuf> {
    let path = path(words);
    Values { form: ValueForm { is_file: true, ..path.form }, ..path }
}

const HEADER_NAME: &str = "the name of a header, such as \"x-forwarded-for\"";

/// The name of a header; case does not matter.
pub(super) fn header() -> Values<HeaderName> {
    Values::text("header name", HEADER_NAME, |text| text.parse().ok(), HeaderName::to_string)
}

/// Headers that may reach the origin; `"*"` stands for all.
pub(super) fn request_headers() -> Values<Allowed> {
    const ALL: &str = "*";
    let parse = |node: &Node| {
        if node.as_text() == Some(ALL) {
            return Ok(None);
        }
        match node.as_text().and_then(|text| text.parse().ok()) {
            None => expected(node, HEADER_NAME),
            Some(name) if is_never_onward(&name) => expected(
                node,
                "a header that may be forwarded (Host, Forwarded, X-Forwarded-* ... never are; Via always is)",
            ),
            Some(name) => Ok(Some(name)),
        }
    };
    let to_toml = |name: &Option<HeaderName>| name.as_ref().map_or_else(|| ALL.to_owned(), capitalised);
    let names = Values::single("header name", parse, to_toml).list("list of header names", "\"Accept\"");
    let (words, read, write) = (names.form.words, names.read, names.write);
    let read = move |reader: &mut KeyReader, path: &str, node: Node| {
        let names = read(reader, path, node)?.into_iter().collect::<Option<Vec<_>>>();
        Some(names.map_or(Allowed::All, Allowed::Only))
    };
    Values::new(words, read, move |allowed| match allowed {
        Allowed::All => write(&vec![None]),
        Allowed::Only(names) => write(&names.iter().cloned().map(Some).collect()),
    })
}

/// A name in its usual spelling: `Accept-Language`.
fn capitalised(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect::<Vec<_>>().join("-")
}

/// A text that can be sent as the value of a header: visible ASCII and inner spaces, 1 to 200 characters.
pub(super) fn header_text() -> Values<String> {
    let parse = |text: &str| {
        let is_visible = text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && text.trim() == text;
        ((1..=200).contains(&text.len()) && is_visible).then(|| text.to_owned())
    };
    Values::text("header value", "1 to 200 visible ASCII characters", parse, String::clone)
}

/// A request method that may be forwarded; methods are case-sensitive (RFC 9110 §9.1).
pub(super) fn method() -> Values<Method> {
    const WHAT: &str = "a request method such as \"GET\"";
    let parse = |node: &Node| {
        let Some(method) = node.as_text().and_then(|text| Method::from_bytes(text.as_bytes()).ok()) else {
            return expected(node, WHAT);
        };
        let capitals = method.as_str().to_ascii_uppercase();
        if method == Method::CONNECT || method == Method::TRACE {
            return expected(node, "a method that can be forwarded (CONNECT and TRACE never are)");
        }
        if capitals != method.as_str() {
            return expected(node, &format!("{WHAT}: methods are case-sensitive, write {capitals:?}"));
        }
        Ok(method)
    };
    Values::single("method", parse, Method::to_string)
}

/// A prefix of request paths, as written in a request.
pub(super) fn path_prefix() -> Values<String> {
    const WHAT: &str = "a path prefix that begins with \"/\", such as \"/api/\" (no query, no empty or dot segments)";
    let parse = |text: &str| {
        let is_plain = text.starts_with('/')
            && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'\\'))
            && !text.contains("//")
            && !text.split('/').any(|segment| matches!(segment, "." | ".."));
        is_plain.then(|| text.to_owned())
    };
    Values::text("path prefix", WHAT, parse, String::clone)
}

pub(super) fn trusted_key() -> Values<String> {
    const WHAT: &str =
        "a minisign public key: 56 characters of base64 that begin with RW (the second line of the .pub file)";
    let parse = |text: &str| {
        let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        let is_key = text.len() == 56 && text.starts_with("RW") && text.bytes().all(base64);
        is_key.then(|| text.to_owned())
    };
    Values::text("minisign public key", WHAT, parse, String::clone)
}
