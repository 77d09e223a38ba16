//! Deadlines and bounds for the admin listener: slow and silent clients are disconnected, and foreign requests refused.
//!
//! Bundles, which may be large, have a deadline per read and write; an upload has one for the whole as well. Callers:
//! [`crate::server`] hands it to pingora, in front of [`super::Admin`].

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::request::Parts;
use http::{Method, StatusCode};
use pingora::ErrorType;
use pingora::apps::ServerApp;
use pingora::http::ResponseHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use pingora_timeout::timeout;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::edge::answer::write::{Persistence, http1};
use crate::edge::serve::connections::{Connection, Connections, InFlight, MostConnections};
use crate::edge::serve::request_head::{self, UnreadHead};
use crate::edge::serve::write;
use crate::telemetry::counters::ConnectionCounters;

use super::bundle::Sent;
use super::snapshots::Action;
use super::{Admin, Reply, error, guard};

/// For reading the head of a request, including the wait on an idle connection; and for an answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// For a command that waits for its turn, and for a disk: a day.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// For reading the rest of an upload after the answer.
const LINGER: Duration = Duration::from_secs(30);

/// The same after a refusal: anybody can send an upload that is refused.
const REFUSED_LINGER: Duration = Duration::from_secs(5);

/// The connections on the socket of the data directory. Strangers at the listener take none of them.
const ON_SOCKET: MostConnections = MostConnections { name: "admin.sock", all: 32, each: usize::MAX, ipv6_prefix: 64 };

pub(crate) struct AdminFront {
    admin: Arc<Admin>,
    /// Whether whoever can connect may do everything: connections come from a socket whose permissions say who can.
    trusts: bool,
    /// A stop waits for requests here, too.
    in_flight: InFlight,
    connections: Connections,
}

/// An exchange whose answer is ready.
struct Ending {
    session: ServerSession,
    /// `None`: it is sent already.
    reply: Option<Reply>,
    /// How long the rest of an upload is read after the answer: otherwise a client that is still writing would not see it.
    linger: Option<Duration>,
}

impl AdminFront {
    pub(crate) fn new(admin: Admin, in_flight: InFlight, connections: Connections) -> Self {
        Self { admin: Arc::new(admin), trusts: false, in_flight, connections }
    }

    /// The same before a socket whose permissions are the trust.
    pub(crate) fn trusting(&self) -> Self {
        let (in_flight, counters) = (self.in_flight.clone(), ConnectionCounters::default());
        let connections = Connections::new(ON_SOCKET, counters);
        Self { admin: self.admin.clone(), trusts: true, in_flight, connections }
    }
}

#[async_trait]
impl ServerApp for AdminFront {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let Ok(connection) = self.connections.admit(None).await else { return None };
        let mut leave = pin!(connection.told_to_leave());
        let mut next = Some(stream);
        while let Some(mut stream) = next {
            connection.set_idle(Instant::now());
            let head = tokio::select! {
                biased;
                // First, so that a request that has arrived is answered before the connection leaves.
                head = timeout(DEADLINE, request_head::read(&mut stream, None)) => head,
                () = leave.as_mut() => return None,
            };
            connection.set_busy();
            match head {
                Ok(Ok(head)) => {
                    let mut session = ServerSession::new_http1(stream);
                    session.set_pipelined_prefix(head);
                    next = self.exchange(session, shutdown, &connection, leave.as_mut()).await;
                }
                Ok(Err(UnreadHead::Refused(refusal))) => {
                    connection.set_idle(Instant::now());
                    tokio::select! {
                        () = self.say(stream, error(refusal.status(), refusal.detail())) => {}
                        () = leave.as_mut() => {}
                    }
                    return None;
                }
                Ok(Err(UnreadHead::Gone)) | Err(_) => return None,
            }
        }
        None
    }

    async fn cleanup(&self) {
        self.connections.close();
    }
}

impl AdminFront {
    /// Writes an answer without pingora's help, and ends the connection.
    async fn say(&self, mut stream: Stream, reply: Reply) {
        let (parts, body) = reply.into_parts();
        let now = self.admin.status.clock.now_wall();
        let head = http1(parts.status, &parts.headers.into(), now, Persistence::Close);
        let sent = timeout(DEADLINE, async {
            stream.write_all(&head).await?;
            stream.write_all(&body).await?;
            stream.flush().await
        })
        .await;
        if matches!(sent, Ok(Ok(()))) {
            write::lingering_close(stream).await;
        }
    }

