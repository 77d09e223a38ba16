//! The server within the test's process: the same code as the binary's, without a process, a signal or a terminal.
//!
//! What is about the process itself (kills, signals, descriptors, disks, memory) needs [`Setup::alone`]. Callers:
//! `super`.
//!
//! [`Setup::alone`]: super::Setup::alone

use std::io::Write;
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::stream;
use grandstand::config::Config;
use grandstand::server::Probe;
use grandstand::server::stop::{Order, Orders};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::PATIENCE;
use super::process::tail;

/// How long a test that ends waits for its server. One that is busy ends later, by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// A server in a thread of its own, and its log so far.
pub struct Within {
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<Result<(), String>>>,
    ended: Option<i32>,
    said: Arc<Mutex<String>>,
    probe: Option<Probe>,
}

impl std::fmt::Debug for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Within")
    }
}

/// Appends what it writes.
#[derive(Clone)]
pub(super) struct Lines(pub Arc<Mutex<String>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A panic is a line in the log of the server whose thread panics.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tracing::error!(target: "grandstand", "panicked: {panic}");
            print(panic);
        }));
    });
}

impl Within {
    /// Starts `grandstand serve` with these arguments; returns it with its configuration and addresses, or `None` in their
    /// place if it ended before it listened.
    pub async fn start(arguments: Vec<String>, adjust: fn(&mut Config)) -> (Self, Option<Config>) {
        log_panics();
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let (tell, listens) = oneshot::channel();
        let said = Arc::new(Mutex::new(String::new()));
        let lines = said.clone();
        let work = move || {
            let orders = |config: &Config, probe: Probe| -> Orders {
                let _gone = tell.send((config.clone(), probe));
                Box::pin(stream::poll_fn(move |cx| ordered.poll_recv(cx)))
            };
            let log = lines.clone();
            let lines_of = move || Box::new(Lines(log.clone())) as Box<dyn Write + Send>;
            let ended = grandstand::serve_within(&arguments, adjust, Arc::new(lines_of), orders);
            if let Err(why) = &ended {
                writeln!(Lines(lines), "grandstand: {why}").unwrap();
            }
            ended
        };
        let thread = std::thread::Builder::new().name("server".into()).spawn(work).unwrap();
        let (config, probe) = listens.await.ok().unzip();
        (Self { orders, thread: Some(thread), ended: None, said, probe }, config)
    }

    /// Whether a mirror has nothing left to copy.
    pub fn is_settled(&self) -> bool {
        self.probe.as_ref().is_some_and(Probe::is_settled)
    }

    /// The log so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// What a signal of this name orders.
    pub fn signal(&self, name: &str) {
        let order = match name {
            "TERM" => Order::Stop,
            "INT" => Order::StopAtOnce,
            "HUP" => Order::Reload,
            other => panic!("SIG{other} needs a process: Setup::alone"),
        };
        // It may have ended.
        let _ended = self.orders.send(order);
    }

    /// The exit code that the command would have, if the server has ended: 1 for any failure.
    pub fn ended(&mut self) -> Option<i32> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            // A panic of this thread would have ended the process, with 101.
            self.ended = Some(thread.join().map_or(101, |ended| i32::from(ended.is_err())));
        }
        self.ended
    }

    /// Waits for the end: the exit code.
    pub async fn exit(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops it as Ctrl-C does, and waits for the end.
    pub async fn stop(&mut self) {
        self.signal("INT");
        self.exit().await;
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.signal("INT");
        let start = Instant::now();
        while self.ended().is_none() && start.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = self.said();
        if std::thread::panicking() {
            eprintln!("--- the end of what the server said:\n{}\n---", tail(&said));
        } else {
            assert!(!said.contains("panicked"), "the server panicked:\n{}", tail(&said));
        }
    }
}
