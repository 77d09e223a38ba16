//! The listings as points on a map: one `FeatureCollection` (RFC 7946), a feature on each line.
//!
//! A feature's properties are its listing as the origin sent it. A listing has a place if `lat` and `lng` are numbers,
//! or strings that hold one, on this globe; their digits are the origin's. Callers: [`super::write`].

use std::io::Write;

use crate::api::json::{self, Picked};
use crate::snapshot::dataset::Dataset;

use super::DumpError;
use super::write::{Progress, put_line, text};

pub(super) fn write(dataset: &Dataset, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), DumpError> {
    let content = &dataset.content;
    let mut line = br#"{"type":"FeatureCollection","name":"listings""#.to_vec();
    for key in ["license", "attribution"] {
        if let Some(value) = content.envelope.carried(key) {
            line.extend_from_slice(format!(",\"{key}\":").as_bytes());
            put_line(&mut line, value.as_bytes());
        }
    }
    line.extend_from_slice(b",\"features\":[");
    let of = content.summaries.len() as u64;
    for (done, summary) in (1..).zip(&content.summaries) {
        line.extend_from_slice(if done == 1 { b"\n" } else { b",\n" });
        let raw = text(summary)?;
        let why = |source: json::JsonError| DumpError::Summary { id: summary.id, why: source.to_string() };
        let [lat, lng] = json::pick(raw, &["lat", "lng"]).map_err(why)?;
        line.extend_from_slice(format!("{{\"type\":\"Feature\",\"id\":{},\"geometry\":", summary.id).as_bytes());
        match (degrees(lat, 90.0), degrees(lng, 180.0)) {
            // RFC 7946 §3.1.1: longitude first.
            (Some(lat), Some(lng)) => {
                line.extend_from_slice(format!("{{\"type\":\"Point\",\"coordinates\":[{lng},{lat}]}}").as_bytes());
            }
            // RFC 7946 §3.2: a feature without a place.
            _ => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"properties\":");
        put_line(&mut line, raw.as_bytes());
        line.push(b'}');
        out.write_all(&line)?;
        line.clear();
        progress(done, of);
    }
    line.extend_from_slice(b"\n]}\n");
    Ok(out.write_all(&line)?)
}

/// A coordinate as the origin spells it: a number of at most so many degrees.
fn degrees(picked: Picked<'_>, most: f64) -> Option<String> {
    // A repeated key says nothing.
    let Picked::Once(value) = picked else { return None };
    let text = if value.starts_with('"') { json::string(value)?.trim().to_owned() } else { value.to_owned() };
    let number: f64 = serde_json::from_str(&text).ok()?;
    (number.abs() <= most).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinate_is_a_number_on_this_globe_in_the_origins_digits() {
        for (value, most, text) in [
            ("31.50", 90.0, Some("31.50")),
            ("-97.12300000000000000000001", 180.0, Some("-97.12300000000000000000001")),
            ("3.1e1", 90.0, Some("3.1e1")),
            ("0", 90.0, Some("0")),
            (r#""31.5""#, 90.0, Some("31.5")),
            (r#"" 31.5\n""#, 90.0, Some("31.5")),
            ("90", 90.0, Some("90")),
            ("90.1", 90.0, None),
            ("1e999", 180.0, None),
            ("null", 90.0, None),
            ("true", 90.0, None),
            (r#""""#, 90.0, None),
            (r#""N31.5""#, 90.0, None),
            (r#""+31.5""#, 90.0, None),
            (r#""NaN""#, 90.0, None),
            ("[31.5]", 90.0, None),
        ] {
            assert_eq!(degrees(Picked::Once(value), most).as_deref(), text, "{value}");
        }
        assert_eq!(degrees(Picked::Absent, 90.0), None);
        assert_eq!(degrees(Picked::Repeated("1", "2"), 90.0), None);
    }
}
