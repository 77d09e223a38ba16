//! A request of an unknown path: streams its body, interim answers and the answer.
//!
//! [`crate::proxy`] decides whether the origin is asked. Callers: [`super::public`].

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::{HeaderMap, Version};
use pingora::protocols::http::ServerSession;
use tokio::sync::mpsc;

use crate::answer::admit::MAX_REQUEST_BODY;
use crate::answer::compose::Asked;
use crate::answer::respond::RequestInfo;
use crate::limit::Decision;
use crate::proxy::question::{Endpoint, Question};
use crate::semantics::caching::end_to_end;
use crate::semantics::coding::Coding;
use crate::semantics::framing::MOST_INTERIM;
use crate::semantics::problem::Problem;
use crate::upstream::wire::Interim;

use super::public::Public;
use super::rest::Rest;
use super::write::{Broken, Shared, head, in_time};

/// How long the body of a request may take in all.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

impl Public {
    pub(super) async fn pass_through(
        &self,
        session: &mut ServerSession,
        target: Bytes,
        info: RequestInfo,
        limit: Decision,
        shared: Shared<'_>,
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
            provisional: false,
        };
        let Some(proxy) = &self.answers.proxy else {
            let problem = Problem::unknown_path(&target[..]);
            let answer = self.answers.constant_headers.load().problem(asked, &problem, None, HeaderMap::new());
            return self.send(session, info, answer, None, shared).await;
        };
        let body = if session.is_body_empty() {
            Bytes::new()
        } else {
            match tokio::time::timeout(BODY_DEADLINE, body(session)).await {
                Ok(body) => body?,
                Err(_elapsed) => return Err(Broken),
            }
        };
        let client = info.client;
        let question = Question {
            method: method.clone(),
            target,
            fields: fields.clone(),
            body,
            client,
            for_many: self.answers.rules.load().client_ip.trusts(client),
            version,
            endpoint: Endpoint::Unknown,
        };
        let (tell, mut told) = mpsc::channel::<Interim>(MOST_INTERIM);
        let asking = proxy.ask(question, Some(Arc::new(move |interim| drop(tell.try_send(interim)))));
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
        let (answer, rest) = self.answers.passed(asked, proxy, passed);
        self.send(session, info, answer, rest.map(Rest::Origin), shared).await
    }
}

/// An interim answer, for HTTP/1.1 clients only (pingora sends none over HTTP/2).
async fn interim_answer(
    session: &mut ServerSession,
    version: Version,
    (status, fields): Interim,
) -> Result<(), Broken> {
    if version == Version::HTTP_11 && status != http::StatusCode::CONTINUE {
        let fields = end_to_end(&fields, false);
        in_time(None, session.write_response_header(Box::new(head(status, fields)))).await?;
    }
    Ok(())
}

/// The whole body of a request, whose announced length is within bounds.
async fn body(session: &mut ServerSession) -> Result<Bytes, Broken> {
    if session.req_header().headers.contains_key(EXPECT) {
        in_time(None, session.write_continue_response()).await?;
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
