//! The admin API in the process of a command, where no server has the data directory: a server without listeners.
//!
//! So that each verb has one meaning, whoever carries it out. Callers: [`crate::cli`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt as _, future, stream};
use tokio::sync::mpsc;

use crate::config::{Config, Details as DetailsMode};
use crate::mirror::details::Details;

use super::Server;
use super::core::{Core, expect_data};
use super::error::AppError;
use super::services::Services;
use super::sockets::Addresses;

/// What a command needs of the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What is stored.
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

    /// The names of the server's tasks that run.
    const fn tasks(&self) -> &'static [&'static str] {
        match self {
            Self::Stored | Self::Export(_) | Self::Import => &[],
            Self::Sync => &["mirror", "examiner", "details"],
            Self::Audit => &["mirror", "audit"],
        }
    }
}

/// A server without listeners.
pub(crate) struct Hosted {
    services: Services,
    connections: mpsc::UnboundedSender<UnixStream>,
    details: Option<Details>,
}

impl Hosted {
    /// Opens the data directory, and starts what the purpose needs.
    pub(crate) fn start(config: &Config, purpose: &Purpose) -> Result<Self, AppError> {
        let mut config = config.clone();
        // What serves clients or tells others.
        config.access.enabled = false;
        (config.tls, config.publish.url, config.rate_limit.store) = (None, None, None);
        match purpose {
            Purpose::Audit => config.mirror.examine_per_hour = 0,
            _ => config.mirror.details = DetailsMode::All,
        }
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = Addresses { public: Vec::new(), tls: Vec::new(), admin: nowhere };
        let Server { operators, tasks, details, .. } =
            Server::build(&config, &addresses, purpose.open(&config)?, None)?;
        let (mut services, (connections, mut accepted)) = (Services::new(), mpsc::unbounded_channel::<UnixStream>());
        let accepted = stream::poll_fn(move |context| accepted.poll_recv(context))
            .filter_map(|stream| future::ready(tokio::net::UnixStream::from_std(stream).ok()));
        services.accept("commands", Arc::new(operators.trusting()), accepted)?;
        for (name, task) in tasks {
            if purpose.tasks().contains(&name) {
                services.run(name, task)?;
            }
        }
        Ok(Self { services, connections, details })
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

    /// Ends it; returns whether every detail that arrived is stored.
    pub(crate) fn close(self) -> bool {
        self.services.stop();
        let is_stored = self.details.as_ref().is_none_or(Details::flush);
        self.services.end();
        is_stored
    }
}
