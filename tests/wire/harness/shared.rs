//! Settled mirrors that tests share, which only read: one for each number of listings. To make one costs more than most tests.
//!
//! They live in a runtime of their own until the process ends: that of a test ends with the test. Callers: `super`.

use std::collections::HashMap;
use std::fs;
use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use sample_origin::Origin;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::{Server, Setup, Within, origin};
use crate::client::plain_client;

/// A settled mirror, for ever.
struct Shared {
    origin: Origin,
    setup: Setup,
    within: Within,
    public: SocketAddr,
    admin: SocketAddr,
    dir: Arc<TempDir>,
}

static MIRRORS: LazyLock<Mutex<HashMap<usize, &'static OnceCell<Shared>>>> = LazyLock::new(Mutex::default);

/// Where they run.
static COMMONS: LazyLock<Handle> = LazyLock::new(|| {
    let (tell, runs) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tell.send(runtime.handle().clone()).unwrap();
        runtime.block_on(pending::<()>());
    });
    runs.recv().unwrap()
});

/// Where their data is. Nothing is dropped when a process ends, so the next one removes what ended ones have left.
fn home() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared");
    let own = all.join(std::process::id().to_string());
    for other in fs::read_dir(&all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(other.file_name()).exists() {
            // Another process may remove it, too.
            let _ = fs::remove_dir_all(other.path());
        }
    }
    fs::create_dir_all(&own).unwrap();
    own
}

/// A settled mirror of so many listings, for a test that changes neither it nor its origin, and has nothing asked of it.
pub async fn shared_mirror(listings: usize) -> (&'static Origin, Server) {
    let cell: &'static OnceCell<Shared> = MIRRORS.lock().entry(listings).or_insert_with(|| Box::leak(Box::default()));
    let shared = cell.get_or_init(|| async { COMMONS.spawn(start(listings)).await.unwrap() }).await;
    let Shared { origin, setup, within, public, admin, dir } = shared;
    let process = super::Body::Shared(within);
    let (setup, dir, client) = (setup.clone(), dir.clone(), plain_client());
    (origin, Server { process, setup, public: *public, admin: *admin, client, dir })
}

async fn start(listings: usize) -> Shared {
    let origin = origin(listings).await;
    let dir = tempfile::tempdir_in(home()).unwrap();
    let server = Setup::mirror_of(&origin).start_in(dir).await;
    server.settled(&origin).await;
    origin.clear_log();
    let Server { process, setup, public, admin, dir, .. } = server;
    let super::Body::Within(within) = process else { panic!("it is within") };
    Shared { origin, setup, within, public, admin, dir }
}
