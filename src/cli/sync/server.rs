//! `grandstand sync` through a running server: asks it for a full pass, and waits until the copy is complete.
//!
//! When a copy is complete, and what is said of one that is not, is the same as without a server. Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::progress::{Display, Stage, is_settled};
use crate::cli::status::ask;
use crate::config::Secret;
use crate::snapshot::meta::Certificate;
use crate::words::counted;

use super::{MOST_FAILURES, PATIENCE, SyncError, told};

/// Without any progress for this long the details are given up: the server also sends requests for its clients.
const PATIENCE_WITH_DETAILS: Duration = Duration::from_secs(3600);

/// Asks a running server for a full pass and waits until it is done.
pub(super) fn sync(admin: &str, token: Option<&Secret>, json: bool) -> Result<ExitCode, Failure> {
    let look = || -> Result<Value, Failure> {
        let (_, text) = ask(Method::GET, &format!("{admin}/status"), None)?;
        Ok(serde_json::from_str(&text)?)
    };
    let before = number(&look()?, "/origin/passes");
    ask(Method::POST, &format!("{admin}/sync"), token)?;
    let mut display = Display::new();
    let mut last = (Value::Null, Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let value = look()?;
        let certificate = newest_certificate(admin, &value)?;
        let progress = json!([
            value.pointer("/origin/pass"),
            value.pointer("/details/mirrored"),
            value.pointer("/details/current"),
            certificate
        ]);
        if progress != last.0 {
            last = (progress, Instant::now());
        }
        let (mirrored, of) = (number(&value, "/details/mirrored"), number(&value, "/details/of"));
        let current = current_details(&value);
        match (number(&value, "/origin/pass/done"), number(&value, "/origin/pass/of"), current, of) {
            (Some(done), Some(of), _, _) => display.count(0, "pages", done, of),
            (_, None, Some(done), Some(of)) => display.count(1, "details", done, of),
            _ => {}
        }
        let passed = number(&value, "/origin/passes") > before;
        let is_whole = of.is_some() && current == of;
        // A server that fetches details on demand never has all of them.
        let on_demand = value.pointer("/details/wanted").and_then(Value::as_str) == Some("on-demand");
        let is_here = passed && (on_demand || is_whole);
        if is_here && certificate.is_some_and(is_settled) {
            display.finish();
            let listings = number(&value, "/listings").unwrap_or(0);
            if json {
                println!("{}", told(listings, mirrored, of));
            } else if on_demand {
                println!(
                    "complete: {}; details are fetched on demand, {} of {} are stored",
                    counted(listings, "listing"),
                    mirrored.unwrap_or(0),
                    of.unwrap_or(0)
                );
            } else {
                println!("complete: {} with details", counted(listings, "listing"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let fails = number(&value, "/origin/failures").is_some_and(|failures| failures >= u64::from(MOST_FAILURES));
        // All is here, but not proven. The server tries again later; without a server this is the end, too.
        if fails || (is_here && last.1.elapsed() > PATIENCE) {
            display.finish();
            let stage = stage(&value, certificate, is_whole).to_string();
            let last = value.pointer("/last_error/message").and_then(Value::as_str).unwrap_or("none").to_owned();
            return Err(SyncError::Incomplete { stage, last }.into());
        }
        if last.1.elapsed() > PATIENCE_WITH_DETAILS {
            eprintln!("grandstand: the mirror is incomplete: no progress for an hour; see {admin}/status");
            return Ok(ExitCode::FAILURE);
        }
    }
}

fn number(status: &Value, pointer: &str) -> Option<u64> {
    status.pointer(pointer).and_then(Value::as_u64)
}

/// How many details are as new as their summaries. An older server says only how many are mirrored.
fn current_details(status: &Value) -> Option<u64> {
    number(status, "/details/current").or_else(|| number(status, "/details/mirrored"))
}

/// The certificate of the newest snapshot; `None`: there is no snapshot. During a rollback `/status` has another one's.
fn newest_certificate(admin: &str, status: &Value) -> Result<Option<Certificate>, Failure> {
    let word = match status.pointer("/rollback/newest").and_then(Value::as_str) {
        None => status.pointer("/snapshot/certificate").cloned(),
        Some(newest) => {
            let (_, text) = ask(Method::GET, &format!("{admin}/snapshots"), None)?;
            let list: Value = serde_json::from_str(&text)?;
            let mut kept = list["snapshots"].as_array().into_iter().flatten();
            kept.find(|one| one["id"] == newest).map(|one| one["certificate"].clone())
        }
    };
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}

/// How far the server is.
fn stage(status: &Value, certificate: Option<Certificate>, is_whole: bool) -> Stage {
    let count = |pointer| number(status, pointer).unwrap_or(0);
    let of = count("/details/of");
    match certificate {
        Some(certificate) if is_whole && is_settled(certificate) => Stage::Complete { listings: of },
        Some(certificate) => Stage::Details { done: current_details(status).unwrap_or(0), of, certificate },
        None => Stage::Listing { done: count("/origin/pass/done"), of: count("/origin/pass/of") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_current_details_where_the_server_tells_them() {
        for (details, expected) in [
            (json!({ "mirrored": 60, "current": 41, "of": 60 }), Some(41)),
            (json!({ "mirrored": 60, "of": 60 }), Some(60)),
            (Value::Null, None),
        ] {
            assert_eq!(current_details(&json!({ "details": details })), expected, "{details}");
        }
    }

    #[test]
    fn how_far_a_server_is_is_said_as_without_a_server() {
        let status = json!({ "origin": { "pass": { "done": 3, "of": 7 } }, "details": { "mirrored": 5, "of": 6 } });
        for (certificate, is_whole, said) in [
            (None, false, "3 of 7 pages"),
            (Some(Certificate::Full), false, "5 of 6 details, certificate full"),
            (Some(Certificate::BestEffort), true, "5 of 6 details, certificate best-effort"),
            (Some(Certificate::Incremental), true, "6 listings with details, but not confirmed yet"),
        ] {
            assert_eq!(stage(&status, certificate, is_whole).to_string(), said);
        }
        assert_eq!(stage(&json!({}), None, false).to_string(), "no page has been read");
    }
}
