//! `POST /audit` starts an audit, `GET /audit` shows its progress and its result.
//!
//! An audit takes minutes, because it uses a share of the origin's budget, so no connection waits for it. Callers:
//! [`super::Admin`].

use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Value, json};

use crate::mirror::examiner::report::{Audits, Job};

use super::{Reply, error, json_reply};

const SAMPLES: u64 = 20;

/// Starts an audit, or joins the running one.
pub(super) fn ask(audits: Option<&Audits>, query: Option<&str>) -> Reply {
    let Some(audits) = audits else { return nothing_to_compare(StatusCode::CONFLICT) };
    let Some(samples) = samples(query) else {
        let (least, most) = (Audits::SAMPLES.start(), Audits::SAMPLES.end());
        return error(StatusCode::BAD_REQUEST, &format!("`samples` must be a whole number from {least} to {most}"));
    };
    let (job, new) = audits.ask(samples);
    let value = json!({ "accepted": "audit", "id": job.id, "samples": job.samples, "joined": !new });
    let mut reply = json_reply(StatusCode::ACCEPTED, &value);
    reply.headers_mut().insert(LOCATION, http::HeaderValue::from_static("/audit"));
    reply
}

pub(super) fn show(audits: Option<&Audits>) -> Reply {
    let Some(audits) = audits else { return nothing_to_compare(StatusCode::NOT_FOUND) };
    json_reply(StatusCode::OK, &job_json(&audits.job()))
}

fn nothing_to_compare(status: StatusCode) -> Reply {
    error(status, "there is nothing to compare: an audit needs origin.url and mirror.enabled = true")
}

fn job_json(job: &Job) -> Value {
    let mut value = serde_json::to_value(job).unwrap_or_default();
    value["summary"] = if job.is_running() { Value::Null } else { job.report.summary().into() };
    value
}

/// `samples` of a query; the default where it is absent, `None` if it is invalid.
fn samples(query: Option<&str>) -> Option<u64> {
    let mut pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    match pairs.rfind(|(key, _)| *key == "samples") {
        None => Some(SAMPLES),
        Some((_, text)) => text.parse().ok().filter(|samples| Audits::SAMPLES.contains(samples)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_a_default_and_bounds() {
        for (query, expected) in [
            (None, Some(20)),
            (Some(""), Some(20)),
            (Some("x=1"), Some(20)),
            (Some("samples=1"), Some(1)),
            (Some("samples=1000&x"), Some(1000)),
            (Some("samples=0"), None),
            (Some("samples=1001"), None),
            (Some("samples=-1"), None),
            (Some("samples"), None),
        ] {
            assert_eq!(samples(query), expected, "{query:?}");
        }
    }
}
