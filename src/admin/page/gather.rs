//! Collects the content of the operator's page from the state at one instant.
//!
//! The facts are those of `/status`. Callers: [`super`], for each request.

use serde_json::Value;

use crate::admin::health::{Trouble, oldest};
use crate::admin::status::{Reading, Status};
use crate::audit::job::{Differing, Job, Score};
use crate::clock::WallTime;
use crate::config::Use;
use crate::semantics::excerpt::Excerpt;
use crate::semantics::freshness::is_from_the_future;
use crate::snapshot::content::SnapshotId;
use crate::snapshots::{KeptSnapshot, Snapshots};
use crate::telemetry::history::Span;
use crate::telemetry::recent::Note;
use crate::upstream::budget::Budget;
use crate::upstream::status::OriginState;
use crate::upstream::window::Class;

use super::action::{Action, Writes};
use super::advice::{self, Finding, about_note};
use super::charts::{self, Scene, purpose};
use super::model::{Bar, Line, Model, Origin, Parity, Row, SnapshotList, SnapshotRow, State, Tile};
use super::{facts, limit, odd, words};

/// Kept snapshots that are shown; beyond that only important ones.
const MOST_SNAPSHOTS: usize = 40;
/// Differences of one audit that are shown.
const MOST_DIFFERENCES: usize = 20;

pub(super) fn model(status: &Status, writes: Writes, span: Span) -> Model {
    let reading = status.read();
    let (_, value) = status.describe_reading(&reading);
    let parity = status.audits.as_ref().map(|audits| (audits.score(), audits.job()));
    let percent = parity.as_ref().and_then(|(score, _)| score.percent());
    let budget = status.budget.as_ref().map(Budget::view);
    let tls = status.tls.as_ref().and_then(|tls| tls.certificate.problem(reading.now));
    let damage = status.store.as_ref().and_then(|store| store.damage());
    let rolled_back = status.snapshots.as_ref().and_then(Snapshots::rolled_back);
    let alone = status.shared.as_ref().and_then(|shared| shared.why_local());
    let findings = advice::findings(&advice::Facts {
        usage: status.usage,
        reasons: &reading.reasons,
        findings: &reading.findings,
        origin: reading.state,
        origin_url: status.origin_url.as_deref(),
        last_error: reading.picture.last_error.as_ref().map(|error| error.message.as_str()),
        paused_seconds: budget.map_or(0, |budget| budget.paused.as_secs()),
        has_data: reading.published.is_some(),
        rolled_back: rolled_back
            .as_ref()
            .map(|rolled_back| (rolled_back.served.as_str(), rolled_back.newest.as_ref().map(SnapshotId::as_str))),
        tls_problem: tls.as_deref(),
        damage: damage.as_deref(),
        parity: percent,
        alone: alone.as_deref(),
    });
    let oldest = oldest(status.usage, status.ttl(), status.max_age).map(|oldest| oldest.as_secs());
    let scene = Scene { usage: status.usage, budget: budget.and_then(|budget| budget.limit), oldest };
    let samples = status.history.samples(span, status.clock.now_mono());
    Model {
        usage: status.usage,
        now: reading.now,
        state: state(&reading, status.usage, &findings),
        tiles: tiles(status, &reading, &value),
        charts: (charts::charts(&samples, span, scene), charts::since(span)),
        span,
        origin: status.budget.as_ref().map(|_| origin(status, &reading)),
        data: data(&reading, &value),
        snapshots: status.snapshots.as_ref().map(|snapshots| snapshot_list(snapshots, &reading)),
        parity: parity.map(|(score, job)| Parity {
            lines: parity_lines(&score, &job),
            differences: differences(&score, &job),
            action: Action::audit(),
        }),
        odd: status.snapshots.as_ref().map(|snapshots| odd::requests(snapshots.edges())),
        limit: status.shared.as_ref().map_or_else(Vec::new, |shared| limit::lines(shared)),
        notes: status.recent.notes().iter().map(row).collect(),
        server: server(status, &reading, tls),
        facts: facts::flat(&value),
        findings,
        writes,
    }
}

