//! Finds the texts of errors in a source file, with sample values.
//!
//! Callers: [`super`].

use std::str::FromStr;

use grandstand::words::counted;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::samples::{is_known, sample};

/// Every text of an `#[error("...")]`, in its order.
pub(super) fn read(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(TokenStream::from_str(source).unwrap(), &mut found);
    found
}

fn walk(stream: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            // `#[..]` and `#![..]`
            [TokenTree::Punct(hash), TokenTree::Group(group), rest @ ..] if hash.as_char() == '#' => {
                at += 2;
                at += attribute(group, rest, found);
            }
            [TokenTree::Punct(hash), TokenTree::Punct(_), TokenTree::Group(_), ..] if hash.as_char() == '#' => at += 3,
            [TokenTree::Group(group), ..] => {
                walk(group.stream(), found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Reads an attribute; how many of the tokens behind it belong to it.
fn attribute(group: &Group, rest: &[TokenTree], found: &mut Vec<String>) -> usize {
    let text = group.stream().to_string().replace(' ', "");
    if text.starts_with("cfg(test)") {
        let ends = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        return rest.iter().position(ends).map_or(rest.len(), |end| end + 1);
    }
    let Some(TokenTree::Group(arguments)) = group.stream().into_iter().nth(1) else { return 0 };
    if text.starts_with("error(") && text != "error(transparent)" {
        found.push(formatted(arguments.stream(), &types(rest)));
    }
    0
}

/// What is known of each field of a tuple variant or struct: its sample, else the name of its type.
fn types(rest: &[TokenTree]) -> Vec<String> {
    let fields = rest.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() != Delimiter::Bracket => Some(group),
        _ => None,
    });
    let Some(fields) = fields.filter(|group| group.delimiter() == Delimiter::Parenthesis) else { return Vec::new() };
    let field = |tokens: Vec<TokenTree>| {
        let names = tokens.iter().filter_map(|token| match token {
            TokenTree::Ident(name) if *name != "pub" && *name != "super" && *name != "crate" && *name != "dyn" => {
                Some(name.to_string())
            }
            _ => None,
        });
        let names: Vec<String> = names.collect();
        names.into_iter().rfind(|name| name != "Box").unwrap_or_default()
    };
    let variant = rest.iter().find_map(|token| match token {
        TokenTree::Ident(name) if !["pub", "enum", "struct"].contains(&name.to_string().as_str()) => Some(name),
        _ => None,
    });
    let variant = variant.map(ToString::to_string).unwrap_or_default();
    let named = |(index, tokens): (usize, Vec<TokenTree>)| {
        let own = format!("{variant}.{index}");
        if is_known(&own) { own } else { field(tokens) }
    };
    split(fields.stream()).into_iter().enumerate().map(named).collect()
}

/// Tokens between commas.
fn split(stream: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    for token in stream {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(Vec::new()),
            token => parts.last_mut().unwrap().push(token),
        }
    }
    parts.retain(|part: &Vec<TokenTree>| !part.is_empty());
    parts
}

/// A format string with its arguments in their places.
fn formatted(stream: TokenStream, types: &[String]) -> String {
    let parts = split(stream);
    let [TokenTree::Literal(format)] = &parts[0][..] else { panic!("an error begins with its text") };
    let (text, mut arguments) = (string(&format.to_string()).unwrap(), Vec::new());
    for part in &parts[1..] {
        let expression: String = part.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let name = match &part[..] {
            [TokenTree::Ident(name), TokenTree::Punct(is), ..] if is.as_char() == '=' => name.to_string(),
            _ => String::new(),
        };
        let mut inner = Vec::new();
        walk_all(part.iter().cloned().collect(), &mut inner);
        inner.retain(|text| text.contains(char::is_alphabetic));
        let field = expression.strip_prefix(". ").and_then(|rest| rest.chars().next()?.to_digit(10));
        let shown = match &inner[..] {
            [] if field.is_some_and(|at| (at as usize) < types.len()) => {
                sample(&types[field.unwrap_or_default() as usize])
            }
            [] if name.is_empty() => sample(&expression),
            [] => sample(&part[2..].iter().map(ToString::to_string).collect::<String>()),
            [.., noun] if expression.starts_with("count") => counted(730, noun),
            [one] if !expression.contains('|') && !expression.contains("if ") => format!("<{one}>"),
            _ => format!("({})", inner.join(" | ")),
        };
        arguments.push((name, shown));
    }
    fill(&text, &arguments, types)
}

/// Every text in an expression, however short.
fn walk_all(stream: TokenStream, texts: &mut Vec<String>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => walk_all(group.stream(), texts),
            TokenTree::Literal(literal) => texts.extend(string(&literal.to_string())),
            _ => {}
        }
    }
}

/// Replaces each `{..}` by its argument.
fn fill(format: &str, arguments: &[(String, String)], types: &[String]) -> String {
    let (mut text, mut next, mut rest) = (String::new(), 0, format);
    while let Some(open) = rest.find(['{', '}']) {
        text.push_str(&rest[..open]);
        rest = &rest[open..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            text.push_str(&rest[..1]);
            rest = &rest[2..];
            continue;
        }
        let Some(close) = rest.find('}') else { break };
        let (name, spec) = rest[1..close].split_once(':').unwrap_or((&rest[1..close], ""));
        let value = if let Ok(index) = name.parse::<usize>() {
            let typed = || types.get(index).map_or_else(|| format!("<{index}>"), |name| sample(name));
            arguments.get(index).map_or_else(typed, |(_, value)| value.clone())
        } else if name.is_empty() {
            next += 1;
            arguments.get(next - 1).map_or_else(|| "<?>".to_owned(), |(_, value)| value.clone())
        } else {
            let named = arguments.iter().find(|(other, _)| other == name);
            named.map_or_else(|| sample(name), |(_, value)| value.clone())
        };
        // Debug forms show quotation marks.
        let shown = if spec.ends_with('?') { format!("{value:?}") } else { value };
        text += &shown;
        rest = &rest[close + 1..];
    }
    text + rest
}

/// The value of a string literal; `None` for other literals.
fn string(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        return Some(raw.trim_matches('#').strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next()? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' => text.push('\0'),
            '\n' => {
                let left = rest.as_str().trim_start();
                rest = left.chars();
            }
            // Control characters do not matter here.
            'x' => rest = rest.as_str().get(2..)?.chars(),
            'u' => {
                let (digits, left) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                rest = left.chars();
            }
            other => text.push(other),
        }
    }
    Some(text)
}
