//! Target of a command: a running server, or one in this process.
//!
//! Not what is asked of it. Callers: the commands that ask a server.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::config::Config;
use crate::data::store::{DataDir, StoreError, process};
use crate::server::admin::socket::path_in;
use crate::server::error::AppError;
use crate::server::hosted::{Hosted, Purpose};

use super::server::Server;
use super::terminal::tell;
use super::{Failure, Sources, examine_to_ask, load};

/// How long to wait for another command to end, or for a starting server to listen.
const HELD: Duration = Duration::from_secs(10);

/// Which server a command is about.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    #[command(flatten)]
    sources: Sources,
    /// Address of the server's admin listener; the port is 9090 unless you write another
    ///
    /// Without it, the server is the one on the socket admin.sock in the data directory. If you cannot read that directory,
    /// or the server could not make the socket, it is the one at admin.listen.
    #[arg(long, value_name = "URL|HOST:PORT", value_parser = admin_url)]
    admin: Option<String>,
}

impl ServerArgs {
    fn sets_data_dir(&self) -> bool {
        self.sources.sets.iter().any(|set| set.split('=').next().unwrap_or_default().trim() == "data_dir")
    }

    /// Whether `--set` has keys that do not say which server it is.
    pub(super) fn sets_more_than_an_address(&self) -> bool {
        let says_which = |set: &String| {
            let key = set.split('=').next().unwrap_or_default().trim();
            key == "data_dir" || key.starts_with("admin")
        };
        !self.sources.sets.iter().all(says_which)
    }

    /// The configuration. With an address, it only has to say how to ask that server; else it must be one for which this
    /// process can carry the command out: it is without mistakes, and `fits`.
    pub(super) fn config(&self, fits: impl FnOnce(&Config) -> Result<(), Failure>) -> Result<Config, Failure> {
        let sources = self.sources.told();
        if self.admin.is_some() {
            return Ok(examine_to_ask(&sources, true, true).finish().map_err(Failure::Config)?.config);
        }
        let config = load(&sources)?.config;
        fits(&config)?;
        Ok(config)
    }

    /// The server that is named or has the data directory, asked whether it answers. `None`: nobody has the directory, or
    /// its holder cannot be reached (yet).
    pub(super) fn running(&self) -> Result<Option<Server>, Failure> {
        self.find(false).map(|(server, _)| server)
    }

    /// The same for what only a running server can do: where nobody has the directory, it is the one at `admin.listen`.
    pub(super) fn at_least_listening(&self, warns: bool) -> Result<Server, Failure> {
        let _said = self.sources.told();
        let (server, listening) = self.find(warns)?;
        Ok(server.unwrap_or(listening))
    }

