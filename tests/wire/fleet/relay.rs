//! A line to a store, which can be cut, or hang.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// What the line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Open,
    /// Connections end at once.
    Cut,
    /// Nothing passes.
    Hangs,
}

/// The line.
pub struct Relay {
    port: u16,
    line: Arc<Mutex<Line>>,
    open: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
        self.set(Line::Cut);
    }
}

impl Relay {
    /// A line to a port of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (line, open) = (Arc::new(Mutex::new(Line::Open)), Arc::<Mutex<Vec<AbortHandle>>>::default());
        let (what, connections) = (line.clone(), open.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let connection = tokio::spawn(pass(from, port, *what.lock()));
                connections.lock().push(connection.abort_handle());
            }
        });
        Self { port: own, line, open, accepting: accepting.abort_handle() }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What it does from now on. Connections that are open end.
    pub fn set(&self, line: Line) {
        *self.line.lock() = line;
        self.open.lock().drain(..).for_each(|connection| connection.abort());
    }
}

async fn pass(mut from: TcpStream, port: u16, line: Line) {
    if line == Line::Hangs {
        std::future::pending::<()>().await;
    }
    let there = if line == Line::Cut { None } else { TcpStream::connect(("127.0.0.1", port)).await.ok() };
    let Some(mut there) = there else { return };
    // Both ends close as they like.
    let _ended = copy_bidirectional(&mut from, &mut there).await;
}
