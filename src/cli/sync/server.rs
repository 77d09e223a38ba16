//! `grandstand sync` through a running server: asks it for a full pass, and waits until the copy is complete.
//!
//! When a copy is complete, and what is said of one that is not, is the same as without a server. Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use crate::admin::facts::StatusFacts;
use crate::cli::Failure;
use crate::cli::progress::{Display, Stage, is_settled};
use crate::cli::status::{ask, look};
use crate::config::Secret;
use crate::snapshot::meta::Certificate;
use crate::words::counted;

use super::{MOST_FAILURES, PATIENCE, SyncError, told};

/// Without any progress for this long the details are given up: the server also sends requests for its clients.
const PATIENCE_WITH_DETAILS: Duration = Duration::from_secs(3600);

/// Asks a running server for a full pass and waits until it is done.
pub(super) fn sync(admin: &str, token: Option<&Secret>, json: bool) -> Result<ExitCode, Failure> {
    let facts = || -> Result<StatusFacts, Failure> { Ok(look(admin)?.facts) };
    let before = facts()?.origin.passes;
    ask(Method::POST, &format!("{admin}/sync"), token)?;
    let mut display = Display::new();
    let mut last = (None, Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let facts = facts()?;
        let certificate = newest_certificate(admin, &facts)?;
        let (pass, details) = (facts.origin.pass, facts.details.as_ref());
        let progress = (pass, details.map(|details| (details.mirrored, details.current)), certificate);
        if last.0 != Some(progress) {
            last = (Some(progress), Instant::now());
        }
        match (pass, details) {
            (Some(pass), _) => display.count(0, "pages", pass.done, pass.of),
            (None, Some(details)) => display.count(1, "details", details.current(), details.of),
            (None, None) => {}
        }
        let passed = facts.origin.passes > before;
        let is_whole = details.is_some_and(|details| details.current() == details.of);
        // A server that fetches details on demand never has all of them.
        let on_demand = details.and_then(|details| details.wanted.as_deref()) == Some("on-demand");
        let is_here = passed && (on_demand || is_whole);
        if is_here && certificate.is_some_and(is_settled) {
            display.finish();
            let listings = facts.listings.unwrap_or(0);
            let (mirrored, of) = details.map(|details| (details.mirrored, details.of)).unzip();
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
        // All is here, but not proven. The server tries again later; without a server this is the end, too.
        if facts.origin.failures >= MOST_FAILURES || (is_here && last.1.elapsed() > PATIENCE) {
            display.finish();
            let stage = stage(&facts, certificate).to_string();
            let last = facts.last_error.map_or_else(|| "none".to_owned(), |error| error.message);
            return Err(SyncError::Incomplete { stage, last }.into());
        }
        if last.1.elapsed() > PATIENCE_WITH_DETAILS {
            eprintln!("grandstand: the mirror is incomplete: no progress for an hour; see {admin}/status");
            return Ok(ExitCode::FAILURE);
        }
    }
}

/// The certificate of the newest snapshot; `None`: there is no snapshot. During a rollback `/status` has another one's.
fn newest_certificate(admin: &str, facts: &StatusFacts) -> Result<Option<Certificate>, Failure> {
    let word = match facts.rollback.as_ref().and_then(|rollback| rollback.newest.as_deref()) {
        None => facts.snapshot.as_ref().map(|snapshot| snapshot.certificate.as_str().into()),
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
fn stage(facts: &StatusFacts, certificate: Option<Certificate>) -> Stage {
    let details = facts.details.clone().unwrap_or_default();
    let (current, of) = (details.current(), details.of);
    match certificate {
        Some(certificate) if facts.details.is_some() && current == of && is_settled(certificate) => {
            Stage::Complete { listings: of }
        }
        Some(certificate) => Stage::Details { done: current, of, certificate },
        None => {
            let pass = facts.origin.pass.unwrap_or_default();
            Stage::Listing { done: pass.done, of: pass.of }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(status: Value) -> StatusFacts {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_sync_counts_current_details_where_the_server_tells_them() {
        for (details, expected) in [
            (json!({ "mirrored": 60, "current": 41, "of": 60 }), Some(41)),
            (json!({ "mirrored": 60, "of": 60 }), Some(60)),
            (Value::Null, None),
        ] {
            let facts = facts(json!({ "details": details }));
            assert_eq!(facts.details.map(|details| details.current()), expected, "{details}");
        }
    }

    #[test]
    fn how_far_a_server_is_is_said_as_without_a_server() {
        let status = |current| {
            let details = json!({ "mirrored": 5, "current": current, "of": 6 });
            facts(json!({ "origin": { "pass": { "done": 3, "of": 7 } }, "details": details }))
        };
        for (certificate, current, said) in [
            (None, 5, "3 of 7 pages"),
            (Some(Certificate::Full), 5, "5 of 6 details, certificate full"),
            (Some(Certificate::BestEffort), 6, "6 of 6 details, certificate best-effort"),
            (Some(Certificate::Incremental), 6, "6 listings with details, but not confirmed yet"),
        ] {
            assert_eq!(stage(&status(current), certificate).to_string(), said);
        }
        assert_eq!(stage(&StatusFacts::default(), None).to_string(), "no page has been read");
    }
}
