//! The sections of the page below the charts.
//!
//! Callers: [`super`].

use maud::{Markup, html};

use crate::admin::page::action::Writes;
use crate::admin::page::model::{Line, Model, OddRequests, Origin, Parity, Row, SnapshotList, SnapshotRow};
use crate::admin::page::words;

use super::button;

/// A section of lines.
pub(super) fn lines(id: &str, name: &str, lines: &[Line], end: &Markup) -> Markup {
    let title = format!("{id}-title");
    html! {
        @if !lines.is_empty() {
            section id=(id) aria-labelledby=(title) {
                h2 id=(title) { (name) }
                (description(lines))
                (end)
            }
        }
    }
}

fn description(lines: &[Line]) -> Markup {
    html! {
        dl class="lines" {
            @for line in lines {
                div {
                    dt { (line.name) }
                    dd { (line.value) @for more in &line.more { p { (more) } } }
                }
            }
        }
    }
}

pub(super) fn origin(origin: &Origin, writes: Writes) -> Markup {
    let all: u64 = origin.spent.iter().map(|(_, count)| count).sum();
    html! {
        section id="origin" aria-labelledby="origin-title" {
            h2 id="origin-title" { "Origin and budget" }
            (description(&origin.lines))
            @for (at, bar) in origin.bars.iter().enumerate() {
                @let id = format!("bar-{at}");
                p class="bar" {
                    label for=(id) { (bar.name) ": " (words::count(bar.done)) " of " (words::count(bar.of)) }
                    progress id=(id) max=(bar.of.max(1)) value=(bar.done.min(bar.of.max(1))) {}
                }
            }
            @if let Some(eta) = &origin.eta { p class="eta" { "The copy is complete in " (eta) "." } }
            h3 { "What the budget is spent on" }
            @if all == 0 { p { "Nothing was sent since the start." } } @else {
                div class="wide" { table {
                    caption class="unseen" { "Requests to the origin since the start, by purpose" }
                    thead { tr { th scope="col" { "Purpose" } th scope="col" class="number" { "Requests" } th scope="col" class="number" { "Share" } } }
                    tbody { @for (purpose, count) in &origin.spent {
                        tr {
                            th scope="row" { (capital(purpose)) }
                            td class="number" { (words::count(*count)) }
                            td class="number" { (words::share(*count as f64 / all as f64)) }
                        }
                    } }
                } }
            }
            @if !origin.actions.is_empty() {
                p class="buttons" { @for action in &origin.actions { (button(action, writes)) " " } }
            }
        }
    }
}

fn capital(word: &str) -> String {
    words::sentence(word).trim_end_matches('.').to_owned()
}

pub(super) fn snapshots(snapshots: &SnapshotList, writes: Writes) -> Markup {
    html! {
        section id="snapshots" aria-labelledby="snapshots-title" {
            h2 id="snapshots-title" { "Snapshots" }
            @if let Some((why, accept)) = &snapshots.held {
                div class="held" {
                    h3 { "Held back" }
                    p { (why) }
                    (button(accept, writes))
                }
            }
            @if let Some(release) = &snapshots.release {
                p { "A rollback is in effect. " (button(release, writes)) }
            }
            @if snapshots.shown.is_empty() { p { "None is kept yet." } } @else {
                div class="wide" tabindex="0" role="region" aria-label="Kept snapshots" { table {
                    caption class="unseen" { "Kept snapshots, the newest first" }
                    thead { tr {
                        th scope="col" { "Snapshot" }
                        th scope="col" class="number" { "Listings" }
                        th scope="col" { "Certificate" }
                        th scope="col" { "Confirmed" }
                        th scope="col" { "Published" }
                        th scope="col" { "Actions" }
                    } }
                    tbody { @for snapshot in &snapshots.shown { (kept(snapshot, writes)) } }
                } }
            }
            @if snapshots.more > 0 {
                p { (words::count(snapshots.more as u64)) " more are kept; " code { "grandstand snapshot list" } " shows them." }
            }
        }
    }
}

