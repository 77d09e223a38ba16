//! `grandstand status`: one screen about a running server, and commands to it.
//!
//! Callers: [`super`], and the commands that a running server carries out.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, Method};
use serde_json::Value;

use crate::config::Secret;
use crate::words::counted;

use super::server_client::{self, ServerClient};
use super::table::Paint;
use super::watch::{self, Form};
use super::{Failure, Sources, load, plain, sync};

/// The HTTP status of an unhealthy server's whole status.
const UNHEALTHY: u16 = 503;

/// Arguments of `grandstand status`.
#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    sources: Sources,
    /// Address of the admin listener
    ///
    /// Without it, the address is read from the data directory, or else from admin.listen.
    #[arg(long, value_name = "URL|HOST:PORT", value_parser = admin_url)]
    admin: Option<String>,
    /// Print the JSON of /status
    #[arg(long)]
    json: bool,
    /// Repeat until Ctrl-C: one screen on a terminal without --json, else a line for each change
    #[arg(long)]
    watch: bool,
}

/// Why the status cannot be shown.
#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(
        "no server answers at {url}: {reason}; start `grandstand serve`, or give the address of its admin listener with --admin"
    )]
    Unreachable { url: String, reason: String },
    #[error("{0}")]
    Refused(String),
}

impl Status {
    /// Prints the status; fails if no server answers, or it is unhealthy.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load(&self.sources)?.config;
        let admin = match self.admin.clone() {
            None => sync::running(&config.data_dir)?,
            named => named,
        };
        let admin = admin.unwrap_or_else(|| format!("http://{}", config.admin.listen));
        let url = format!("{admin}/status");
        let (code, text) = ask(Method::GET, &url, None)?;
        if self.watch {
            let first = Ok((code != UNHEALTHY, serde_json::from_str(&text)?));
            let look = move || look(&url).map_err(|failure| failure.to_string());
            let form = if self.json { Form::Json } else { Form::Text };
            return watch::watch(first, look, painted, form);
        }
        if self.json {
            print!("{text}");
        } else {
            let value: Value = serde_json::from_str(&text)?;
            print!("{}", painted(&value));
        }
        Ok(if code == UNHEALTHY { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// The base address of an admin listener: a URL, or a host with a port.
fn admin_url(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let usable = url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if usable {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err("write a URL or HOST:PORT, such as http://127.0.0.1:9090 or 127.0.0.1:9090".to_owned())
    }
}

/// Asks a server how it is.
fn look(url: &str) -> Result<(bool, Value), Failure> {
    let (code, text) = ask(Method::GET, url, None)?;
    Ok((code != UNHEALTHY, serde_json::from_str(&text)?))
}

/// The screen in colours, where they are seen and wanted, without anything that steers the terminal.
fn painted(value: &Value) -> String {
    let paint = Paint::of_stdout();
    let is_healthy = value.pointer("/state").and_then(Value::as_str) == Some("healthy");
    let mut text = String::new();
    for line in screen(value).lines().map(plain) {
        let is_fact = line.starts_with("  ");
        let is_wrong = ["held", "disk", "publish", "limit", "finding", "last error"]
            .iter()
            .any(|name| line.trim_start().starts_with(name));
        text.push_str(&match (is_fact, is_wrong) {
            (false, _) => paint.verdict(is_healthy, &line),
            (true, true) => paint.warning(&line),
            (true, false) => line.as_str().into(),
        });
        text.push('\n');
    }
    text
}

/// The status on one screen.
fn screen(value: &Value) -> String {
    let text = |pointer: &str| match value.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let count = |pointer: &str, noun| counted(value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0), noun);
    let percent = value.pointer("/hit_ratio").and_then(Value::as_f64).map(|ratio| format!("{:.1} %", ratio * 100.0));
    let parity = value.pointer("/parity/percent").and_then(Value::as_f64);
    let parity =
        parity.map(|percent| format!("{percent} % of the last {} equal", count("/parity/compared", "compared sample")));
    let reasons = value.pointer("/reasons").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let reasons: Vec<&str> = reasons.collect();
    let mut lines = Vec::new();
    if !reasons.is_empty() {
        lines.push(format!("{}: {}", text("/state"), reasons.join("; ")));
    }
    lines.push(format!("grandstand {} ({})", text("/state"), text("/use")));
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<10} {value}"));
    // A shield has no data of its own.
    let mirrors = text("/use") != "shield";
    if mirrors {
        line("snapshot", format!("{} ({})", text("/snapshot/id"), text("/snapshot/certificate")));
        if text("/rollback/served") != "-" {
            let newest = text("/rollback/newest");
            line("rollback", format!("{newest} is the newest; `grandstand snapshot release` makes it current"));
        }
        let unconfirmed = value.pointer("/unconfirmed").and_then(Value::as_bool) == Some(true);
        let age = if unconfirmed { "in the future: not confirmed".to_owned() } else { text("/age_seconds") + " s ago" };
        line("confirmed", format!("{} ({age})", text("/confirmed_at")));
        line("listings", text("/listings"));
        let (mirrored, of) = (text("/details/mirrored"), text("/details/of"));
        let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
        let outdated = match (count("/details/mirrored"), count("/details/current")) {
            (Some(mirrored), Some(current)) if current < mirrored => format!(", {} outdated", mirrored - current),
            _ => String::new(),
        };
        let eta = value.pointer("/origin/eta_seconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
        let eta = eta.map_or_else(String::new, |seconds| format!(", ETA {seconds} s"));
        line("details", format!("{mirrored} of {of}{outdated}{eta}"));
    }
    let replicates = text("/use") == "replica";
    if replicates {
        let behind = value.pointer("/replica/behind_seconds").and_then(Value::as_u64);
        let behind = match behind {
            None => "not followed yet".to_owned(),
            Some(0) => "nothing is missing".to_owned(),
            Some(seconds) => format!("behind for {seconds} s"),
        };
        let why = text("/replica/why");
        let why = if why == "-" { String::new() } else { format!(": {why}") };
        line("store", format!("head {}, {behind}{why}", text("/replica/sequence")));
    }
    let state = text("/origin/state");
    line("origin", if state == "could-not-be-asked" { "unreachable".to_owned() } else { state.replace('-', " ") });
    let limit = text("/origin/budget/limit");
    let free =
        if limit == "-" { "no limit".to_owned() } else { format!("{} of {limit} free", text("/origin/budget/free")) };
    let pause = value.pointer("/origin/budget/paused_seconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let pause = pause.map_or_else(String::new, |seconds| format!(", paused for {seconds} s"));
    line("budget", free + &pause);
    line("cache", format!("{}, {}", count("/cache/bytes", "byte"), count("/cache/entries", "entry")));
    if text("/tls/valid_until") != "-" {
        line("https", format!("certificate valid until {}", text("/tls/valid_until")));
    }
    line("hit ratio", percent.unwrap_or_else(|| "-".to_owned()));
    if mirrors && !replicates {
        line("parity", parity.unwrap_or_else(|| "-".to_owned()));
    }
    let findings = value.pointer("/findings").and_then(Value::as_array).into_iter().flatten();
    lines.extend(findings.filter_map(Value::as_str).map(|finding| format!("  {:<10} {finding}", "finding")));
    let wrong = [("https", "/tls/problem"), ("held", "/held/reason"), ("disk", "/disk"), ("publish", "/publish/why")];
    if text("/rate_limit/why") != "-" {
        let why = text("/rate_limit/why");
        lines.push(format!("  {:<10} not shared, each machine counts clients by itself: {why}", "limit"));
    }
    for (name, pointer) in wrong.into_iter().chain([("last error", "/last_error/message")]) {
        if text(pointer) != "-" {
            lines.push(format!("  {name:<10} {}", text(pointer)));
        }
    }
    lines.join("\n") + "\n"
}

/// Asks a running server.
pub(super) fn ask(method: Method, url: &str, token: Option<&Secret>) -> Result<(u16, String), Failure> {
    /// A command may wait for an import that runs; reading does not.
    const COMMAND: Duration = Duration::from_secs(600);
    const LOOK: Duration = Duration::from_secs(10);
    let patience = if method == Method::GET { LOOK } else { COMMAND };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let unreachable = |reason: String| StatusError::Unreachable { url: url.to_owned(), reason };
    let asking = async {
        let answer = ServerClient::new(LOOK, token)?.send(method, url, HeaderMap::new(), None).await?;
        Ok((answer.status().as_u16(), server_client::text(answer).await?))
    };
    let asked = runtime.block_on(async { tokio::time::timeout(patience, asking).await });
    let asked = asked.unwrap_or_else(|_elapsed| Err(format!("no answer within {} s", patience.as_secs())));
    let (status, body) = asked.map_err(unreachable)?;
    if status >= 400 && status != UNHEALTHY {
        return Err(StatusError::Refused(refusal(url, status, &body)).into());
    }
    Ok((status, body))
}

/// The server's reason for a refusal.
pub(super) fn refusal(url: &str, status: u16, body: &str) -> String {
    let problem: Option<Value> = serde_json::from_str(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
    detail.map_or_else(|| format!("{url} answered {status}: {body}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_admin_listener_is_named_by_url_or_by_host_and_port() {
        for (text, url) in [
            ("127.0.0.1:9090", "http://127.0.0.1:9090"),
            ("localhost:9090", "http://localhost:9090"),
            ("[::1]:9090", "http://[::1]:9090"),
            ("http://127.0.0.1:9090/", "http://127.0.0.1:9090"),
            ("https://ops.example/venues/", "https://ops.example/venues"),
        ] {
            assert_eq!(admin_url(text).as_deref(), Ok(url), "{text}");
        }
        for text in ["", ":9090", "ftp://127.0.0.1:9090", "127.0.0.1:99999", "http://", "a b:1"] {
            assert!(admin_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_comes_first() {
        for (state, reasons, first) in [
            (
                "unhealthy",
                &["no space", "data not confirmed for 29 s (limit 3 s)"][..],
                "unhealthy: no space; data not confirmed for 29 s (limit 3 s)",
            ),
            ("healthy", &[], "grandstand healthy (mirror)"),
        ] {
            let text = screen(&json!({ "state": state, "use": "mirror", "reasons": reasons }));
            assert_eq!(text.lines().next(), Some(first));
        }
        let text = screen(&json!({ "state": "healthy", "publish": { "why": "the store is full" } }));
        assert!(text.contains("  publish    the store is full\n"), "{text}");
        assert!(!text.contains("  limit ") && !text.contains("  finding "), "{text}");
        let text = screen(&json!({ "state": "healthy", "findings": ["one thing", "another"] }));
        assert!(text.contains("  finding    one thing\n  finding    another\n"), "{text}");
        let alone = json!({ "store": "local", "why": "Redis did not answer within 50 ms" });
        let text = screen(&json!({ "state": "healthy", "rate_limit": alone }));
        let line =
            "  limit      not shared, each machine counts clients by itself: Redis did not answer within 50 ms\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_replica_tells_how_it_stands_to_its_store() {
        let mut status =
            json!({ "state": "healthy", "use": "replica", "replica": { "sequence": 7, "behind_seconds": 0 } });
        assert!(screen(&status).contains("store      head 7, nothing is missing\n"), "{}", screen(&status));
        status["replica"] = json!({ "sequence": null, "behind_seconds": 90, "why": "no head" });
        let text = screen(&status);
        assert!(text.contains("store      head -, behind for 90 s: no head\n") && !text.contains("parity"), "{text}");
    }

    #[test]
    fn a_shield_is_not_asked_about_a_snapshot() {
        let mut status = json!({
            "state": "healthy",
            "use": "shield",
            "origin": { "state": "answering", "budget": { "free": 58, "limit": 60, "paused_seconds": 3 } },
            "cache": { "bytes": 4096, "entries": 2 },
            "hit_ratio": 0.5,
        });
        let text = screen(&status);
        for line in
            ["budget     58 of 60 free, paused for 3 s", "cache      4096 bytes, 2 entries", "hit ratio  50.0 %"]
        {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("snapshot") && !text.contains("parity"), "{text}");
        status["use"] = "mirror".into();
        status["origin"]["budget"]["limit"] = Value::Null;
        let text = screen(&status);
        assert!(text.contains("snapshot") && text.contains("budget     no limit"), "{text}");
    }
}
