//! A request of an unknown path: its body goes out, interim answers and the answer come back as they arrive.
//!
//! Whether the origin is asked at all is the business of [`crate::proxy::pass_through`]. Callers: [`super::public`].

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{HeaderMap, Version};
use pingora::protocols::http::ServerSession;
use tokio::sync::mpsc;

use crate::limit::Decision;
use crate::pipeline::admit::MAX_REQUEST_BODY;
use crate::pipeline::answer::Asked;
use crate::proxy::pass_through::{PassError, Passed, Question};
use crate::proxy::upstream::Interim;
use crate::semantics::caching::end_to_end;
use crate::semantics::coding::Coding;
use crate::semantics::framing::MOST_INTERIM;
use crate::semantics::problem::Problem;

use super::find::{Found, failed};
use super::public::{Broken, Of, Public, head, in_time};

/// How long the body of a request may take in all.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

impl Public {
    pub(super) async fn pass_through(
        &self,
        session: &mut ServerSession,
        target: Bytes,
        of: Of,
        limit: Decision,
    ) -> Result<(), Broken> {
        let request = session.req_header();
        let (method, fields, version) = (request.method.clone(), request.headers.clone(), request.version);
        let asked = Asked {
            method: &method,
            headers: &fields,
            limit,
            coding: Coding::Identity,
            conditional: true,
            passes: true,
        };
        let problem = |problem: &Problem, after| self.standing.problem(asked, problem, after, HeaderMap::new());
        let Some(pass) = &self.pass else {
            return self.send(session, of, problem(&Problem::unknown_path(&target[..]), None), None).await;
        };
        let body = if session.is_body_empty() {
            Bytes::new()
        } else {
            match tokio::time::timeout(BODY_DEADLINE, body(session)).await {
                Ok(body) => body?,
                Err(_elapsed) => return Err(Broken),
            }
        };
        let question =
            Question { method: method.clone(), target, fields: fields.clone(), body, client: of.client, version };
        let (tell, mut told) = mpsc::channel::<Interim>(MOST_INTERIM);
        let asking = pass.ask(question, move |interim| drop(tell.try_send(interim)));
        let mut asking = std::pin::pin!(asking);
        let passed = loop {
            tokio::select! {
                biased;
                Some(interim) = told.recv() => interim_answer(session, version, interim).await?,
                passed = &mut asking => break passed,
            }
        };
        // The last of them may have come together with the answer.
        while let Ok(interim) = told.try_recv() {
            interim_answer(session, version, interim).await?;
        }
        let (mut answer, rest) = match passed {
            Ok(Passed::Stored { stored, outcome }) => {
                (self.standing.stored(asked, &stored, outcome, self.clock.now_mono()), None)
            }
            Ok(Passed::Streamed { head, body, outcome }) => {
                let answer = self.standing.streamed(asked, head.status, &head.fields, outcome);
                // A failed condition has a body of ours.
                let follows = answer.body.as_ref().is_some_and(Bytes::is_empty);
                (answer, body.filter(|_| follows))
            }
            Err(PassError::OnlyIfCached) => (problem(&Problem::only_if_cached(), None), None),
            Err(PassError::Ask(error)) => match failed(&error) {
                Found::Problem { problem: why, retry_after } => (problem(&why, retry_after), None),
                _ => (problem(&Problem::internal(), None), None),
            },
        };
        pass.lead_here(&mut answer.head);
        self.send(session, of, answer, rest).await
    }
}

/// An interim answer, for those who understand it: HTTP/1.1 clients (pingora sends none over HTTP/2).
async fn interim_answer(
    session: &mut ServerSession,
    version: Version,
    (status, fields): Interim,
) -> Result<(), Broken> {
    if version == Version::HTTP_11 && status != http::StatusCode::CONTINUE {
        let fields = end_to_end(&fields, false);
        in_time(session.write_response_header(Box::new(head(status, fields)))).await?;
    }
    Ok(())
}

/// The whole of a request's body, whose announced length is within bounds.
async fn body(session: &mut ServerSession) -> Result<Bytes, Broken> {
    if session.req_header().headers.contains_key(EXPECT) {
        in_time(session.write_continue_response()).await?;
    }
    let mut body = BytesMut::new();
    while let Some(piece) = session.read_request_body().await? {
        if (body.len() + piece.len()) as u64 > MAX_REQUEST_BODY {
            return Err(Broken);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}
