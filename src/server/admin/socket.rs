//! The Unix socket `admin.sock` in the data directory, on which commands reach the server that has the directory.
//!
//! Its permissions are the trust: only the owner of the directory and root can connect. It is made before it has its
//! name. Where it cannot be made, it is tried again, a finding says why, and commands use `admin.listen`. Callers:
//! [`crate::server`]; commands connect to it.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use parking_lot::Mutex;
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::data::store::DataDir;
use crate::telemetry::findings::{Finding, Kind};

const NAME: &str = "admin.sock";
/// Its name until it has its permissions; not longer.
const UNFINISHED: &str = "admin.next";
/// The longest path of a socket, in bytes (unix(7)).
const LONGEST: usize = 107;
/// How long to wait after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the socket still has its name.
const LOOK: Duration = Duration::from_secs(10);
const ROOT: u32 = 0;

pub(crate) fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Why there is no socket; `None`: there is one, or nobody has tried yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct SocketState(Arc<Mutex<Option<String>>>);

impl SocketState {
    pub(super) fn finding(&self) -> Option<Finding> {
        self.0.lock().as_ref().map(|why| Finding::new(Kind::SocketMissing, why))
    }

    /// What was made, or nothing and why.
    fn of<T>(&self, data_dir: &Path, made: io::Result<T>) -> Option<T> {
        let could_not = |error| format!("{} could not be made: {error}", path_in(data_dir).display());
        let (made, why) = made.map_or_else(|error| (None, Some(could_not(error))), |made| (Some(made), None));
        *self.0.lock() = why;
        made
    }
}

/// The socket of a server. It is there from the beginning, so that a command finds it as soon as the server answers. It is
/// removed when this is dropped, before others can lock the directory.
pub(crate) struct AdminSocket {
    /// The first one is made in the beginning.
    bound: Option<Bound>,
    data_dir: DataDir,
    state: SocketState,
}

/// A socket that has its name.
struct Bound {
    listener: net::UnixListener,
    /// By which another file of its name is known.
    number: u64,
    /// Who may give commands: somebody else can have connected before it had its permissions.
    users: [u32; 3],
}

impl Bound {
    fn has_its_name(&self, data_dir: &Path) -> bool {
        fs::symlink_metadata(path_in(data_dir)).is_ok_and(|file| file.ino() == self.number)
    }

    async fn accept(&self) -> io::Result<Option<UnixStream>> {
        // A clone for this runtime: the socket is made before it.
        let (stream, _) = UnixListener::from_std(self.listener.try_clone()?)?.accept().await?;
        let may = self.users.contains(&stream.peer_cred()?.uid());
        Ok(may.then_some(stream))
    }
}

impl AdminSocket {
    pub(crate) fn new(data_dir: DataDir, state: SocketState) -> Self {
        let bound = state.of(data_dir.path(), bind(data_dir.path()));
        Self { bound, data_dir, state }
    }

    /// Its connections, without an end.
    pub(crate) fn connections(self) -> impl Stream<Item = UnixStream> {
        stream::unfold(self, |mut socket| async move { Some((socket.accept().await, socket)) })
    }

    async fn accept(&mut self) -> UnixStream {
        loop {
            let data_dir = self.data_dir.path();
            self.bound.take_if(|bound| !bound.has_its_name(data_dir));
            let Some(bound) = &self.bound else {
                // A command must not find this server by another directory.
                if self.data_dir.is_in_place() {
                    self.bound = self.state.of(data_dir, bind(data_dir));
                }
                if self.bound.is_none() {
                    tokio::time::sleep(AGAIN).await;
                }
                continue;
            };
            // Now and then it is looked whether it still has its name.
            // Cancel-safe: a connection that is not accepted waits in the queue.
            let accepted = timeout(LOOK, bound.accept()).await;
            match accepted {
                Ok(Ok(Some(stream))) => return stream,
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a connection to the admin socket was not accepted");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if self.bound.as_ref().is_some_and(|bound| bound.has_its_name(self.data_dir.path())) {
            // Without a listener, its name means nothing.
            let _ = fs::remove_file(path_in(self.data_dir.path()));
        }
    }
}

/// Listens in a directory that this process has locked: what lies there is a killed server's.
fn bind(data_dir: &Path) -> io::Result<Bound> {
    let (path, unfinished) = (path_in(data_dir), data_dir.join(UNFINISHED));
    let length = path.as_os_str().as_bytes().len();
    // Both names have ten letters: what is checked for one holds for the other.
    if length > LONGEST {
        let why = format!("its path has {length} bytes, and the system allows {LONGEST}");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = net::UnixListener::bind(&unfinished)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
    let (owner, own) = (fs::metadata(data_dir)?, geteuid().as_raw());
    if own == ROOT && owner.uid() != ROOT {
        // As the files beside it.
        chown(&unfinished, Some(owner.uid()), Some(owner.gid()))?;
    }
    let number = fs::metadata(&unfinished)?.ino();
    // Last, so that under its name it never has other permissions. The name of a killed server's socket is replaced.
    fs::rename(&unfinished, &path)?;
    Ok(Bound { listener, number, users: [ROOT, own, owner.uid()] })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_for_its_owner_alone_replaces_a_killed_server_s_and_goes_with_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_in(dir.path());
        drop(net::UnixListener::bind(&path).unwrap());
        assert_eq!(UnixStream::connect(&path).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        fs::write(dir.path().join(UNFINISHED), "").unwrap();
        let state = SocketState::default();
        let socket = AdminSocket::new(DataDir::open(dir.path()).unwrap(), state.clone());
        let _waiting = UnixStream::connect(&path).await.expect("it is there before anything is accepted");
        let mut connections = Box::pin(socket.connections());
        assert!(connections.next().await.is_some() && state.finding().is_none());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(connections);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["LOCK"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_is_too_long_is_told_and_a_directory_that_can_be_written_again_gets_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let state = SocketState::default();
        drop(AdminSocket::new(DataDir::open(dir.path().join("d".repeat(120))).unwrap(), state.clone()));
        let told = state.finding().unwrap().text;
        assert!(told.contains("admin.sock could not be made: its path has ") && told.contains("allows 107"), "{told}");

        let state = SocketState::default();
        let blocked = dir.path().join(UNFINISHED);
        fs::create_dir(&blocked).unwrap();
        let socket = AdminSocket::new(DataDir::open(dir.path()).unwrap(), state.clone());
        let mut connections = Box::pin(socket.connections());
        assert!(futures_util::poll!(connections.next()).is_pending());
        assert!(state.finding().is_some());
        fs::remove_dir(&blocked).unwrap();
        let path = path_in(dir.path());
        let connecting = async {
            while UnixStream::connect(&path).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (accepted, ()) = tokio::join!(connections.next(), connecting);
        assert!(accepted.is_some() && state.finding().is_none());
    }
}
