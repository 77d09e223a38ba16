//! Every fact of `/status` by its name there, as rows of text.
//!
//! Pure. Callers: [`super::gather`].

use serde_json::Value;

/// The most rows; what `/status` has is far less.
const MOST: usize = 400;

/// One row for each value; `null` is a dash, an array of texts one row.
pub(super) fn flat(value: &Value) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    add(&mut rows, "", value);
    rows.truncate(MOST);
    rows
}

fn add(rows: &mut Vec<(String, String)>, name: &str, value: &Value) {
    let under = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    let text = match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| add(rows, &under(key), value));
            return;
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().enumerate().for_each(|(at, item)| add(rows, &under(&at.to_string()), item));
            return;
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        other => plain(other),
    };
    rows.push((name.to_owned(), if text.is_empty() { "–".to_owned() } else { text }));
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_left_out() {
        let value = json!({ "a": { "b": 1, "c": null, "d": {} }, "e": ["x", "y"], "f": [{ "g": true }], "h": [] });
        let rows = flat(&value);
        let rows: Vec<(&str, &str)> = rows.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(rows, [("a.b", "1"), ("a.c", "–"), ("a.d", "–"), ("e", "x; y"), ("f.0.g", "true"), ("h", "–")]);
        assert_eq!(flat(&json!(vec![json!([1]); 1000])).len(), MOST);
    }
}
