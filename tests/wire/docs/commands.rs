//! Runs the commands of the README and the book.
//!
//! Blocks marked `sh` are run, in the order of the page, each by one shell that stops at the first failure. After `sh`:
//! `server` is a command that keeps running, until the page ends or starts another one on the same machine. `@name`
//! names the machine: a directory of its own, with the shipped configurations and `pages.py`. Bundles are carried to all.
//! Addresses and ids of the examples are replaced by real ones. `needs:jq` names a program that this machine may lack,
//! and `needs:python3:duckdb` a module of one: without it the block is passed over. A block in a comment is run, and
//! not shown: the server of a page for readers who have one. Callers: [`super`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sample_origin::Origin;
use serde_json::Value;

use super::{book, read, repository};
use crate::client::plain_client;
use crate::harness::{PATIENCE, Process, discover, origin, wait_until};

/// What the examples call the origin, the mirror, its admin listener, and a snapshot.
const ORIGIN: &str = "https://api.example.org";
const PUBLIC: &str = "127.0.0.1:8080";
const ADMIN: &str = "127.0.0.1:9090";
const SNAPSHOT: &str = "3f9a";

/// The machine of blocks that name none, and its server on a page that starts none.
const HERE: &str = "here";
const MIRROR: &str = "grandstand serve --config config/mirror.toml";

/// A block of commands.
struct Block {
    line: usize,
    is_server: bool,
    machine: String,
    needs: Option<String>,
    text: String,
}

/// Whether a program, or `python3:` and a module, is here.
pub(super) fn is_here(tool: &str) -> bool {
    let (program, words) = match tool.split_once(':') {
        Some((program, module)) => (program, vec!["-c".to_owned(), format!("import {module}")]),
        None => (tool, vec!["--version".to_owned()]),
    };
    Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
}

/// A server that a block has started.
struct Running {
    process: Process,
    public: SocketAddr,
    admin: SocketAddr,
    snapshot: String,
}

/// The blocks of a page to run.
fn blocks(markdown: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((line, fence)) = lines.next() {
        let Some(marks) = fence.strip_prefix("```") else { continue };
        let text: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let mut marks = marks.split_whitespace();
        if marks.next() == Some("sh") {
            let marks: Vec<&str> = marks.collect();
            let machine = marks.iter().find_map(|mark| mark.strip_prefix('@')).unwrap_or(HERE).to_owned();
            let is_server = marks.contains(&"server");
            let needs = marks.iter().find_map(|mark| mark.strip_prefix("needs:")).map(str::to_owned);
            blocks.push(Block { line: line + 1, is_server, machine, needs, text: text.join("\n") });
        }
    }
    blocks
}

/// One page while it is run.
struct Page {
    dir: tempfile::TempDir,
    origin: Origin,
    running: BTreeMap<String, Running>,
}