fn state(reading: &Reading, usage: Use, findings: &[Finding]) -> State {
    let fails = matches!(reading.state, OriginState::CouldNotBeAsked | OriginState::Nonsense);
    let waits = reading.reasons.iter().all(|reason| reason.trouble == Trouble::NotReady);
    match (reading.reasons.is_empty(), findings.is_empty()) {
        (true, true) => State::Well,
        (true, false) => State::Attention,
        _ if usage.is_confirmed() && waits && !fails => State::Starting,
        _ => State::Unwell,
    }
}

fn cut(text: &str) -> String {
    Excerpt(text).to_string()
}

fn tiles(status: &Status, reading: &Reading, value: &Value) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let mut tile = |name, value, note: String| tiles.push(Tile { name, value, note });
    if let Some(published) = &reading.published {
        let listings = published.dataset.len();
        let details = reading.details.map_or_else(String::new, |(covered, of)| {
            let missing = of.saturating_sub(covered.mirrored);
            match (missing, of.saturating_sub(missing).saturating_sub(covered.current)) {
                (0, 0) => "all with details".to_owned(),
                (0, old) => format!("all with details, {} outdated", words::count(old as u64)),
                (missing, _) => format!("{} without details yet", words::count(missing as u64)),
            }
        });
        tile("Listings", words::count(listings as u64), details);
        let age = reading.age.map_or_else(|| "unknown".to_owned(), |age| words::seconds(age.into()));
        let limit = if status.usage.is_confirmed() {
            format!("refreshed within {}", words::seconds(status.ttl().as_secs()))
        } else {
            String::new()
        };
        tile("Age of the data", age, limit);
    }
    let ratio = value.get("hit_ratio").and_then(Value::as_f64);
    let ratio = ratio.map_or_else(|| "–".to_owned(), words::share);
    tile("Answered without the origin", ratio, "of all answers since the start".to_owned());
    if let Some(view) = status.budget.as_ref().map(Budget::view) {
        let (free, of) = match view.limit {
            Some(limit) => (words::count(view.free as u64), format!("of {} in a minute", words::count(limit as u64))),
            None => ("no limit".to_owned(), "for requests to the origin".to_owned()),
        };
        tile("Origin's budget, free", free, of);
    }
    let (bytes, entries) = status.cache.size();
    tile("Cache", words::bytes(bytes), format!("{} answers", words::count(entries)));
    tiles
}

fn origin(status: &Status, reading: &Reading) -> Origin {
    let picture = &reading.picture;
    let mut lines = vec![Line::new("State", words::origin(reading.state))];
    lines.extend(status.origin_url.as_deref().map(|url| Line::new("Address", url)));
    if let Some(view) = status.budget.as_ref().map(Budget::view) {
        let free = match view.limit {
            Some(limit) => format!("{} of {limit} requests in a minute are free", view.free),
            None => "No limit".to_owned(),
        };
        let mut more = Vec::new();
        if view.paused.as_secs() > 0 {
            more.push(format!("No requests are sent for {}.", words::seconds(view.paused.as_secs())));
        }
        if view.waiting > 0 {
            more.push(format!("{} requests wait for a slot.", view.waiting));
        }
        lines.push(Line::new("Budget", free).with(more));
    }
    if let Some(at) = picture.refreshed_ms {
        lines.push(Line::new("Last refresh", words::instant(WallTime::from_millis(at))));
    }
    if picture.health.failures() > 0 {
        lines.push(Line::new("Failures in a row", words::count(picture.health.failures().into())));
    }
    if let Some(error) = &picture.last_error {
        let at = error.at.clone().unwrap_or_else(|| "at an unknown time".to_owned());
        lines.push(Line::new("Last error", words::sentence(&error.message)).with([at]));
    }
    let mut bars = Vec::new();
    let pass = picture.pass.filter(|pass| pass.of > 0);
    bars.extend(pass.map(|pass| Bar { name: "Pages of the running pass", done: pass.done, of: pass.of }));
    bars.extend(reading.details.map(|(covered, of)| Bar {
        name: "Details",
        done: covered.mirrored as u64,
        of: of as u64,
    }));
    let is_mirror = status.usage == Use::Mirror;
    let eta = reading.eta_seconds.filter(|seconds| *seconds > 0 && is_mirror).map(|seconds| {
        let at = reading.now.plus_seconds(i64::try_from(seconds).unwrap_or(i64::MAX));
        format!("about {}, at {}", words::seconds(seconds), words::instant(at))
    });
    let spent = Class::ALL.map(|class| (purpose(class), picture.sent.get(class.as_str()).copied().unwrap_or_default()));
    let actions = if is_mirror { vec![Action::refresh(), Action::sync()] } else { Vec::new() };
    Origin { lines, bars, eta, spent: spent.into(), actions }
}

