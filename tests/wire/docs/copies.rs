//! Runs the programs of `docs/copies.md`: each keeps a copy that equals the mirror's data, whatever happens to an answer.
//!
//! A program whose tools are missing on this machine is passed over. Callers: [`super`].

use std::path::Path;
use std::process::{Command, Output};

use http::Method;
use sample_origin::World;
use serde_json::{Value, json};

use super::commands::{PUBLIC, is_here};
use super::{read, repository};
use crate::harness::postgres::Postgres;
use crate::harness::{PATIENCE, Script, Server, Setup, Upstream, edit, mirrored, until};

/// What a copy has, as lists of id, listing and detail.
const DUCKDB: &str = "import duckdb, json
rows = duckdb.connect('venues.duckdb').execute('select * from venues order by id').fetchall()
print(json.dumps([[id, json.loads(listing), detail and json.loads(detail)] for id, listing, detail in rows]))";
const SQLITE: &str = "import sqlite3, json
rows = sqlite3.connect('venues.sqlite').execute('select * from venues order by id').fetchall()
print(json.dumps([[id, json.loads(listing), detail and json.loads(detail)] for id, listing, detail in rows]))";
const POSTGRES: &str = "import psycopg, json
print(json.dumps(psycopg.connect('dbname=venues').execute('select * from venues order by id').fetchall()))";
const VECTORS: &str = "import duckdb, json
print(json.dumps(duckdb.connect('vectors.duckdb').execute('select id, text, len(vector) from venues order by id').fetchall()))";

/// A program of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Program {
    file: &'static str,
    modules: &'static [&'static str],
    shows: &'static str,
}

const PROGRAMS: [Program; 4] = [
    Program { file: "sqlite_copy.py", modules: &[], shows: SQLITE },
    Program { file: "duckdb_copy.py", modules: &["duckdb"], shows: DUCKDB },
    Program { file: "postgres_copy.py", modules: &["psycopg"], shows: POSTGRES },
    Program { file: "vectors_copy.py", modules: &["duckdb", "sklearn"], shows: VECTORS },
];

/// The files of the page: the first line of each names it.
fn files() -> Vec<(String, String)> {
    let page = read(&repository("docs/copies.md"));
    let blocks = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|text| (text.lines().next().unwrap().trim_start_matches("# ").to_owned(), text.to_owned())).collect()
}

/// A directory with the programs, which ask this address.
fn aim(dir: &Path, address: &str) {
    for (name, text) in files() {
        std::fs::write(dir.join(name), text.replace(PUBLIC, address)).unwrap();
    }
}

async fn python(dir: &Path, words: &[&str], environment: &[(&'static str, String)]) -> Output {
    let mut python = Command::new("python3");
    python.args(words).current_dir(dir).envs(environment.iter().cloned()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::task::spawn_blocking(move || python.output().unwrap());
    tokio::time::timeout(PATIENCE, output).await.unwrap_or_else(|_| panic!("no end of {words:?}")).unwrap()
}

/// What a server has, in the form of what a program shows.
async fn expected(server: &Server, program: Program) -> Value {
    let lines = async |format: &str| -> Vec<Value> {
        let dump = server.admin(Method::GET, &format!("/bundle?format={format}")).await;
        dump.text().split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (mut listings, details) = (lines("ndjson").await, lines("details-ndjson").await);
    listings.sort_by_key(|listing| listing["id"].as_u64());
    let row = |listing: Value| {
        if program.shows == VECTORS {
            let text = ["name", "sport", "city", "state"].map(|field| listing[field].as_str().unwrap().to_owned());
            return json!([listing["id"], text.join(" "), 512]);
        }
        let detail = details.iter().find(|line| line["id"] == listing["id"]).map(|line| line["detail"].clone());
        json!([listing["id"], listing, detail])
    };
    listings.into_iter().map(row).collect()
}

/// A program in its directory.
struct Copied<'a> {
    program: Program,
    dir: &'a Path,
    environment: &'a [(&'static str, String)],
}

impl Copied<'_> {
    async fn shown(&self) -> Value {
        let output = python(self.dir, &["-c", self.program.shows], self.environment).await;
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Runs until the copy has what the server has: details count once they are durable.
    async fn follows(&self, server: &Server) {
        aim(self.dir, &server.public.to_string());
        until("the copy is current", || async {
            let output = python(self.dir, &[self.program.file], self.environment).await;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            (self.shown().await == expected(server, self.program).await).then_some(())
        })
        .await;
    }

    /// Runs against a server whose answer is of no use: nothing changes.
    async fn refuses(&self, address: &str, why: &str) {
        let before = self.shown().await;
        aim(self.dir, address);
        let output = python(self.dir, &[self.program.file], self.environment).await;
        assert!(!output.status.success(), "{why}: {}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(self.shown().await, before, "{why}");
    }
}

#[tokio::test]
async fn the_copies_of_the_documentation_stay_current() {
    let postgres = Postgres::start("venues").await;
    let environment: Vec<_> = postgres.iter().flat_map(Postgres::environment).collect();
    let dir = tempfile::tempdir().unwrap();
    let named: Vec<String> = files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["changes.py", "sqlite_copy.py", "duckdb_copy.py", "postgres_copy.py", "vectors_copy.py"]);
    let is_possible = |program: &Program| {
        let has = program.modules.iter().all(|module| is_here(&format!("python3:{module}")));
        let is_possible = has && (program.shows != POSTGRES || postgres.is_some());
        if !is_possible {
            eprintln!("docs/copies.md: {} is NOT run: a tool is missing here", program.file);
        }
        is_possible
    };
    let programs: Vec<Program> = PROGRAMS.into_iter().filter(is_possible).collect();
    let copies: Vec<Copied<'_>> = programs
        .iter()
        .map(|program| Copied { program: *program, dir: dir.path(), environment: &environment })
        .collect();
    if copies.is_empty() {
        return;
    }
    let (origin, server) = mirrored(60).await;
    for copy in &copies {
        copy.follows(&server).await;
    }
    let ids = origin.world(World::ids);
    for round in 0..2 {
        edit(&origin, &server, |world| {
            assert!(world.touch(ids[round]) && world.change_detail(ids[round]) && world.remove(ids[10 + round]));
            assert!(world.change_sport(ids[20 + round], "curling") && world.touch(ids[20 + round]));
            world.insert_like(ids[30], &format!("New in round {round}")).unwrap();
        })
        .await;
        for copy in &copies {
            copy.follows(&server).await;
        }
    }
    let line = format!("{{\"op\":\"removed\",\"id\":{}}}\n", ids[40]);
    let last = format!("{line}{{\"snapshot\":\"x\",\"next\":\"y\"}}\n");
    let broken = [
        ("without its last line", Script::new(200, line.clone())),
        ("empty", Script::new(200, "")),
        ("cut off", Script::new(200, last.clone()).announced(last.len() + 1)),
        ("cut off within a line", Script::new(200, last[..last.len() - 4].to_owned())),
        ("an error", Script::new(503, "{}")),
    ];
    for (why, script) in broken {
        let upstream = Upstream::start(move |_| script.clone()).await;
        for copy in &copies {
            copy.refuses(upstream.url().trim_start_matches("http://"), why).await;
        }
    }
    // A mirror of the same origin, which does not know where the copies stand.
    let other = Setup::mirror_of(&origin).start().await;
    other.settled(&origin).await;
    edit(&origin, &other, |world| assert!(world.remove(ids[41]))).await;
    for copy in &copies {
        copy.follows(&other).await;
    }
}
