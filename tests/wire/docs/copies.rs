//! Runs the programs in `docs/programs/`, which `docs/copies.md` names: each keeps a copy that equals the mirror's data, whatever happens to an answer.
//!
//! A program whose tools are missing on this machine is passed over. Callers: [`super`].

use std::path::Path;
use std::process::{Command, Output};

use http::Method;
use sample_origin::{Origin, World};
use serde_json::{Value, json};

use super::commands::is_here;
use super::{links, read, repository};
use crate::harness::postgres::Postgres;
use crate::harness::{Script, Server, Setup, Upstream, edit, mirrored, wait_until};

/// What a copy has, as lists of id, listing and detail; the last one: id, sorted words of the text and length of the vector.
const SQLITE: &str = "import sqlite3
parsed(sqlite3.connect('venues.sqlite').execute('select * from venues order by id').fetchall())";
const DUCKDB: &str = "import duckdb
parsed(duckdb.connect('venues.duckdb').execute('select * from venues order by id').fetchall())";
const POSTGRES: &str = "import psycopg
copies.append(psycopg.connect('dbname=venues').execute('select * from venues order by id').fetchall())";
const VECTORS: &str = "import duckdb
rows = duckdb.connect('vectors.duckdb').execute('select id, text, len(vector) from venues order by id').fetchall()
copies.append([[id, sorted(text.split()), size] for id, text, size in rows])";
/// What these are in.
const SHOWN: &str = "import json
copies = []
def parsed(rows):
    copies.append([[id, json.loads(listing), detail and json.loads(detail)] for id, listing, detail in rows])
";

/// A program that the page names.
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

/// The files that the page names, in its order.
fn named() -> Vec<String> {
    let links = links(&read(&repository("docs/copies.md")));
    let mut files: Vec<String> =
        links.iter().filter_map(|link| link.strip_prefix("programs/")).map(str::to_owned).collect();
    files.dedup();
    files
}

/// What the origin has: id, listing and detail. Waits until a server has it durably, and so in its dumps.
async fn expected(origin: &Origin, server: &Server) -> Vec<[Value; 3]> {
    let parsed = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let of = |id| origin.texts_of(id).map(|(listing, detail)| [json!(id), parsed(listing), parsed(detail)]).unwrap();
    let mut ids = origin.world(World::ids);
    ids.sort_unstable();
    let rows: Vec<_> = ids.into_iter().map(of).collect();
    wait_until("the details are durable", || async {
        let dump = server.admin(Method::GET, "/bundle?format=details-ndjson").await;
        let lines: Vec<_> = dump.text().split_terminator('\n').map(|line| parsed(line.to_owned())).collect();
        lines.len() == rows.len()
            && rows.iter().all(|[id, _, detail]| lines.contains(&json!({"id": id, "detail": detail})))
    })
    .await;
    rows
}

/// The texts in a value that a vector is made of.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) if !text.contains("://") => vec![text],
        Value::Array(parts) => parts.iter().flat_map(texts).collect(),
        Value::Object(parts) => parts.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The programs that this machine can run, in a directory. They end by themselves, on a busy machine after a while.
struct Copies<'a> {
    programs: &'a [Program],
    dir: &'a Path,
    environment: &'a [(&'static str, String)],
}

