//! Query of `GET /bundle`: a bundle, or a dump.
//!
//! Callers: [`super`].

use percent_encoding::percent_decode_str;

use super::Failed;
use crate::api::route::DumpKind;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bundle {
        /// The base of a delta; `None`: a full bundle.
        since: Option<String>,
        /// Whether every detail must be in it.
        complete: bool,
    },
    Dump(DumpKind),
}

pub(super) fn wanted(query: Option<&str>) -> Result<Wanted, Failed> {
    let (mut since, mut format, mut complete) = (None, None, false);
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("since", id)) if !id.is_empty() && since.is_none() => {
                since = Some(percent_decode_str(id).decode_utf8_lossy().into_owned());
            }
            Some(("format", name)) if format.is_none() => {
                let unknown = || Failed::Query(format!("{name:?} is not a format: {}", names()));
                format = Some(if name == "bundle" { None } else { Some(DumpKind::of_name(name).ok_or_else(unknown)?) });
            }
            Some(("complete", "true")) if !complete => complete = true,
            _ => {
                let why =
                    format!("{pair:?} is not understood: there are `since`, `format` and `complete=true`, each once");
                return Err(Failed::Query(why));
            }
        }
    }
    match format.flatten() {
        Some(_) if since.is_some() || complete => {
            Err(Failed::Query("`since` and `complete` are for bundles: a dump has the whole snapshot".to_owned()))
        }
        Some(kind) => Ok(Wanted::Dump(kind)),
        None => Ok(Wanted::Bundle { since, complete }),
    }
}

fn names() -> String {
    let names: Vec<&str> = std::iter::once("bundle").chain(DumpKind::ALL.map(DumpKind::as_str)).collect();
    format!("there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_base_or_a_format_or_nothing() {
        let bundle = |since: Option<&str>| Wanted::Bundle { since: since.map(str::to_owned), complete: false };
        for (query, expected) in [
            (None, bundle(None)),
            (Some(""), bundle(None)),
            (Some("since=a%62"), bundle(Some("ab"))),
            (Some("format=bundle&since=ab"), bundle(Some("ab"))),
            (Some("complete=true"), Wanted::Bundle { since: None, complete: true }),
            (Some("format=csv"), Wanted::Dump(DumpKind::Csv)),
            (Some("format=details-ndjson"), Wanted::Dump(DumpKind::Details)),
        ] {
            assert_eq!(wanted(query).unwrap(), expected, "{query:?}");
        }
        for wrong in [
            "since=",
            "since",
            "sinc=ab",
            "since=a&since=b",
            "since=a&x=1",
            "format=",
            "format=xml",
            "format=csv&format=csv",
            "format=csv&since=ab",
            "format=csv&complete=true",
            "complete=yes",
        ] {
            assert!(wanted(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
