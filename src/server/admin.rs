//! The admin listener: health, status, metrics, commands. None of it is public.
//!
//! It shows the state of other rooms and passes commands on. Callers: [`crate::server`].

pub(crate) mod audit;
pub(crate) mod bundle;
pub(crate) mod console;
pub(crate) mod eta;
pub(crate) mod facts;
pub(crate) mod front;
pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod history;
pub mod metrics;
mod process;
pub(crate) mod reload;
pub(crate) mod snapshots;
pub(crate) mod socket;
pub(crate) mod status;

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use serde_json::json;

use crate::edge::answer::purge::Purger;
use crate::mirror::commands::Commands;
use crate::protocol::excerpt::Excerpt;

use bundle::Bundles;
use console::Console;
use guard::Refusal;
use reload::Reloader;
use snapshots::Action;
use status::Status;

pub(crate) struct Admin {
    pub status: Arc<Status>,
    /// Commands to the mirror; `None` without one.
    pub commands: Option<Commands>,
    pub bundles: Bundles,
    pub purger: Purger,
    pub reloader: Reloader,
    pub console: Console,
}

type Reply = Response<Vec<u8>>;

const PATHS: &str = "no such path; there are GET / (for people), /livez, /readyz, /status, /history.json, /metrics, /audit, \
                     /snapshots and /bundle, POST /reload, /refresh, /sync, /audit, /snapshots/{id}/rollback, \
                     /snapshots/{id}/pin, /snapshots/{id}/unpin, /snapshots/verify, /snapshots/release, \
                     /snapshots/accept and /bundle, and DELETE /cache";

fn reply(status: StatusCode, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    let body = body.into();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let length = http::HeaderValue::from(response.body().len());
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_LENGTH, length);
    headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    if let Ok(value) = http::HeaderValue::from_str(content_type) {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    response
}

fn json_reply(status: StatusCode, value: &impl serde::Serialize) -> Reply {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    reply(status, "application/json", text)
}

/// A problem document. The detail may quote a bundle or a request, so it is an excerpt.
fn error(status: StatusCode, detail: &str) -> Reply {
    let detail = Excerpt(detail).to_string();
    problem_reply(status, json!({ "title": status.canonical_reason(), "detail": detail }))
}

fn problem_reply(status: StatusCode, mut problem: serde_json::Value) -> Reply {
    problem["type"] = "about:blank".into();
    problem["status"] = status.as_u16().into();
    let mut response = json_reply(status, &problem);
    let media_type = http::HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, media_type);
    response
}

fn not_allowed(allow: &'static str) -> Reply {
    let mut refusal = error(StatusCode::METHOD_NOT_ALLOWED, &format!("method not allowed; allowed: {allow}"));
    refusal.headers_mut().insert(http::header::ALLOW, http::HeaderValue::from_static(allow));
    refusal
}

/// The methods of a path, for `Allow`; `None`: unknown path.
fn methods(path: &str) -> Option<&'static str> {
    match path {
        "/livez" | "/readyz" | "/status" | "/history.json" | "/metrics" | "/snapshots" => Some("GET, HEAD"),
        "/audit" => Some("GET, HEAD, POST"),
        // A bundle is made on request: its length is not known before.
        "/bundle" => Some("GET, POST"),
        "/cache" => Some("DELETE"),
        "/reload" | "/refresh" | "/sync" | "/snapshots/accept" => Some("POST"),
        _ if console::has(path) => Some("GET, HEAD"),
        _ => Action::of_path(path).map(|_| "POST"),
    }
}

impl Admin {
    /// Answers a request. `may_write`: whether it may give commands.
    async fn answer(&self, request: &http::request::Parts, may_write: Result<(), Refusal>) -> Reply {
        let (method, path, query) = (&request.method, request.uri.path(), request.uri.query());
        let mut reply = self.reply(method, path, query, &request.headers, may_write).await;
        if *method == Method::HEAD {
            reply.body_mut().clear();
        }
        reply
    }

    async fn reply(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &http::HeaderMap,
        may_write: Result<(), Refusal>,
    ) -> Reply {
        match methods(path) {
            None => return error(StatusCode::NOT_FOUND, PATHS),
            Some(allow) if !allow.split(", ").any(|name| name == method.as_str()) => return not_allowed(allow),
            Some(_) => {}
        }
        let perform = |action| snapshots::perform(self.status.snapshots.as_ref(), action, self.status.clock.now_wall());
        if matches!(*method, Method::GET | Method::HEAD) {
            return if path == "/snapshots" { perform(Action::List).await } else { self.read(path, query, headers) };
        }
        if let Err(refusal) = may_write {
            return error(StatusCode::FORBIDDEN, refusal.as_str());
        }
        match (path, Action::of_path(path)) {
            (_, Some(action)) => perform(action).await,
            ("/audit", _) => audit::ask(self.status.audits.as_ref(), query),
            ("/reload", _) => reload::answer(&self.reloader).await,
            ("/cache", _) => match self.purger.purge(query) {
                Ok(count) => json_reply(StatusCode::OK, &json!({ "purged": count })),
                Err(why) => error(StatusCode::BAD_REQUEST, &why.to_string()),
            },
            _ => self.write(path, query),
        }
    }

    fn read(&self, path: &str, query: Option<&str>, headers: &http::HeaderMap) -> Reply {
        match path {
            "/livez" => reply(StatusCode::OK, "text/plain; charset=utf-8", "alive\n"),
            "/readyz" => match self.status.ready() {
                Ok(()) => reply(StatusCode::OK, "text/plain; charset=utf-8", "ready\n"),
                Err(reason) => {
                    reply(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{reason}\n"))
                }
            },
            "/status" => {
                let facts = self.status.facts();
                let code = if facts.is_healthy() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                json_reply(code, &facts.json())
            }
            "/audit" => audit::show(self.status.audits.as_ref()),
            "/metrics" => metrics::answer(&self.status),
            "/history.json" => history::answer(&self.status, query),
            path => self.console.answer(path, headers).unwrap_or_else(|| error(StatusCode::NOT_FOUND, PATHS)),
        }
    }

    fn write(&self, path: &str, query: Option<&str>) -> Reply {
        let Some(commands) = &self.commands else {
            return error(
                StatusCode::CONFLICT,
                "this action needs a mirror: set origin.url, and mirror.enabled = true",
            );
        };
        let accepted = |what: &str| json_reply(StatusCode::ACCEPTED, &json!({ "accepted": what }));
        match path {
            "/refresh" if query.is_some_and(|query| query != "forget=sequence") => {
                error(StatusCode::BAD_REQUEST, "POST /refresh takes one query, forget=sequence, on a replica")
            }
            "/refresh" if query.is_some() && self.status.replica.is_none() => {
                error(StatusCode::CONFLICT, "forget=sequence works only on a replica; this server is none")
            }
            "/refresh" if query.is_some() => {
                commands.refresh_forgetting();
                accepted("refresh")
            }
            "/refresh" => {
                commands.refresh();
                accepted("refresh")
            }
            "/sync" if self.status.replica.is_some() => error(
                StatusCode::CONFLICT,
                "this is a replica: it follows replica.url, and POST /refresh looks there now",
            ),
            "/sync" => {
                commands.pass();
                accepted("sync")
            }
            "/snapshots/accept" if self.status.picture().held.is_none() => {
                error(StatusCode::CONFLICT, "no snapshot is held back")
            }
            "/snapshots/accept" => {
                commands.accept();
                accepted("accept")
            }
            _ => error(StatusCode::NOT_FOUND, PATHS),
        }
    }
}