impl Copies<'_> {
    /// Runs Python with these arguments; programs ask the mirror at this address.
    async fn python(&self, words: &[&str], mirror: &str) -> Output {
        let mut python = Command::new("python3");
        python.env("MIRROR", mirror);
        python.args(words).current_dir(self.dir).envs(self.environment.iter().cloned());
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap()
    }

    /// What each copy has.
    async fn shown(&self) -> Value {
        let shows = self.programs.iter().map(|program| program.shows);
        let script = shows.fold(SHOWN.to_owned(), |script, shows| script + shows + "\n") + "print(json.dumps(copies))";
        let output = self.python(&["-c", &script], "").await;
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Each program, run once, makes its copy equal to what a server has.
    async fn follow(&self, origin: &Origin, server: &Server) {
        let rows = expected(origin, server).await;
        let mirror = format!("http://{}", server.public);
        for program in self.programs {
            let output = self.python(&[program.file], &mirror).await;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let words = |listing: &Value, detail: &Value| {
            let fields = ["name", "sport", "city", "state"].map(|field| &listing[field]);
            let texts: Vec<&str> = fields.into_iter().chain([detail]).flat_map(texts).collect();
            let mut words: Vec<String> =
                texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
            words.sort_unstable();
            words
        };
        let vectors = || rows.iter().map(|[id, listing, detail]| json!([id, words(listing, detail), 512])).collect();
        let all = self.programs.iter().map(|program| if program.shows == VECTORS { vectors() } else { json!(rows) });
        assert_eq!(self.shown().await, all.collect::<Value>());
    }

    /// Each program fails with a server whose answer is of no use.
    async fn refuse(&self, answer: &Script, why: &str) {
        let answer = answer.clone();
        let upstream = Upstream::start(move |_| answer.clone()).await;
        for program in self.programs {
            let output = self.python(&[program.file], &upstream.url()).await;
            assert!(!output.status.success(), "{}, {why}: {}", program.file, String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[tokio::test]
async fn the_copies_of_the_documentation_stay_current() {
    let postgres = Postgres::start("venues").await;
    let environment: Vec<_> = postgres.iter().flat_map(Postgres::environment).collect();
    let dir = tempfile::tempdir().unwrap();
    let named = named();
    assert_eq!(named, ["changes.py", "sqlite_copy.py", "duckdb_copy.py", "postgres_copy.py", "vectors_copy.py"]);
    for file in &named {
        std::fs::copy(repository("docs/programs").join(file), dir.path().join(file)).unwrap();
    }
    let is_possible = |program: &Program| {
        let has = program.modules.iter().all(|module| is_here(&format!("python3:{module}")));
        let is_possible = has && (program.shows != POSTGRES || postgres.is_some());
        if !is_possible {
            eprintln!("docs/copies.md: {} is NOT run: a tool is missing here", program.file);
        }
        is_possible
    };
    let programs: Vec<Program> = PROGRAMS.into_iter().filter(is_possible).collect();
    let (dir, environment) = (dir.path(), &environment[..]);
    let all = Copies { programs: &programs, dir, environment };
    // The file that all programs use decides most. The first one needs no modules, which take seconds to load.
    let first = Copies { programs: &programs[..1], dir, environment };
    let (origin, server) = mirrored(60).await;
    all.follow(&origin, &server).await;
    let ids = origin.world(World::ids);
    for (round, copies) in [&first, &all].into_iter().enumerate() {
        edit(&origin, &server, |world| {
            assert!(world.touch(ids[round]) && world.change_detail(ids[round]) && world.remove(ids[10 + round]));
            assert!(world.change_sport(ids[20 + round], "curling") && world.touch(ids[20 + round]));
            world.insert_like(ids[30], &format!("New in round {round}")).unwrap();
        })
        .await;
        copies.follow(&origin, &server).await;
    }
    let before = all.shown().await;
    let line = format!("{{\"op\":\"removed\",\"id\":{}}}\n", ids[40]);
    let last = format!("{line}{{\"snapshot\":\"x\",\"next\":\"y\"}}\n");
    let broken = [
        ("without its last line", Script::new(200, line.clone())),
        ("empty", Script::new(200, "")),
        ("cut off", Script::new(200, last.clone()).announced(last.len() + 1)),
        ("cut off within a line", Script::new(200, last[..last.len() - 4].to_owned())),
        ("an error", Script::new(503, "{}")),
    ];
    for (why, answer) in &broken {
        first.refuse(answer, why).await;
    }
    let (why, answer) = &broken[0];
    all.refuse(answer, why).await;
    assert_eq!(all.shown().await, before);
    // A mirror of the same origin, which does not know where the copies stand.
    let other = Setup::mirror_of(&origin).start().await;
    other.settled(&origin).await;
    edit(&origin, &other, |world| assert!(world.remove(ids[41]))).await;
    all.follow(&origin, &other).await;
}