fn kept(snapshot: &SnapshotRow, writes: Writes) -> Markup {
    html! {
        tr {
            th scope="row" {
                code title=(snapshot.id) { (words::short(&snapshot.id)) }
                @for mark in &snapshot.marks { " " span class="tag" { (mark) } }
            }
            td class="number" { (words::count(snapshot.listings)) }
            td { (snapshot.certificate) }
            td { (snapshot.confirmed) }
            td { (snapshot.published) }
            td class="buttons" {
                @for action in &snapshot.actions { (button(action, writes)) " " }
                @if writes != Writes::Refused && !snapshot.marks.contains(&"current") {
                    a id={ "delta-" (snapshot.id) } class="download" href={ "bundle?since=" (snapshot.id) } download {
                        "Delta" span class="unseen" { " bundle since snapshot " (words::short(&snapshot.id)) }
                    }
                }
            }
        }
    }
}

/// Bundles to download and upload. Page updates leave the form alone: a person may be filling it in.
pub(super) fn bundles(model: &Model) -> Markup {
    let off = model.writes == Writes::Refused;
    html! {
        @if model.snapshots.is_some() {
            section id="bundles" aria-labelledby="bundles-title" {
                h2 id="bundles-title" { "Bundles" }
                p { "A bundle carries a snapshot with its details to another machine. "
                    @if !off { a id="bundle" class="download" href="bundle" download { "Download the current snapshot" } } }
                form id="upload" data-ask="The bundle is checked as a whole. Then clients get the bundle's data, unless a rollback is in effect." {
                    fieldset disabled[off] {
                        legend { "Import a bundle" }
                        p { label for="file" { "Bundle (.gsb)" } input id="file" type="file" accept=".gsb" required; }
                        p { label for="signature" { "Signature (.minisig), if there is one" } input id="signature" type="file" accept=".minisig"; }
                        p class="choice" { input id="older" type="checkbox"; label for="older" { "Allow data older than an earlier import" } }
                        p class="buttons" { button type="submit" { "Import" } }
                        progress id="sent" max="1" value="0" aria-label="Uploaded" hidden {}
                    }
                }
            }
        }
    }
}

pub(super) fn parity(parity: &Parity, writes: Writes) -> Markup {
    html! {
        section id="parity" aria-labelledby="parity-title" {
            h2 id="parity-title" { "Parity" }
            (description(&parity.lines))
            @if !parity.differences.is_empty() {
                h3 { "Differences found" }
                ul class="texts" { @for difference in &parity.differences { li { (difference) } } }
            }
            p class="buttons" { (button(&parity.action, writes)) }
        }
    }
}

/// How odd requests are answered.
pub(super) fn odd(odd: &OddRequests) -> Markup {
    html! {
        section id="edges" aria-labelledby="edges-title" {
            h2 id="edges-title" { "Odd requests" }
            (description(&odd.lines))
            @if !odd.cases.is_empty() {
                div class="wide" tabindex="0" role="region" aria-label="Answers to odd requests" { table {
                    caption class="unseen" { "Odd requests and their answers" }
                    thead { tr {
                        th scope="col" { "Request" }
                        th scope="col" { "Example" }
                        th scope="col" { "Answer" }
                    } }
                    tbody { @for case in &odd.cases { tr {
                        th scope="row" { (case.request) }
                        td { code { (case.example) } }
                        td { (case.answer) @if let Some(why) = &case.why { p class="todo" { (why) } } }
                    } } }
                } }
            }
        }
    }
}

pub(super) fn notes(notes: &[Row]) -> Markup {
    html! {
        section id="notes" aria-labelledby="notes-title" {
            h2 id="notes-title" { "Recent warnings and errors" }
            @if notes.is_empty() { p { "None since the start." } } @else {
                ol class="notes" { @for note in notes {
                    li {
                        p class="when" {
                            span class={ "tag" @if note.is_error { " bad" } } { @if note.is_error { "error" } @else { "warning" } }
                            " " (note.at)
                            @if note.count > 1 { " · " (words::count(note.count)) " times" }
                        }
                        p { (note.text) }
                        p class="todo" { (note.todo) }
                    }
                } }
            }
        }
    }
}

pub(super) fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        section id="facts" aria-labelledby="facts-title" {
            h2 id="facts-title" class="unseen" { "Everything" }
            details id="all-facts" {
                summary { "Every fact of " code { "/status" } }
                div class="wide" tabindex="0" role="region" aria-label="Facts" { table {
                    caption class="unseen" { "The fields of /status and their values" }
                    thead { tr { th scope="col" { "Field" } th scope="col" { "Value" } } }
                    tbody { @for (name, value) in facts { tr { th scope="row" { code { (name) } } td { (value) } } } }
                } }
            }
        }
    }
}
