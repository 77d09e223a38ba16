//! Which server a command is about, and who carries the command out: that server, or this process.
//!
//! Not what is asked of it. Callers: the commands that a running server can execute.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::admin::facts::StatusFacts;
use crate::app::error::AppError;
use crate::config::Config;
use crate::store::{DataDir, Holder as LockHolder, OpenError};

use super::server::Server;
use super::terminal::tell;
use super::{Failure, Sources, examine_to_ask, load};

/// How long to wait for another command to end, or for a starting server to announce its admin listener.
const HELD: Duration = Duration::from_secs(10);

/// Which server a command is about.
#[derive(Debug, Args)]
pub(super) struct Named {
    #[command(flatten)]
    sources: Sources,
    /// Address of the server's admin listener; the port is 9090 unless you write another
    ///
    /// Without it, the server is the one that has the data directory. If you cannot read that directory, it is the one at
    /// admin.listen, if the configuration sets that.
    #[arg(long, value_name = "URL|HOST:PORT", value_parser = admin_url)]
    admin: Option<String>,
}

impl Named {
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
        if self.admin.is_some() {
            return Ok(examine_to_ask(&self.sources, true, true).finish().map_err(Failure::Config)?.config);
        }
        let config = load(&self.sources)?.config;
        fits(&config)?;
        Ok(config)
    }

    /// The server to use: [`Chosen`] by more than a default; `None`: nobody holds the data directory, or its holder has not
    /// announced its address.
    pub(super) fn running(&self) -> Result<Option<Server>, Failure> {
        let chosen = Chosen::find(self, false)?;
        if chosen.is_default { Ok(None) } else { chosen.expected().map(Some) }
    }

    /// The server to use, or else what `open` opens here, as soon as another command is done. Waits for it at most
    /// [`HELD`].
    pub(super) fn holder<T>(
        &self,
        config: &Config,
        open: impl Fn(&Config) -> Result<T, AppError>,
    ) -> Result<Holder<T>, Failure> {
        if let Some(server) = self.running()? {
            return Ok(Holder::There(server));
        }
        let began = Instant::now();
        loop {
            return match open(config) {
                Ok(opened) => Ok(Holder::Here(opened)),
                Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
                    Ok(Holder::There(Server::new(format!("http://{admin}"), config)))
                }
                Err(AppError::Open(OpenError::Held { untrusted: None, .. })) if began.elapsed() < HELD => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Err(AppError::Open(OpenError::Held { path, pid, untrusted: None, .. })) => {
                    let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
                    Err(TargetError::Silent(path.display().to_string(), pid).into())
                }
                Err(error) => Err(error.into()),
            };
        }
    }
}

/// Why it is not known who carries a command out.
#[derive(Debug, thiserror::Error)]
enum TargetError {
    #[error(
        "{0} is locked by process {1} (another grandstand command, a server that is still starting, or one in a container); try again later"
    )]
    Silent(String, String),
    #[error(
        "data_dir {} cannot be read, so it does not tell where its server is: {source}; run this command as the owner of \
         the directory, or give the address of the server's admin listener with --admin",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "the server at {admin} has the data directory {theirs}, but data_dir is {}; give the address of the right \
         server with --admin; if data_dir was changed, restart the server first",
        ours.display()
    )]
    Another { admin: String, theirs: String, ours: PathBuf },
}

/// Who carries a command out.
pub(super) enum Holder<T> {
    /// This process, with what it has opened.
    Here(T),
    There(Server),
}

/// The server to ask.
pub(super) struct Chosen {
    pub server: Server,
    /// The data directory that it must have, if it was not found by it.
    data_dir: Option<PathBuf>,
    /// Nothing names a server: it is the one at `admin.listen`, if there is one.
    is_default: bool,
}

impl Chosen {
    /// The one rule, for every command: an address on the command line wins. Without one, the data directory names its
    /// server. If this user cannot read the directory, the server is the one at `admin.listen`, where that is set.
    /// `warns`: as in [`examine_to_ask`]. Fails if the directory belongs to a user that is not trusted.
    pub(super) fn find(Named { sources, admin: address }: &Named, warns: bool) -> Result<Self, Failure> {
        let examined = examine_to_ask(sources, address.is_some(), warns);
        let [data_dir_is_set, listen_is_set] = ["data_dir", "admin.listen"].map(|key| examined.is_set(key));
        let config = &examined.finish().map_err(Failure::Config)?.config;
        let (path, listen) = (&config.data_dir, config.admin.listen);
        // Port 0 names no server.
        let listen_is_set = listen_is_set && listen.port() != 0;
        let at =
            |admin: String, data_dir, is_default| Ok(Self { server: Server::new(admin, config), data_dir, is_default });
        let data_dir = data_dir_is_set.then(|| path.clone());
        if let Some(address) = address {
            return at(address.clone(), data_dir, false);
        }
        match DataDir::holder(path) {
            Some(LockHolder { pid, admin, untrusted: untrusted @ Some(_) }) => {
                return Err(OpenError::Held { path: path.clone(), pid, admin, untrusted }.into());
            }
            Some(LockHolder { admin: Some(admin), .. }) => return at(format!("http://{admin}"), None, false),
            _ => {}
        }
        match DataDir::expect_readable(path) {
            Ok(()) => at(format!("http://{listen}"), data_dir, true),
            Err(source) if listen_is_set && source.kind() == ErrorKind::PermissionDenied => {
                tell(format!("data_dir {} cannot be read ({source}); trying admin.listen, {listen}", path.display()));
                at(format!("http://{listen}"), Some(path.clone()), false)
            }
            Err(source) => Err(TargetError::Unreadable { path: path.clone(), source }.into()),
        }
    }

    /// The server, asked first whether it has the expected data directory.
    pub(super) fn expected(self) -> Result<Server, Failure> {
        self.expect(&self.server.look()?.facts)?;
        Ok(self.server)
    }

    /// Whether the server has the expected data directory. Earlier versions do not tell it.
    pub(super) fn expect(&self, facts: &StatusFacts) -> Result<(), Failure> {
        let resolved = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        let theirs = &facts.data_dir;
        match &self.data_dir {
            Some(ours) if !theirs.is_empty() && resolved(ours) != resolved(Path::new(theirs)) => {
                let (admin, ours) = (self.server.admin.clone(), resolved(ours).unwrap_or_else(|| ours.clone()));
                Err(TargetError::Another { admin, theirs: theirs.clone(), ours }.into())
            }
            _ => Ok(()),
        }
    }
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
    let usable = url::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if usable {
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
        for text in ["", ":9090", "ftp://127.0.0.1:9090", "127.0.0.1:99999", "http://", "a b:1", "::1", "::1:9090"] {
            assert!(admin_url(text).is_err(), "{text}");
        }
    }
}
