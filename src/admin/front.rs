//! Deadlines for the operator's listener: a client that drips bytes, or never sends any, is let go.
//!
//! Callers: [`crate::app`] hands it to pingora, in front of [`super::Admin`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;

use super::Admin;

/// For reading a request, waiting for it on an idle connection included, and for its answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// The operator's listener behind a deadline.
pub struct AdminFront(Arc<Admin>);

impl AdminFront {
    /// A front before `admin`.
    pub fn new(admin: Admin) -> Self {
        Self(Arc::new(admin))
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
        pingora_timeout::timeout(DEADLINE, self.0.process_new_http(session, shutdown)).await.ok().flatten()
    }
}
