//! The real binary as a child process: started, signalled, killed, and all its output.
//!
//! It knows nothing of addresses and requests. Callers: `super` for servers, tests of commands.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::PATIENCE;

/// Lines of the log that a failure shows.
const TAIL: usize = 60;

/// A child process and its output so far.
#[derive(Debug)]
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Runs the binary.
    pub fn spawn(arguments: &[String]) -> Self {
        Self::spawn_in(arguments, &std::env::temp_dir())
    }

    /// Runs the binary in a working directory.
    pub fn spawn_in(arguments: &[String], working_dir: &Path) -> Self {
        Self::spawn_under(&[], arguments, working_dir)
    }

    /// Runs the binary under a program that becomes it, such as `env`.
    pub fn spawn_under(under: &[String], arguments: &[String], working_dir: &Path) -> Self {
        let words: Vec<&str> = under.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_grandstand")]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args(arguments)
            .current_dir(working_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().unwrap());
        let readers = [out, err].map(|stream| listen(stream, Arc::clone(&said))).into();
        Self { child, said, readers }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output and standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// Sends a signal by its name, `TERM` for example.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// The exit code, if the process has ended; -1 if a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Waits for the end: the exit code.
    pub async fn exit(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the end: exit code and all output.
    pub async fn end(mut self) -> (i32, String) {
        let code = self.exit().await;
        self.join();
        (code, self.said())
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.join();
    }

    pub(super) fn join(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
    }

    pub(super) fn tail(&self) -> String {
        tail(&self.said())
    }
}

/// A program of somebody else, until it is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; both fail then, and that is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; both fail then, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join();
        if std::thread::panicking() {
            eprintln!("--- the end of what process {} said:\n{}\n---", self.pid(), self.tail());
        } else {
            assert!(!self.said().contains("panicked"), "the process panicked:\n{}", self.tail());
        }
    }
}

/// The last lines of a log.
pub(super) fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

fn listen(stream: Box<dyn Read + Send>, said: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            writeln!(said.lock(), "{line}").unwrap();
        }
    })
}

/// Runs a command to its end: exit code and all output.
pub async fn run(arguments: &[String]) -> (i32, String) {
    Process::spawn(arguments).end().await
}
