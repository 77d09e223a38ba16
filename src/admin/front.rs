//! Deadlines for the operator's listener: a client that drips bytes, or never sends any, is let go.
//!
//! Bundles, which may be large, have a deadline per read and write and none for the whole. Callers: [`crate::app`] hands
//! it to pingora, in front of [`super::Admin`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use pingora::apps::http_app::ServeHttp as _;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream};
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use pingora_timeout::timeout;

use crate::serve::in_flight::InFlight;

use super::bundle::{self, Sent};
use super::snapshots::Action;
use super::{Admin, Reply, error, guard};

/// For reading the head of a request, waiting for it on an idle connection included; and for an answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// For a command that waits for its turn.
const PATIENCE: Duration = Duration::from_secs(1800);

/// For reading what is left of an upload after the answer.
const LINGER: Duration = Duration::from_secs(30);

/// The operator's listener behind a deadline.
pub struct AdminFront {
    admin: Arc<Admin>,
    /// A stop waits for what is in flight here as it does for clients.
    in_flight: InFlight,
}

impl AdminFront {
    /// A front before `admin`.
    pub fn new(admin: Admin, in_flight: InFlight) -> Self {
        Self { admin: Arc::new(admin), in_flight }
    }
}

#[async_trait]
impl HttpServerApp for AdminFront {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        session.set_read_timeout(Some(Duration::from_secs(10)));
        session.set_write_timeout(Some(Duration::from_secs(30)));
        // Dropping the session closes the connection.
        if !timeout(DEADLINE, session.read_request()).await.ok()?.ok()? {
            return None;
        }
        let _busy = self.in_flight.enter();
        session.set_keepalive(if *shutdown.borrow() { None } else { Some(60) });
        let request = session.req_header();
        let (method, query) = (request.method.clone(), request.uri.query().map(str::to_owned));
        if request.uri.path() == "/bundle" && matches!(method, Method::GET | Method::POST) {
            // What is left of an upload is not waited for.
            session.set_keepalive(None);
            // Both cost work, and an export is remembered.
            let sent = match guard::may_write(&self.admin.config, &session.req_header().headers) {
                Ok(()) => self.admin.bundles.answer(&method, query.as_deref(), &mut session).await,
                Err(refusal) => Sent::Reply(error(StatusCode::FORBIDDEN, refusal.as_str())),
            };
            match sent {
                Sent::Reply(reply) => {
                    write(&mut session, reply).await.ok()?;
                    linger(&mut session).await;
                }
                Sent::File(file, exported) => {
                    bundle::send(&mut session, file, &exported).await.ok()?;
                    self.admin.bundles.remember(*exported).await;
                }
            }
        } else {
            // A command on snapshots waits for an import: what comes of it is told, however late.
            let deadline = if Action::of_path(request.uri.path()).is_some() { PATIENCE } else { DEADLINE };
            timeout(deadline, async {
                let reply = self.admin.response(&mut session).await;
                write(&mut session, reply).await
            })
            .await
            .ok()?
            .ok()?;
        }
        let settings = HttpPersistentSettings::for_session(&session);
        let reusable = timeout(DEADLINE, session.finish()).await.ok()?.ok()??;
        Some(ReusedHttpStream::from_reusable_stream(reusable, settings))
    }
}

/// Reads for a while what is left of an upload that was refused: a client that is still writing when the connection goes
/// would not see the answer.
async fn linger(session: &mut ServerSession) {
    // It ends with the time, with the body, or with the connection.
    let _ = timeout(LINGER, async { while let Ok(Some(_)) = session.read_request_body().await {} }).await;
}

async fn write(session: &mut ServerSession, reply: Reply) -> pingora::Result<()> {
    let (head, body) = reply.into_parts();
    session.write_response_header(Box::new(ResponseHeader::from(head))).await?;
    if body.is_empty() {
        return Ok(());
    }
    session.write_response_body(body.into(), true).await
}
