//! `POST /reload`, and the last reload in `/status`.
//!
//! It reads no configuration and changes nothing itself: [`crate::app`] does. Callers: [`super::Admin`], [`super::status`];
//! [`crate::app`] makes the reports.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::clock::WallTime;

use super::{Reply, error, json_reply};

/// How a reload ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// When it ended.
    pub at: WallTime,
    /// The changed keys that are in effect now.
    pub applied: Vec<String>,
    /// The changed keys that take effect at the next start.
    pub needs_restart: Vec<String>,
    /// Every mistake in the configuration; then nothing has changed. Empty: it was read.
    pub errors: Vec<String>,
}

impl Report {
    fn describe(&self) -> Value {
        json!({
            "at": self.at.rfc3339(),
            "ok": self.errors.is_empty(),
            "applied": self.applied,
            "needs_restart": self.needs_restart,
            "errors": self.errors,
        })
    }
}

/// The last reload; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloads(Arc<ArcSwapOption<Report>>);

impl Reloads {
    /// Records a reload.
    pub(crate) fn record(&self, report: Report) {
        self.0.store(Some(Arc::new(report)));
    }

    /// For `/status`; null before the first reload.
    pub(super) fn describe(&self) -> Value {
        self.0.load().as_ref().map_or(Value::Null, |report| report.describe())
    }
}

/// Reads the configuration again and puts it into effect; it blocks. `None`: this process has none to read.
#[derive(Clone)]
pub(crate) struct Reloader(pub Arc<dyn Fn() -> Option<Report> + Send + Sync>);

impl Reloader {
    /// Reloads, and tells how that ended: 200, or 422 with every mistake.
    pub(super) async fn answer(&self) -> Reply {
        let reload = self.0.clone();
        let report = match tokio::task::spawn_blocking(move || reload()).await {
            Ok(Some(report)) => report,
            Ok(None) => return error(StatusCode::CONFLICT, "this server was started without a configuration to read"),
            Err(gone) => {
                let why = format!("internal error: the task was aborted ({gone})");
                return error(StatusCode::INTERNAL_SERVER_ERROR, &why);
            }
        };
        let mut value = report.describe();
        if report.errors.is_empty() {
            return json_reply(StatusCode::OK, &value);
        }
        if let Value::Object(members) = &mut value {
            members.insert("type".into(), "about:blank".into());
            members.insert("title".into(), "Unprocessable Content".into());
            members.insert("status".into(), StatusCode::UNPROCESSABLE_ENTITY.as_u16().into());
            let mistakes = report.errors.join("; ");
            let detail = format!("the configuration has mistakes, so nothing has changed: {mistakes}");
            members.insert("detail".into(), detail.into());
        }
        let mut reply = json_reply(StatusCode::UNPROCESSABLE_ENTITY, &value);
        let problem = HeaderValue::from_static("application/problem+json");
        reply.headers_mut().insert(http::header::CONTENT_TYPE, problem);
        reply
    }
}
