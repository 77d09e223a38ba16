//! The operator's page as HTML: the document and its top.
//!
//! Every value goes through the template, which escapes it. Callers: [`super`].

mod sections;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::config::Use;
use crate::telemetry::history::Span;

use super::action::{Action, Writes};
use super::advice::{Finding, Weight};
use super::model::{Model, State, Tile};
use super::words;

/// The mark, as a part of the document.
const MARK: &str = include_str!("../../pages/static/mark.svg");

/// The whole document.
pub(super) fn document(model: &Model) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title(model)) }
                link rel="icon" href="favicon.svg" type="image/svg+xml";
                link rel="stylesheet" href="operator.css";
                script src="operator.js" type="module" {}
            }
            body data-writes=(writes(model.writes)) {
                a class="skip" href="#live" { "Skip to the content" }
                header {
                    span class="mark" aria-hidden="true" { (PreEscaped(MARK)) }
                    p class="name" { "grandstand " span class="use" { (used_as(model.usage)) } }
                    nav aria-label="As data" {
                        a href="status" { "status" } " "
                        a href="metrics" { "metrics" } " "
                        a href="snapshots" { "snapshots" } " "
                        @if model.parity.is_some() { a href="audit" { "audit" } }
                    }
                    p class="clock" id="clock" { "As of " (words::instant(model.now)) }
                }
                p id="lost" class="lost" role="alert" hidden {}
                main {
                    noscript {
                        p class="note" {
                            "Without JavaScript this page does not update by itself, and its buttons do nothing. Reload it; \
                             use " code { "grandstand snapshot" } ", " code { "bundle" } " and " code { "audit" } " instead."
                        }
                    }
                    @match model.writes {
                        Writes::Refused => p class="note" {
                            "Actions are off: the admin listener is not on loopback, and " code { "admin.token" } " is not set."
                        },
                        Writes::Token => p class="note" { "Actions ask for " code { "admin.token" } "." },
                        Writes::Free => {}
                    }
                    div id="live" tabindex="-1" { (current(model)) }
                    (sections::bundles(model))
                }
                p id="outcome" class="outcome" role="status" {}
                p id="spoken" class="unseen" role="status" {}
                (dialog(model.writes))
            }
        }
    }
}

/// The changing part: sections with ids, which the script replaces where they differ.
pub(super) fn current(model: &Model) -> Markup {
    html! {
        (health(model))
        (tiles(&model.tiles))
        (charts(model))
        @if let Some(origin) = &model.origin { (sections::origin(origin, model.writes)) }
        (sections::lines("data", "Data", &model.data, &html! {}))
        @if let Some(snapshots) = &model.snapshots { (sections::snapshots(snapshots, model.writes)) }
        @if let Some(parity) = &model.parity { (sections::parity(parity, model.writes)) }
        @if let Some(odd) = &model.odd { (sections::odd(odd)) }
        (sections::lines("limit", "Shared limit", &model.limit, &html! {}))
        @let purge = html! { p class="buttons" { (button(&Action::purge(), model.writes)) } };
        (sections::lines("server", "Server", &model.server, &purge))
        (sections::notes(&model.notes))
        (sections::facts(&model.facts))
    }
}

fn title(model: &Model) -> String {
    format!("{} – grandstand", state(model.state).0)
}

/// The state in a few words, and its class in the stylesheet.
const fn state(state: State) -> (&'static str, &'static str) {
    match state {
        State::Well => ("All is well", "well"),
        State::Attention => ("Needs a look", "attention"),
        State::Starting => ("Making the first copy", "attention"),
        State::Unwell => ("Not well", "unwell"),
    }
}

const fn used_as(usage: Use) -> &'static str {
    match usage {
        Use::Mirror => "mirror",
        Use::Shield => "shield",
        Use::Offline => "offline server",
        Use::Replica => "replica",
    }
}

const fn writes(writes: Writes) -> &'static str {
    match writes {
        Writes::Free => "free",
        Writes::Token => "token",
        Writes::Refused => "refused",
    }
}

fn health(model: &Model) -> Markup {
    let (words, kind) = state(model.state);
    html! {
        section id="health" class={ "health " (kind) } aria-labelledby="state" data-title=(title(model)) {
            h1 id="state" { span class="sign" aria-hidden="true" {} (words) }
            @if model.findings.is_empty() {
                p { (all_well(model.usage)) }
            } @else {
                ul class="findings" {
                    @for finding in &model.findings { (one(finding, model.writes)) }
                }
            }
        }
    }
}

const fn all_well(usage: Use) -> &'static str {
    match usage {
        Use::Mirror => "The origin confirmed the data in time, nothing is held back, and the disk works.",
        Use::Shield => "The origin answers, and clients get cached answers where possible.",
        Use::Offline => "There is data to serve, and the disk works.",
        Use::Replica => "The data is the publisher's, it was confirmed in time, and the disk works.",
    }
}

fn one(finding: &Finding, writes: Writes) -> Markup {
    let kind = if finding.weight == Weight::Unwell { "unwell" } else { "attention" };
    html! {
        li class=(kind) {
            p { b { (finding.what) } }
            p { (finding.todo) }
            @if let Some(action) = &finding.action { (button(&Action { id: format!("{}-top", action.id), ..action.clone() }, writes)) }
        }
    }
}

fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        section id="tiles" aria-label="In numbers" {
            dl class="tiles" {
                @for tile in tiles {
                    div { dt { (tile.name) } dd { b { (tile.value) } " " span { (tile.note) } } }
                }
            }
        }
    }
}

fn charts(model: &Model) -> Markup {
    let (charts, since) = &model.charts;
    let spans = [(Span::Minutes, "?span=minutes", "15 minutes"), (Span::Hours, "?span=hours", "12 hours")];
    html! {
        section id="charts" aria-labelledby="charts-title" {
            div class="title" {
                h2 id="charts-title" { "Lately" }
                nav aria-label="Time span of the charts" {
                    @for (span, link, name) in spans {
                        a id={ "span-" (name.replace(' ', "-")) } href=(link) aria-current=[(span == model.span).then_some("true")] { (name) }
                        " "
                    }
                }
            }
            div class="charts" { @for chart in charts { (chart.render(since)) } }
        }
    }
}

/// A button for an action, with its data for the script.
fn button(action: &Action, writes: Writes) -> Markup {
    html! {
        button type="button" id=(action.id) disabled[writes == Writes::Refused] data-method=(action.method)
            data-path=(action.path.trim_start_matches('/')) data-ask=(action.ask) data-done=(action.done) {
            (action.label)
            @if let Some(about) = &action.about { span class="unseen" { " " (about) } }
        }
    }
}

fn dialog(writes: Writes) -> Markup {
    html! {
        dialog id="ask" aria-labelledby="ask-title" aria-describedby="ask-text" {
            form method="dialog" {
                h2 id="ask-title" {}
                p id="ask-text" {}
                @if writes == Writes::Token {
                    p {
                        label for="token" { "Token (" code { "admin.token" } ")" }
                        input id="token" type="password" autocomplete="off" required;
                    }
                    p class="choice" {
                        input id="keep" type="checkbox";
                        label for="keep" { "Keep it until this tab is closed" }
                    }
                }
                p class="buttons" {
                    button type="button" id="ask-no" { "Cancel" }
                    button type="submit" id="ask-yes" class="yes" value="yes" { "Do it" }
                }
            }
        }
    }
}