/// Texts of an array at a place of `/status`.
fn texts(value: &Value, pointer: &str) -> Vec<String> {
    let items = value.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).take(20).map(str::to_owned).collect()
}

fn data(reading: &Reading, value: &Value) -> Vec<Line> {
    let Some(published) = &reading.published else { return Vec::new() };
    let meta = &published.meta;
    let mut lines = vec![Line::new("Current snapshot", published.dataset.id.as_str())];
    let certificate =
        Line::new("Certificate", meta.certificate.as_str()).with([words::certificate(meta.certificate).to_owned()]);
    lines.push(certificate.with(texts(value, "/snapshot/open_points")));
    let confirmed = words::instant(published.claimed());
    let future = reading.unconfirmed.then(|| "This is in the future, so a clock must be wrong.".to_owned());
    lines.push(Line::new("Confirmed", confirmed).with(future));
    lines.push(Line::new("Listings", words::count(published.dataset.len() as u64)));
    for (name, kind) in [("Sports", "sport"), ("States", "state"), ("Cities", "city")] {
        let number = |what: &str| value.pointer(&format!("/terms/{kind}/{what}")).and_then(Value::as_u64).unwrap_or(0);
        let doubtful = number("doubtful");
        let known = words::count(number("named") + number("listed"));
        let line = Line::new(name, format!("{known} certain, {} in doubt", words::count(doubtful)));
        let names = texts(value, &format!("/terms/{kind}/in_doubt"));
        lines.push(line.with((doubtful > 0).then(|| format!("Forwarded to the origin: {}", names.join(", ")))));
    }
    let disproved: Vec<String> = meta.disproved.iter().flatten().map(|one| one.says().to_owned()).collect();
    if !disproved.is_empty() {
        let told = "The origin does not do this. Queries that depend on it are forwarded.";
        lines.push(Line::new("Disproved", told).with(disproved));
    }
    let unproved: Vec<String> = meta.unproved().map(|one| one.says().to_owned()).collect();
    // Who copies from a mirror has not asked.
    if meta.asked_ms > 0 && !unproved.is_empty() {
        let told = "Assumed: the data does not show whether the origin does this.";
        lines.push(Line::new("Unproved", told).with(unproved));
    }
    for (name, pointer, told) in [
        ("Volatile fields", "/volatile", "They change although the data does not, so they are not part of the data."),
        ("Left out", "/left_out", "These fields differed between the pages of one crawl."),
    ] {
        let names = texts(value, pointer);
        if !names.is_empty() {
            lines.push(Line::new(name, names.join(", ")).with([told.to_owned()]));
        }
    }
    lines
}

fn snapshot_list(snapshots: &Snapshots, reading: &Reading) -> SnapshotList {
    let kept = snapshots.kept();
    let is_shown = |at: usize, kept: &KeptSnapshot| at < MOST_SNAPSHOTS || kept.served || kept.newest;
    let shown = kept.iter().enumerate().filter(|(at, kept)| is_shown(*at, kept));
    let shown: Vec<SnapshotRow> = shown.map(|(_, kept)| snapshot(kept, reading.now)).collect();
    let held = reading.picture.held.as_ref().map(|held| {
        let (id, listings, serving) = (words::short(&held.snapshot), held.listings, held.serving);
        let counts = format!("{} listings instead of {}", words::count(listings), words::count(serving));
        (format!("Snapshot {id} with {counts} waits: {}", words::sentence(&cut(&held.reason))), Action::accept())
    });
    SnapshotList {
        more: kept.len() - shown.len(),
        shown,
        release: snapshots.rolled_back().map(|_| Action::release()),
        held,
    }
}

