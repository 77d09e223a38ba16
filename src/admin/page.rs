//! A page for operators: `/status` as a table.
//!
//! Static HTML, no script, no outside resource. Callers: [`super::Admin`].

use std::fmt::Write as _;

use serde_json::Value;

use super::status::Status;

/// The page.
pub(crate) fn render(status: &Status) -> String {
    let (healthy, value) = status.describe();
    let mut rows = String::new();
    flatten(&mut rows, "", &value);
    let word = if healthy { "healthy" } else { "unhealthy" };
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>grandstand: {word}</title><style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;\
         padding:0 1rem;color:#1b1f24;background:#fff}}h1 span{{padding:.1em .5em;border-radius:.3em;color:#fff;\
         background:{}}}table{{border-collapse:collapse;width:100%}}td{{border-top:1px solid #d5d9de;padding:.25em .5em;\
         vertical-align:top;overflow-wrap:anywhere}}td:first-child{{white-space:nowrap;color:#57606a}}</style>\
         <h1>grandstand <span>{word}</span></h1><table>{rows}</table>\
         <p><a href=\"/status\">/status</a> · <a href=\"/metrics\">/metrics</a> · <a href=\"/readyz\">/readyz</a></p></html>\n",
        if healthy { "#1a7f37" } else { "#cf222e" }
    )
}

fn flatten(rows: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(rows, &name, value);
            }
        }
        Value::Null => {}
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            row(rows, name, &words.join("; "));
        }
        Value::String(text) => row(rows, name, text),
        other => row(rows, name, &other.to_string()),
    }
}

fn row(rows: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = write!(rows, "<tr><td>{}</td><td>{}</td></tr>", escape(name), escape(value));
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
