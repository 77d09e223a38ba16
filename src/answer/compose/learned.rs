//! The head of a learned answer to an odd request.
//!
//! It comes from our host: of the origin's fields only `Content-Type` is in it, and a document that browsers may run is
//! in a sandbox. Callers: [`crate::answer::respond`].

use http::{HeaderValue, Method, StatusCode};

use crate::answer::admit::ALLOW;
use crate::answer::find::Learned;
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::problem::Problem;

use super::{Answer, Asked, ConstantHeaders, Head, NO_STORE, NOSNIFF, Outcome, common, fields};

/// Nothing in it is loaded or run.
pub(crate) const SANDBOX: &str = "sandbox; default-src 'none'";

impl ConstantHeaders {
    /// An answer in the origin's words, in `head`.
    pub(crate) fn learned<H: Head>(&self, asked: Asked<'_>, learned: Learned, mut head: H) -> Answer<H> {
        let Learned { status, media_type, sandbox, body } = learned;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
        if status == StatusCode::OK
            && asked.conditional
            && precondition::evaluate(asked.method, asked.headers, None) == Precondition::Failed
        {
            return self.problem(asked, &Problem::precondition_failed(), None, head);
        }
        head.begin(status);
        if let Some(media_type) = media_type.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
            head.put(&fields::CONTENT_TYPE, &media_type);
        }
        head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if sandbox {
            head.put_static(&fields::CONTENT_SECURITY_POLICY, SANDBOX);
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            // RFC 9110 §15.5.6: such an answer names the methods.
            head.put_static(&fields::ALLOW, ALLOW);
        }
        head.put_number(&fields::CONTENT_LENGTH, body.len());
        let may_keep = status == StatusCode::NOT_FOUND && !asked.provisional;
        let cache_control = if may_keep { "public, max-age=60" } else { NO_STORE };
        head.put_static(&fields::CACHE_CONTROL, cache_control);
        common(&mut head, asked.limit);
        let body = (*asked.method != Method::HEAD).then_some(body);
        Answer { status, head, body, outcome: Outcome::Problem }
    }
}