fn snapshot(kept: &KeptSnapshot, now: WallTime) -> SnapshotRow {
    let id = kept.id.as_str();
    let confirmed = WallTime::from_millis(kept.meta.confirmed_ms);
    let marks = [
        ("current", kept.served),
        ("newest", kept.newest),
        ("pinned", kept.pinned),
        ("exported", kept.exported),
        ("date in the future", is_from_the_future(confirmed, now)),
    ];
    let mut actions = Vec::new();
    if !kept.served {
        actions.push(Action::rollback(id));
    }
    actions.push(if kept.pinned { Action::unpin(id) } else { Action::pin(id) });
    actions.push(Action::verify(id));
    SnapshotRow {
        id: id.to_owned(),
        listings: kept.listings,
        certificate: kept.meta.certificate.as_str(),
        confirmed: words::instant(confirmed),
        published: words::instant(WallTime::from_millis(kept.meta.published_ms)),
        marks: marks.into_iter().filter_map(|(mark, holds)| holds.then_some(mark)).collect(),
        actions,
    }
}

fn parity_lines(score: &Score, job: &Job) -> Vec<Line> {
    let equal = match score.percent() {
        Some(percent) => format!("{percent:.2} % of the last {} compared requests", score.compared()),
        None => "Nothing was compared yet".to_owned(),
    };
    let mut lines = vec![Line::new("Equal to the origin", equal)];
    lines.extend(score.last_at().map(|at| Line::new("Last comparison", words::instant(at))));
    if !score.properties().is_empty() {
        let properties = score.properties().iter().map(|property| words::sentence(property));
        let told = "This server answers in its documented way, so these are no differences.";
        lines.push(Line::new("Ways of the origin", told).with(properties));
    }
    if job.is_running() {
        lines.push(Line::new("Running audit", format!("{}, {} of {}", job.phase.as_str(), job.done, job.of)));
    } else if job.id > 0 {
        let reasons = job.report.reasons.iter().take(5).map(|reason| format!("Not compared: {}", cut(reason)));
        lines.push(Line::new("Last audit", job.report.summary()).with(reasons));
    }
    lines
}

/// Differences of the last audit, and of the running score, each once.
fn differences(score: &Score, job: &Job) -> Vec<String> {
    let of_job = job.report.differing.iter().flat_map(Differing::lines);
    let mut lines: Vec<String> = Vec::new();
    for line in score.differences().into_iter().chain(of_job).map(|line| cut(&line)) {
        if lines.len() < MOST_DIFFERENCES && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn row(note: &Note) -> Row {
    Row {
        is_error: note.is_error,
        at: words::instant(note.at),
        count: note.count,
        text: words::sentence(&cut(&note.text)),
        todo: about_note(note.module),
    }
}

fn server(status: &Status, reading: &Reading, tls_problem: Option<String>) -> Vec<Line> {
    let addresses =
        |listen: &[std::net::SocketAddr]| listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut lines = vec![
        Line::new("Program", concat!("grandstand ", env!("CARGO_PKG_VERSION"))),
        Line::new("Listens on", addresses(&status.listen)),
    ];
    if let Some(tls) = &status.tls {
        lines.push(Line::new("HTTPS on", addresses(&tls.listen)));
        let left = tls.certificate.until().seconds_since(reading.now);
        let left = match u64::try_from(left) {
            Ok(left) => {
                format!("Valid for {}, until {}", words::seconds(left), words::instant(tls.certificate.until()))
            }
            Err(_) => format!("Expired at {}", words::instant(tls.certificate.until())),
        };
        lines.push(Line::new("Certificate of HTTPS", left).with(tls_problem.map(|problem| words::sentence(&problem))));
    }
    lines.extend(reading.replica.as_ref().map(|replica| Line::new("Object store followed", cut(&replica.told()))));
    lines.push(Line::new("Disk", reading.disk.as_deref().map_or_else(|| "Works".to_owned(), words::sentence)));
    lines.push(Line::new("Clients counted for the rate limit", words::count(status.limiter.windows() as u64)));
    lines
}
