//! Admin API in the process of a command, where no server has the data directory: a server without listeners.
//!
//! So each verb has one meaning, in whichever process it runs. Callers: [`crate::cli`].

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt as _, future, stream};
use tokio::sync::mpsc;

use crate::config::{Config, Details as DetailsMode};
use crate::data::bundle::signature::Opened;
use crate::data::details::Details;
use crate::data::snapshots::SnapshotsError;
use crate::data::snapshots::import::ImportOutcome;

use super::Server;
use super::admin::status::Status;
use super::core::{Core, Role, expect_data};
use super::error::AppError;
use super::services::Services;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Stored,
    /// The same, to write it to a file. A bundle is made in this directory: the disk of the data may be full or read-only.
    Export(PathBuf),
    /// A place for a bundle: what is missing is made, what is damaged is repaired.
    Import,
    /// A whole copy of the origin, whatever details the server is configured to fetch.
    Sync,
    /// Samples of the origin.
    Audit,
}

impl Purpose {
    fn open(&self, config: &Config) -> Result<Core, AppError> {
        match self {
            Self::Stored => Core::open_data(config, false),
            Self::Export(scratch) => Ok(Core { scratch: scratch.clone(), ..Core::open_data(config, false)? }),
            Self::Import => Core::open_data(config, true),
            Self::Sync => Core::open(config),
            Self::Audit => expect_data(config).and_then(|()| Core::open(config)),
        }
    }

    const fn tasks(&self) -> &'static [&'static str] {
        match self {
            Self::Stored | Self::Export(_) | Self::Import => &[],
            Self::Sync => &["mirror", "examiner", "details"],
            Self::Audit => &["mirror", "examiner"],
        }
    }
}

pub(crate) struct Hosted {
    services: Services,
    connections: mpsc::UnboundedSender<UnixStream>,
    status: Arc<Status>,
}

impl Hosted {
    /// Opens the data directory, and starts what the purpose needs.
    pub(crate) fn start(config: &Config, purpose: &Purpose) -> Result<Self, AppError> {
        let mut config = config.clone();
        // What serves clients or tells others.
        config.access.enabled = false;
        (config.tls, config.publish.url, config.rate_limit.store) = (None, None, None);
        if *purpose != Purpose::Audit {
            config.mirror.details = DetailsMode::All;
        }
        let mut core = purpose.open(&config)?;
        if let (Purpose::Audit, Role::Mirror(mirror)) = (purpose, &mut core.role) {
            mirror.examiner.audits_only();
        }
        let Server { operators, tasks, status, .. } = Server::build(&config, core, None)?;
        let (mut services, (connections, mut accepted)) = (Services::new(), mpsc::unbounded_channel::<UnixStream>());
        let accepted = stream::poll_fn(move |context| accepted.poll_recv(context))
            .filter_map(|stream| future::ready(tokio::net::UnixStream::from_std(stream).ok()));
        services.accept("commands", Arc::new(operators.trusting()), accepted)?;
        for (name, task) in tasks {
            if purpose.tasks().contains(&name) {
                services.run(name, task)?;
            }
        }
        Ok(Self { services, connections, status })
    }

    /// The client's end of a connection.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        for end in [&ours, &theirs] {
            end.set_nonblocking(true)?;
        }
        self.connections.send(theirs).map_err(io::Error::other)?;
        Ok(ours)
    }

    /// Imports a bundle that was verified, as `POST /bundle` does.
    pub(crate) fn import(&self, opened: Opened, allow_older: bool) -> Result<ImportOutcome, SnapshotsError> {
        let Status { snapshots, details, .. } = &*self.status;
        let (snapshots, details) = snapshots.as_ref().zip(details.as_ref()).ok_or(SnapshotsError::Moved)?;
        snapshots.import_opened(opened, allow_older, details)
    }

    /// Ends it; returns whether every detail that arrived is stored.
    pub(crate) fn close(self) -> bool {
        self.services.stop();
        let is_stored = self.status.details.as_ref().is_none_or(Details::flush);
        self.services.end();
        is_stored
    }
}
