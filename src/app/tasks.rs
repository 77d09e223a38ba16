//! Tasks beside serving, as services of pingora's server.
//!
//! Callers: [`super::serve`], [`super::replica`].

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pingora::server::{Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};

use crate::audit::Auditor;
use crate::fleet::publisher::Publisher;
use crate::mirror::details::worker::DetailWorker;
use crate::mirror::edges::EdgeLearner;
use crate::mirror::sweep::Sweeper;

/// A future that runs as a service until it ends or the process stops.
pub(super) struct Task(Mutex<Option<BoxFuture<'static, ()>>>);

impl Task {
    pub(super) fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(future))))
    }
}

#[async_trait]
impl BackgroundService for Task {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(future) = self.0.lock().take() else { return };
        tokio::select! {
            () = future => {}
            _ = shutdown.changed() => {}
        }
    }
}

/// What is done beside serving.
pub(super) fn add_tasks(
    server: &mut Server,
    sweeper: Option<Sweeper>,
    auditor: Option<Auditor>,
    learner: Option<EdgeLearner>,
    worker: Option<DetailWorker>,
    publisher: Option<Publisher>,
) {
    if let Some(sweeper) = sweeper {
        server.add_service(background_service("sweep", Task::new(sweeper.run())));
    }
    if let Some(auditor) = auditor {
        server.add_service(background_service("audit", Task::new(auditor.run())));
    }
    if let Some(learner) = learner {
        server.add_service(background_service("edges", Task::new(learner.run())));
    }
    if let Some(worker) = worker {
        server.add_service(background_service("details", Task::new(worker.run())));
    }
    if let Some(publisher) = publisher {
        server.add_service(background_service("publish", Task::new(publisher.run())));
    }
}