    /// Serves a request whose head is complete; returns the connection if another request may follow.
    async fn exchange(
        &self,
        session: ServerSession,
        shutdown: &ShutdownWatch,
        connection: &Connection,
        leave: Pin<&mut Notified<'_>>,
    ) -> Option<Stream> {
        let _busy = self.in_flight.enter();
        let ending = self.answer(session, shutdown).await?;
        // The rest is up to the client: meanwhile the connection may be closed for a new one.
        connection.set_idle(Instant::now());
        tokio::select! {
            biased;
            next = self.end(ending) => next,
            () = leave => None,
        }
    }

    /// Answers a request; `None`: the connection ends.
    async fn answer(&self, mut session: ServerSession, shutdown: &ShutdownWatch) -> Option<Ending> {
        session.set_read_timeout(Some(Duration::from_secs(10)));
        session.set_write_timeout(Some(Duration::from_secs(30)));
        // Dropping the session closes the connection.
        match timeout(DEADLINE, session.read_request()).await.ok()? {
            Ok(read) if read => {}
            Err(why) if matches!(why.etype(), ErrorType::InvalidHTTPHeader) => {
                let refusal = error(StatusCode::BAD_REQUEST, "the request is not valid HTTP");
                timeout(DEADLINE, write(&mut session, refusal)).await.ok()?.ok()?;
                session.shutdown().await;
                return None;
            }
            Ok(_) | Err(_) => return None,
        }
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        let local = session.server_addr().and_then(|address| address.as_inet()).map(SocketAddr::ip);
        let request: &Parts = session.req_header();
        let request = request.clone();
        let method = &request.method;
        let (is_for_us, may_write) = if self.trusts {
            (Ok(()), Ok(()))
        } else {
            let config = &self.admin.status.settings.load().admin;
            (guard::is_for_us(config, local, &request), guard::may_write(config, &request.headers))
        };
        if let Err(foreign) = is_for_us {
            session.set_keepalive(None);
            let mut refusal = error(StatusCode::FORBIDDEN, &foreign);
            if *method == Method::HEAD {
                refusal.body_mut().clear();
            }
            return Some(Ending { session, reply: Some(refusal), linger: Some(REFUSED_LINGER) });
        }
        if request.uri.path() == "/bundle" && matches!(*method, Method::GET | Method::POST) {
            // The rest of an upload is not read.
            session.set_keepalive(None);
            // Both cost work, and an export is remembered.
            let (sent, linger) = match may_write {
                Ok(()) => (self.admin.bundles.answer(method, request.uri.query(), &mut session).await, LINGER),
                Err(refusal) => (Sent::Reply(error(StatusCode::FORBIDDEN, refusal.as_str())), REFUSED_LINGER),
            };
            return match sent {
                Sent::Reply(reply) => Some(Ending { session, reply: Some(reply), linger: Some(linger) }),
                Sent::File(download) => {
                    self.admin.bundles.send(&mut session, *download).await.ok()?;
                    Some(Ending { session, reply: None, linger: None })
                }
            };
        }
        // A command on snapshots waits for an import, and its result is sent, however late.
        let deadline = if Action::of_path(request.uri.path()).is_some() { PATIENCE } else { DEADLINE };
        let reply = timeout(deadline, self.admin.answer(&request, may_write)).await.ok()?;
        Some(Ending { session, reply: Some(reply), linger: None })
    }

    /// Sends an answer; returns the connection if another request may follow.
    async fn end(&self, Ending { mut session, reply, linger }: Ending) -> Option<Stream> {
        if let Some(reply) = reply {
            timeout(DEADLINE, write(&mut session, reply)).await.ok()?.ok()?;
        }
        if let Some(linger) = linger {
            // It ends with the time, with the body, or with the connection.
            let _ = timeout(linger, async { while let Ok(Some(_)) = session.read_request_body().await {} }).await;
        }
        // Pipelined requests are not served: pingora ends the connection.
        let reusable = timeout(DEADLINE, session.finish()).await.ok()?.ok()??;
        Some(reusable.into_parts().0)
    }
}

async fn write(session: &mut ServerSession, reply: Reply) -> pingora::Result<()> {
    let (head, body) = reply.into_parts();
    session.write_response_header(Box::new(ResponseHeader::from(head))).await?;
    if body.is_empty() {
        return Ok(());
    }
    session.write_response_body(body.into(), true).await
}