impl Page {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_grandstand"), dir.path().join("bin/grandstand")).unwrap();
        Self { dir, origin: origin(120).await, running: BTreeMap::new() }
    }

    /// The directory of a machine, with the shipped configurations and the bundles of the others in it.
    fn machine(&self, name: &str) -> PathBuf {
        let machine = self.dir.path().join(name);
        let config = machine.join("config");
        if !config.exists() {
            std::fs::create_dir_all(&config).unwrap();
            for file in ["mirror.toml", "shield.toml", "offline.toml"] {
                let text = read(&repository("config").join(file)).replace(ORIGIN, &self.origin.url());
                std::fs::write(config.join(file), text).unwrap();
            }
            std::fs::copy(repository("docs/programs/pages.py"), machine.join("pages.py")).unwrap();
        }
        for other in std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            for file in std::fs::read_dir(other).unwrap().map(|entry| entry.unwrap().path()) {
                let kind = file.extension().and_then(|kind| kind.to_str());
                let to = machine.join(file.file_name().unwrap());
                if matches!(kind, Some("gsb" | "minisig" | "pub")) && !to.exists() {
                    std::fs::copy(&file, to).unwrap();
                }
            }
        }
        machine
    }

    /// The environment of every command: free ports, no budget, and `grandstand` in the path.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("PATH", format!("{}:{path}", self.dir.path().join("bin").display())),
            ("GRANDSTAND__LISTEN", r#"["127.0.0.1:0"]"#.to_owned()),
            ("GRANDSTAND__ADMIN__LISTEN", "127.0.0.1:0".to_owned()),
            ("GRANDSTAND__ORIGIN__REQUESTS_PER_MINUTE", "0".to_owned()),
            ("GRANDSTAND__ORIGIN__CACHE_TTL", "1s".to_owned()),
        ]
    }

    /// The commands of a block with real addresses.
    fn real(&self, block: &Block) -> String {
        let text = block.text.replace(ORIGIN, &self.origin.url()).replace("target/release/grandstand", "grandstand");
        match self.running.get(&block.machine) {
            None => text,
            Some(running) => text
                .replace(PUBLIC, &running.public.to_string())
                .replace(ADMIN, &running.admin.to_string())
                .replace(SNAPSHOT, &running.snapshot[..8.min(running.snapshot.len())]),
        }
    }

    async fn run(&mut self, block: &Block) {
        let dir = self.machine(&block.machine);
        let text = self.real(block);
        if block.is_server {
            self.serve(&block.machine, &text, &dir).await;
            return;
        }
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &text]).current_dir(dir).envs(self.environment()).stdin(std::process::Stdio::null());
        let output = tokio::task::spawn_blocking(move || shell.output().unwrap());
        let output = tokio::time::timeout(PATIENCE, output).await;
        let Output { status, stdout, stderr } = output.unwrap_or_else(|_| panic!("no end of: {text}")).unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "line {}: {text}\n{status}\n{said}", block.line);
        let refused = ["HTTP/1.1 4", "HTTP/1.1 5", "urn:grandstand:problem", "about:blank"];
        assert!(!refused.iter().any(|word| said.contains(word)), "line {}: {text}\n{said}", block.line);
    }

    /// Starts a server instead of the one before, and waits until it has everything.
    async fn serve(&mut self, machine: &str, command: &str, dir: &Path) {
        if let Some(before) = self.running.remove(machine) {
            before.process.signal("TERM");
            assert_eq!(before.process.end().await.0, 0);
        }
        let environment = self.environment().into_iter().map(|(name, value)| format!("{name}={value}"));
        let shell = ["sh".to_owned(), "-c".to_owned(), format!("exec {command}")];
        let under: Vec<String> = ["env".to_owned()].into_iter().chain(environment).chain(shell).collect();
        let mut process = Process::spawn_under(&under, &[], dir);
        let client = plain_client();
        let (public, admin) = discover(&mut process, &dir.join("grandstand-data")).await;
        let status = || async {
            let reply = client.get(format!("http://{admin}/status")).send().await.unwrap();
            reply.json::<Value>().await.unwrap()
        };
        wait_until("the server of the page is complete", || async {
            let status = status().await;
            let details = &status["details"];
            let is_counted = status["use"] == "shield" || details["of"].is_u64();
            let is_complete = ["mirrored", "current"].iter().all(|count| details[*count] == details["of"]);
            status["state"] == "healthy" && is_counted && is_complete
        })
        .await;
        let snapshot = status().await["snapshot"]["id"].as_str().unwrap_or_default().to_owned();
        self.running.insert(machine.to_owned(), Running { process, public, admin, snapshot });
    }
}

#[tokio::test]
async fn the_commands_of_the_documentation_work() {
    let mut count = 0;
    for path in [repository("README.md")].into_iter().chain(book()) {
        let blocks = blocks(&read(&path));
        if blocks.is_empty() {
            continue;
        }
        let mut page = Page::new().await;
        if !blocks.iter().any(|block| block.is_server) {
            let dir = page.machine(HERE);
            page.serve(HERE, MIRROR, &dir).await;
        }
        for block in &blocks {
            if let Some(tool) = block.needs.as_deref().filter(|tool| !is_here(tool)) {
                eprintln!("{}:{} is NOT run: there is no {tool} here", path.display(), block.line);
                continue;
            }
            eprintln!("{}:{}", path.display(), block.line);
            page.run(block).await;
            count += 1;
        }
    }
    assert!(count > 10, "{count} blocks were run");
}