    /// The server that is named or has the data directory, or else one in this process, as soon as another command is done.
    /// Waits for it at most [`HELD`].
    pub(super) fn server(&self, config: &Config, purpose: &Purpose) -> Result<Server, Failure> {
        let began = Instant::now();
        loop {
            if let Some(server) = self.running()? {
                return Ok(server);
            }
            match Hosted::start(config, purpose) {
                Ok(hosted) => return Ok(Server::here(hosted, config)),
                // The holder of the lock may be a server by now: it is looked for again.
                Err(AppError::Open(StoreError::Held { .. })) if began.elapsed() < HELD => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(AppError::Open(StoreError::Held { path, pid })) => {
                    let path = path.display().to_string();
                    return Err(TargetError::Silent { path, process: process(pid) }.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The one rule, for every command: an address on the command line wins. Without one, it is the server on the socket in
    /// the data directory. If this user cannot enter that directory, or it is held by a server without a socket, it is the
    /// one at `admin.listen`, which is returned, too. `warns`: as in [`examine_to_ask`].
    fn find(&self, warns: bool) -> Result<(Option<Server>, Server), Failure> {
        let examined = examine_to_ask(&self.sources.found(), self.admin.is_some(), warns);
        let [listen_is_set, data_dir_is_set] = ["admin.listen", "data_dir"].map(|key| examined.is_set(key));
        let config = examined.finish().map_err(Failure::Config)?.config;
        let (path, listen) = (&config.data_dir, config.admin.listen);
        let at = |address: String, has_path: bool| Server::at(address, &config, has_path.then(|| path.clone()));
        let listening = |has_path| at(format!("http://{listen}"), has_path);
        let found = |server: Option<Server>| Ok((server, listening(data_dir_is_set)));
        if let Some(address) = &self.admin {
            // It wins over a configuration of this machine, but not over a directory that is named beside it.
            return found(Some(at(address.clone(), self.sets_data_dir()).expected()?));
        }
        let socket = path_in(path);
        match connect(&socket) {
            Ok(()) => match Server::on(&socket).expected() {
                // It has stopped meanwhile.
                Err(_) if connect(&socket).is_err() => {}
                server => return found(Some(server?)),
            },
            // Its queue is full, because it accepts nothing.
            Err(source) if matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(TargetError::Hangs { socket }.into());
            }
            Err(source) if source.kind() == ErrorKind::PermissionDenied => {
                // Port 0 names no server.
                if !listen_is_set || listen.port() == 0 {
                    return Err(TargetError::Unreadable { path: path.clone(), source }.into());
                }
                tell(format!("data_dir {} cannot be read ({source}); trying admin.listen, {listen}", path.display()));
                return found(Some(listening(true).expected()?));
            }
            // There is none, or it is a killed server's.
            Err(_) => {}
        }
        DataDir::expect_readable(path).map_err(|source| TargetError::Unreadable { path: path.clone(), source })?;
        let holder = DataDir::holder(path).filter(|_| listen.port() != 0);
        found(holder.and_then(|_| listening(true).expected().ok()))
    }
}

/// Whether a server accepts connections on a socket.
fn connect(path: &Path) -> io::Result<()> {
    Socket::new(Domain::UNIX, Type::STREAM, None)?.connect_timeout(&SockAddr::unix(path)?, Duration::from_secs(10))
}

/// Why it is not known who carries a command out.
#[derive(Debug, thiserror::Error)]
enum TargetError {
    #[error(
        "{path} is locked by {process} (another grandstand command, a server that is still starting, or one whose admin \
         listener is not at admin.listen); try again later, or give its address with --admin"
    )]
    Silent { path: String, process: String },
    #[error(
        "the server at {} accepts no connection; see its log, and whether the machine or its disk is overloaded",
        socket.display()
    )]
    Hangs { socket: PathBuf },
    #[error(
        "data_dir {} cannot be read, so it does not tell where its server is: {source}; run this command as the owner of \
         the directory, or give the address of the server's admin listener with --admin",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
}

/// The base address of an admin listener: a URL, or a host, perhaps with a port.
fn admin_url(text: &str) -> Result<String, String> {
    let (host, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let url = match (text.contains("://"), has_port) {
        (true, _) => text.to_owned(),
        (false, true) => format!("http://{text}"),
        (false, false) => format!("http://{host}:{}{path}", Config::default().admin.listen.port()),
    };
    let parsed = url::Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if let Some(parsed) = parsed {
        // Errors show the address.
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("write it without user and password: the server asks for admin.token alone".to_owned());
        }
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err("write a URL or HOST:PORT, such as http://127.0.0.1:9090 or 127.0.0.1:9090; an IPv6 address needs brackets, such \
             as [::1]:9090"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_listener_is_named_by_url_or_by_host_and_port() {
        for (text, url) in [
            ("127.0.0.1:9090", "http://127.0.0.1:9090"),
            ("localhost:9090", "http://localhost:9090"),
            ("[::1]:9090", "http://[::1]:9090"),
            ("http://127.0.0.1:9090/", "http://127.0.0.1:9090"),
            ("https://ops.example/venues/", "https://ops.example/venues"),
            ("127.0.0.1", "http://127.0.0.1:9090"),
            ("[::1]", "http://[::1]:9090"),
            ("ops.example/venues", "http://ops.example:9090/venues"),
            ("http://ops.example", "http://ops.example"),
        ] {
            assert_eq!(admin_url(text).as_deref(), Ok(url), "{text}");
        }
        for text in [
            "",
            ":9090",
            "ftp://127.0.0.1:9090",
            "127.0.0.1:99999",
            "http://",
            "a b:1",
            "::1",
            "::1:9090",
            "http://u:p@a:1",
            "u@a",
        ] {
            assert!(admin_url(text).is_err(), "{text}");
        }
    }
}
