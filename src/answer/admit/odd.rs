//! An odd query of the list: what it asks for, and our own answer to it.
//!
//! How it is answered is decided in [`crate::snapshot::edges`]. Callers: [`super`].

use crate::api::edges::OddQuery;
use crate::api::query::{ListQuery, Parameters, QueryError};
use crate::semantics::problem::Problem;

use super::{Rules, Target};

/// An odd query of the list, and our own answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddRequest {
    /// The query.
    pub(crate) odd: OddQuery,
    /// What it counts as, or why we refuse it.
    pub(crate) ours: Result<ListQuery, Problem>,
}

/// What an odd query of the list asks for.
pub(super) fn target(raw: &str, parsed: Result<Parameters, QueryError>, rules: &Rules) -> Result<Target, Problem> {
    let odd = if rules.edges { OddQuery::read(raw) } else { None };
    match (odd, parsed) {
        (Some(odd), parsed) => {
            let ours = parsed.map(|parsed| parsed.list).map_err(refusal);
            Ok(Target::OddList(Box::new(OddRequest { odd, ours })))
        }
        (None, Ok(Parameters { list: query, snapshot: pin, .. })) => Ok(Target::List { query, pin, raw: None }),
        (None, Err(error)) => Err(refusal(error)),
    }
}

/// Why a query is refused.
pub(super) fn refusal(error: QueryError) -> Problem {
    match error {
        QueryError::BadValue { parameter, value, expected } => {
            Problem::bad_parameter(parameter, value, &format!("must be {expected}"))
        }
        QueryError::Repeated { parameter, first, second } => Problem::repeated_parameter(parameter, first, second),
    }
}
