//! The origin that the program brings: it answers as the test origin does, which shares only the world with it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sample_origin::{Origin, Switches, World};

use crate::client::{Reply, plain_client};

/// `grandstand origin`.
struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_grandstand"))
            .args(["origin", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, stdin, stdout, url: String::new() };
        program.url = program.line();
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What it says to a line of its standard input.
    fn tell(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.line()
    }

    async fn get(&self, target: &str, headers: &[(&str, &str)]) -> Reply {
        ask(reqwest::Method::GET, &format!("{}{target}", self.url), headers).await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

async fn ask(method: reqwest::Method, url: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(plain_client().request(method, url), |it, (name, value)| it.header(*name, *value));
    Reply::of(request.send().await.unwrap()).await
}

/// A body without the origin's address and the time of generation.
fn comparable(body: &str, url: &str) -> String {
    let body = body.replace(url, "");
    let Some((before, after)) = body.split_once(r#""generated_at":""#) else { return body };
    format!("{before}{}", after.split_once('"').unwrap().1)
}

#[tokio::test]
async fn the_sample_origin_answers_byte_for_byte_as_the_test_origin_does() {
    let program = Program::start(&["--listings", "700", "--seed", "7"]);
    let any = "127.0.0.1:0".parse().unwrap();
    let origin = Origin::start(any, World::generate(700, 7), Switches::default()).await.unwrap();
    let mut targets: Vec<String> =
        ["sports", "states", "cities", "listings"].iter().map(|name| format!("/api/{name}.json")).collect();
    for query in [
        "page=2",
        "page=8&per_page=100",
        "page=9&per_page=100",
        "per_page=1&page=700",
        "per_page=500",
        "sport=golf",
        "state=texas",
        "city=texarkana&state=texas",
        "sport=baseball&state=california&page=2&per_page=3",
        "modified_since=2025-01-31",
        "modified_since=2025-01-31T12%3A00%3A00Z&sport=soccer",
        "modified_since=9999-12-31",
        "sport=chess",
        "city=a%22b",
        "unknown=1",
    ] {
        targets.push(format!("/api/listings.json?{query}"));
    }
    targets.extend(origin.world(World::ids).iter().step_by(9).map(|id| format!("/api/listings/{id}.json")));
    for target in targets {
        let (ours, theirs) = (
            program.get(&target, &[]).await,
            ask(reqwest::Method::GET, &format!("{}{target}", origin.url()), &[]).await,
        );
        assert_eq!((ours.status, theirs.status), (200, 200), "{target}");
        assert_eq!(comparable(ours.text(), &program.url), comparable(theirs.text(), &origin.url()), "{target}");
        assert!(ours.text().contains("Synthetic"), "{target}");
    }
    for target in
        ["/api/listings/1.json", "/api/listings/x.json", "/api/nothing.json", "/", "/api/listings.json?page=0"]
    {
        let theirs = ask(reqwest::Method::GET, &format!("{}{target}", origin.url()), &[]).await;
        assert_eq!(program.get(target, &[]).await.status, theirs.status, "{target}");
    }
}

#[tokio::test]
async fn the_sample_origin_answers_conditions_codings_and_other_methods() {
    let program = Program::start(&["--listings", "60"]);
    for target in ["/api/listings.json", "/api/cities.json"] {
        let plain = program.get(target, &[]).await;
        let packed = program.get(target, &[("accept-encoding", "gzip")]).await;
        assert_eq!((plain.header("content-encoding"), packed.the("content-encoding")), (None, "gzip".to_owned()));
        let body = String::from_utf8(packed.decoded()).unwrap();
        assert_eq!(comparable(&body, ""), comparable(plain.text(), ""));
        assert_ne!(plain.etag(), packed.etag(), "a strong tag names bytes");
        for (tag, coding) in [(plain.etag(), "identity"), (packed.etag(), "gzip")] {
            let again = program.get(target, &[("accept-encoding", coding), ("if-none-match", &tag)]).await;
            assert_eq!((again.status, again.etag()), (304, tag), "{target} {coding}");
        }
        let url = format!("{}{target}", program.url);
        let head = ask(reqwest::Method::HEAD, &url, &[]).await;
        assert_eq!((head.status, head.etag(), head.text()), (200, plain.etag(), ""));
        let post = ask(reqwest::Method::POST, &url, &[]).await;
        assert_eq!((post.status, post.the("allow")), (405, "GET, HEAD".to_owned()));
    }
}

#[tokio::test]
async fn lines_on_standard_input_change_and_remove_venues() {
    let mut program = Program::start(&["--listings", "60"]);
    let before = program.get("/api/listings.json", &[]).await;
    assert_eq!(program.tell("touch 5"), "5");
    let since = "/api/listings.json?modified_since=2026-09-02";
    assert_eq!(program.get(since, &[]).await.total(), 5, "all others are older");
    let after = program.get("/api/listings.json", &[("if-none-match", &before.etag())]).await;
    assert_eq!((after.status, after.total()), (200, 60));
    assert_eq!((program.tell("remove 3"), program.tell("dance 3")), ("3".to_owned(), "0".to_owned()));
    assert_eq!(program.get("/api/listings.json", &[]).await.total(), 57);
}

#[tokio::test]
async fn the_sample_origin_refuses_what_is_over_its_limit() {
    let program = Program::start(&["--listings", "10", "--requests-per-minute", "3"]);
    for _ in 0..3 {
        assert_eq!(program.get("/api/sports.json", &[]).await.status, 200);
    }
    let refused = program.get("/api/sports.json", &[]).await;
    assert_eq!(refused.status, 429);
    assert!(refused.the("retry-after").parse::<u32>().unwrap() <= 60);
}
