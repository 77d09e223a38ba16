//! Error pages for people: what is wrong, how far the first copy is, when the page tries again.
//!
//! Programs get the problem document instead. Callers: [`crate::edge::answer`], which knows who prefers which.

use maud::html;
use memchr::memchr_iter;

use crate::api::query::finder::Theme;
use crate::origin::status::Progress;
use crate::protocol::problem::{Problem, ProblemKind};

use super::Pages;
use super::layout::{self, page_below};

/// The deepest path whose page finds its way back, in slashes.
const DEEPEST: usize = 32;

impl Pages {
    /// The page for a request with this path. `first_copy`: how far that is; `None`: there is a copy, or none is made.
    pub(crate) fn problem(&self, problem: &Problem, path: &[u8], first_copy: Option<Progress>) -> String {
        let slashes = memchr_iter(b'/', path).count();
        let up = "../".repeat(slashes.saturating_sub(1).min(DEEPEST));
        let title = problem.kind().title();
        let is_missing = problem.kind() == ProblemKind::NotFound && self.site.has_snapshots;
        let scripts: &[&str] = if problem.retry_after().is_some() { &["age.js"] } else { &[] };
        let said = html! {
            h1 { (title) }
            p { (problem.detail()) }
            @if let Some(progress) = first_copy { (layout::first_copy(progress)) }
            @if let Some(seconds) = problem.retry_after() { (layout::again(seconds)) }
        };
        if path == b"/embed" {
            return layout::framed(self, (title, Theme::Auto), scripts, (&said, &layout::credit_line(None)));
        }
        let main = html! {
            section .lead {
                (said)
                p .actions {
                    a .button href={ (up) "./" } { "Overview" }
                    @if is_missing { a .button .quiet href={ (up) "explore" } { "Find a venue" } }
                }
            }
        };
        page_below(self, &up, (None, title), scripts, None, (None, &main))
    }
}
