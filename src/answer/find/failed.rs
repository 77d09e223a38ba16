//! The error for a client when the origin gives no answer.
//!
//! Callers: [`super`], [`crate::answer::respond`].

use super::Found;
use crate::clock::ceil_seconds;
use crate::semantics::problem::Problem;
use crate::upstream::client::AskError;

/// The error for a client when the origin gives no answer.
pub(crate) fn failed(error: &AskError) -> Found {
    // The log and `/status` have the details. Clients need not know addresses of the origin.
    if error.is_nonsense() {
        let what = match error {
            AskError::TooLarge { .. } => "is too large".to_owned(),
            AskError::Redirect { .. } => "is a redirect, which is not followed".to_owned(),
            AskError::Status { status, .. } => format!("has the status {status}"),
            _ => "is not a valid answer to this request".to_owned(),
        };
        return Problem::bad_origin_answer(&what).into();
    }
    let why = match error {
        AskError::Spent(spent) if spent.paused => {
            "Requests to the origin are paused, because it fails or asked for a pause".to_owned()
        }
        AskError::Spent(_) => "The request budget of the origin is used up".to_owned(),
        AskError::Status { status, .. } => format!("The origin answered {status}"),
        AskError::Timeout { .. } => "The origin did not answer in time".to_owned(),
        _ => "The origin is unreachable".to_owned(),
    };
    let retry_after = error.retry_after();
    let seconds = ceil_seconds(retry_after);
    Found::Problem { problem: Problem::unavailable(&why), retry_after: Some(seconds.max(1)) }
}
