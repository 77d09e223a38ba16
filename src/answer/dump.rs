//! Looks up a dump: which coding, how long to wait, and the error when there is none.
//!
//! Callers: [`super::respond`].

use std::time::Duration;

use http::header::RANGE;

use crate::api::route::DumpKind;
use crate::dumps::{CODINGS, DumpError, DumpPart, Freshness};
use crate::semantics::coding::{self, Coding};
use crate::semantics::problem::Problem;

use super::compose::{Answer, Asked, FromDump};
use super::respond::Responder;

/// How long a client waits while a dump is written; that goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to ask again: a mirror that has nothing yet, a dump that is being written, a disk that takes no more, in seconds.
const NO_SNAPSHOT: u64 = 30;
const STILL_WRITING: u64 = 5;
const FAILED: u64 = 60;

impl Responder {
    /// The answer from a dump, or the problem with the seconds after which another try makes sense.
    pub(super) async fn dump(
        &self,
        asked: Asked<'_>,
        kind: DumpKind,
    ) -> Result<(Answer, Option<DumpPart>), (Problem, u64)> {
        let Some(dumps) = &self.dumps else { return Err((Problem::unknown_path(kind.path()), NO_SNAPSHOT)) };
        // What decodes by itself decodes no part of a coded file.
        let coded = asked.coding != Coding::Identity && !asked.headers.contains_key(RANGE);
        let coding = if coded { coding::negotiate(asked.headers, &CODINGS) } else { Coding::Identity };
        let ready = tokio::time::timeout(PATIENCE, dumps.get(kind, coding, Freshness::WithinTtl)).await;
        let (built, published) = match ready {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => return Err(told(&error)),
            Err(_elapsed) => return Err((Problem::dump_unavailable("The dump is being written"), STILL_WRITING)),
        };
        let found = FromDump { kind, coding, built: &built, published: &published };
        Ok(self.constant_headers.load().dump(asked, found, self.clock.now()))
    }
}

/// The error for the client; the log has the details.
fn told(error: &DumpError) -> (Problem, u64) {
    match error {
        DumpError::Nothing => (Problem::dump_unavailable("There is no snapshot yet"), NO_SNAPSHOT),
        DumpError::Columns(most) => {
            let why = format!(
                "The listings have more than {most} different fields, too many for a table; /dumps/listings.ndjson has all"
            );
            (Problem::dump_unavailable(&why), 86_400)
        }
        DumpError::Summary { .. } | DumpError::Store(_) | DumpError::Io(_) | DumpError::Aborted(_) => {
            (Problem::dump_unavailable("The dump cannot be written; the server's log says why"), FAILED)
        }
    }
}
