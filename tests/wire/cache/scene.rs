//! Scenes: a few rows of text, played by the whole server in memory and in virtual time, against an origin that answers
//! what the rows say.
//!
//! ```text
//! set KEY=VALUE                     the configuration of the server
//! with X: a || b                    the scene is played for each value, in the place of $X
//! each X: a || b                    the rows until `end` are played for each value, by one server; $i is its number
//! GET /api/x | name: value          a request, with fields of the client
//!   ? name: value                   what the origin sees
//!   < 200 body | name: value        what the origin answers
//!   > 200 body | name: value        what the client gets
//! 20* GET /api/x                    at once, with %n in the place of the number
//! & GET /api/x                      goes on while the next rows are played, until `join` or the end
//! & leave 2s GET /api/x             its client leaves after that time
//! wait 61s                          time passes
//! purge ?path=/api/x 3              how many answers are purged
//! always < 200 body                 the answer to requests that no row answers; the next row says how many there were:
//! asked 2
//! took 2                            how many seconds the last request took
//! ```
//!
//! Without `<`, a request must not reach the origin; with it, just so many must. Answers and replies without a body have
//! an empty one and any one. Before a status: `after 2s`; in the place of it: `hangup`, `hang`; `cut 200 half` breaks off.
//! In answers `{name}` is a field of the request, `{n}` how often its target was asked for, `LARGE` 2 KiB, `@-10` the time ten seconds ago, and `+1s: text` a later piece. Expected
//! are an equal value, `~text` in it, a number in `5..9`, or `-`: nothing; `!200` is another status, `names` all fields. `problem 503 words` is a problem document, `broken` an answer without its end;
//! `3* 200` is expected of three of the clients. `cc` and `cs` are `Cache-Control` and `Cache-Status`. The origin is `ORIGIN`.
//!
//! A scene about known endpoints is played by a shield, and by a mirror whose crawl gets nothing. Callers: the tables.

mod origin;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Reply, header_map};
use crate::harness::{Body, Server, Setup, pipe};

use origin::{Answer, Rows, seconds};

/// The address of an origin in memory.
const ORIGIN: &str = "http://127.0.0.1:1";

/// Time in which everything happens that can.
const MOMENT: Duration = Duration::from_millis(1);

/// Tests with these names, each of a scene.
macro_rules! scenes {
    ($($name:ident: $scene:expr)*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            $crate::cache::scene::play($scene).await;
        })*
    };
}
pub(super) use scenes;

/// Plays a scene with all values of its variables, in each use that it is about.
pub async fn play(scene: &str) {
    let lines = scene.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for text in varied(rows_of(lines).join("\n") + "\n") {
        let text = repeated(&text).replace("ORIGIN", ORIGIN);
        let is_known = text.contains("/api/listings") && !text.contains("set mirror.enabled");
        for enabled in if is_known { &["false", "true"][..] } else { &["false"] } {
            Stage::play(&text, enabled).await;
        }
    }
}

/// A scene with each value of its variables.
fn varied(text: String) -> Vec<String> {
    let Some(with) = text.lines().find(|line| line.starts_with("with ")) else { return vec![text] };
    let (name, values) = with["with ".len()..].split_once(": ").unwrap();
    let rest = text.replacen(&format!("{with}\n"), "", 1);
    values.split("||").flat_map(|value| varied(rest.replace(&format!("${name}"), value.trim()))).collect()
}

/// The rows of a scene, each on one line.
fn rows_of<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for line in lines {
        match rows.last_mut() {
            Some(row) if line.starts_with(['?', '<', '>', '|']) => row.extend([" ", line]),
            _ => rows.push(line.to_owned()),
        }
    }
    rows
}

/// A scene without `each`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("each ") else { return text.to_owned() };
    let (each, rest) = rest.split_once('\n').unwrap();
    let (rest, after) = rest.split_at(rest.find("\nend\n").map_or(rest.len(), |end| end + 1));
    let after = after.trim_start_matches("end\n");
    let (name, values) = each.split_once(": ").unwrap();
    let one = |(number, value): (usize, &str)| {
        rest.replace(&format!("${name}"), value.trim()).replace("$i", &number.to_string()).replace(" | |", " |")
    };
    before.to_owned() + &values.split("||").enumerate().map(one).collect::<String>() + &repeated(after)
}

/// `head | name: value | ...`
#[derive(Clone, Debug)]
struct Message {
    head: String,
    fields: Vec<(String, String)>,
}

impl Message {
    fn of(text: &str) -> Self {
        let mut parts = text.split(" | ").map(str::trim).peekable();
        let head = parts.next_if(|head| !head.contains(": ")).unwrap_or_default().to_owned();
        let field = |field: &str| {
            let (name, value) = field.split_once(':').unwrap_or_else(|| panic!("{field:?} is no field"));
            let name = match name {
                "cc" => "cache-control",
                "cs" => "cache-status",
                name => name,
            };
            (name.to_owned(), value.trim().to_owned())
        };
        Self { head, fields: parts.map(field).collect() }
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

fn holds(expected: &str, value: Option<&str>) -> bool {
    let range = expected.split_once("..").and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
    match (expected, value) {
        ("-", value) => value.is_none(),
        (_, None) => false,
        (expected, Some(value)) => match (range, expected.strip_prefix('~')) {
            (Some((least, most)), _) => value.parse::<u64>().is_ok_and(|value| (least..=most).contains(&value)),
            (None, Some(part)) => value.contains(part),
            (None, None) => value == expected,
        },
    }
}

/// Whether a reply is the expected one; what differs.
fn differs(reply: &Reply, expected: &Message) -> Option<String> {
    let (status, body) = expected.head.split_once(' ').unwrap_or((&expected.head, ""));
    if status == "problem" {
        let (status, words) = body.split_once(' ').unwrap_or((body, ""));
        let is_it = holds(status, Some(&reply.status.to_string()))
            && reply.header("content-type").is_some_and(|kind| kind.starts_with("application/problem+json"))
            && reply.text().contains(words)
            && reply.header("cache-status").is_none();
        if !is_it {
            return Some(format!("no problem {status} {words}"));
        }
    } else if holds(status.trim_start_matches('!'), Some(&reply.status.to_string())) == status.starts_with('!') {
        return Some(format!("not {status}"));
    } else if !body.is_empty() && String::from_utf8_lossy(&reply.body) != body.trim_matches('"') {
        return Some(format!("the body is not {body}"));
    }
    let wrong = expected.fields.iter().find(|(name, value)| !holds(value, reply.header(name).as_deref()))?;
    Some(format!("{} is not {}", wrong.0, wrong.1))
}

/// One row with a request.
#[derive(Clone, Debug)]
struct Row {
    times: usize,
    leaves: Option<Duration>,
    request: Message,
    expected: Vec<(Option<usize>, Message)>,
}

impl Row {
    async fn play(self, server: Arc<Server>) -> Result<(), String> {
        let (method, target) = self.request.head.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let replies = join_all((0..self.times).map(|number| {
            let fields: Vec<(String, String)> =
                self.request.fields.iter().map(|(name, value)| (name.clone(), numbered(value, number))).collect();
            let (server, method, target) = (&server, method.clone(), numbered(target, number));
            async move {
                let request = Message { head: String::new(), fields };
                let Body::Memory(memory) = &server.process else { panic!("it is in memory") };
                let reply = memory.attempt(method, &target, header_map(&request.pairs()));
                let Some(leaves) = self.leaves else { return reply.await };
                timeout(leaves, reply).await.unwrap_or_else(|_left| Err("it left".to_owned()))
            }
        }))
        .await;
        if self.expected.is_empty() {
            return Ok(());
        }
        if self.expected.iter().any(|(_, expected)| expected.head == "broken") {
            return if replies.iter().all(Result::is_err) { Ok(()) } else { Err("not broken".to_owned()) };
        }
        let replies: Vec<Reply> = replies.into_iter().collect::<Result<_, _>>()?;
        for (many, expected) in &self.expected {
            let wrong: Vec<_> = replies
                .iter()
                .enumerate()
                .filter_map(|(number, reply)| {
                    let mut expected = expected.clone();
                    expected.head = numbered(&expected.head, number);
                    Some((differs(reply, &expected)?, reply))
                })
                .collect();
            if replies.len() - wrong.len() != many.unwrap_or(replies.len()) {
                let first = wrong.first().map_or("too many".to_owned(), |(why, reply)| format!("{why}: {reply:#?}"));
                return Err(format!("{} of {} replies are not {expected:?}: {first}", wrong.len(), replies.len()));
            }
        }
        Ok(())
    }
}

fn numbered(text: &str, number: usize) -> String {
    text.replace("%n", &number.to_string())
}

/// `3* rest`: the number, and the rest.
fn times(text: &str) -> (Option<usize>, &str) {
    let counted = text.split_once("* ").and_then(|(times, rest)| Some((Some(times.parse().ok()?), rest)));
    counted.unwrap_or((None, text))
}

/// The parts of a row: the sign before each (the first has none), and its text.
fn parts(row: &str) -> Vec<(char, String)> {
    let mut parts = vec![(' ', String::new())];
    for word in row.split(' ') {
        match word {
            "?" | "<" | ">" => parts.push((word.chars().next().unwrap(), String::new())),
            word => {
                let part = &mut parts.last_mut().unwrap().1;
                *part += if part.is_empty() { "" } else { " " };
                *part += word;
            }
        }
    }
    parts
}

/// A server and its origin while a scene is played.
struct Stage {
    server: Arc<Server>,
    rows: Arc<Mutex<Rows>>,
    running: Vec<JoinHandle<Result<(), String>>>,
    took: Duration,
}

impl Stage {
    async fn play(text: &str, enabled: &str) {
        let (all, began): (Vec<&str>, _) = (text.lines().collect(), Instant::now());
        let place = if enabled == "true" { "in a mirror" } else { "in a shield" };
        let rows = Arc::new(Mutex::new(Rows { is_mirror: enabled == "true", ..Rows::default() }));
        let answering = rows.clone();
        let mut setup = Setup::shield_of_pipe(pipe(move |seen| answering.lock().answer(seen, began)));
        setup = setup.set("mirror.enabled", enabled).set("cache.stale_while_revalidate", "0s");
        for (key, value) in all.iter().filter_map(|row| row.strip_prefix("set ")?.split_once('=')) {
            setup = setup.set(key, value);
        }
        let server = Arc::new(setup.start().await);
        let mut stage = Self { server, rows, running: Vec::new(), took: Duration::ZERO };
        for row in all.iter().chain([&"join"]) {
            if let Err(why) = stage.row(row).await {
                panic!("{place}:\n{text}--- {row}\n{why}\n{}", stage.server.process.said());
            }
        }
        let said = stage.server.process.said();
        assert!(!said.contains("panicked"), "{said}");
    }

    async fn row(&mut self, row: &str) -> Result<(), String> {
        let (word, rest) = row.split_once(' ').unwrap_or((row, ""));
        match word {
            "set" => return Ok(()),
            "wait" => sleep(seconds(rest)).await,
            "join" => self.join().await?,
            "always" => {
                let says = Message::of(rest.trim_start_matches("< "));
                self.rows.lock().always = Some(Answer { sees: None, says });
            }
            "asked" => {
                let asked = std::mem::take(&mut self.rows.lock().asked);
                if !holds(rest, Some(&asked.to_string())) {
                    return Err(format!("the origin was asked {asked} times"));
                }
            }
            "purge" => {
                let (query, many) = rest.split_once(' ').unwrap();
                let purged = self.server.admin(Method::DELETE, &format!("/cache{query}")).await;
                if !holds(many, Some(&purged.json()["purged"].to_string())) {
                    return Err(format!("{purged:?}"));
                }
            }
            "took" if !holds(rest, Some(&self.took.as_secs().to_string())) => return Err(format!("{:?}", self.took)),
            "took" => {}
            _ => return self.request(row).await,
        }
        Ok(())
    }

    async fn request(&mut self, row: &str) -> Result<(), String> {
        let is_running = row.starts_with("& ");
        let parts = parts(row.trim_start_matches("& "));
        let (times, request) = self::times(&parts[0].1);
        let leaving = request.strip_prefix("leave ").and_then(|rest| rest.split_once(' '));
        let (leaves, request) = leaving.map_or((None, request), |(span, request)| (Some(seconds(span)), request));
        let request = Message::of(request);
        let mut expected = Vec::new();
        {
            let mut rows = self.rows.lock();
            let mut sees = None;
            for (sign, part) in &parts[1..] {
                match sign {
                    '?' => sees = Some(Message::of(part)),
                    '<' => rows.answers.push_back(Answer { sees: sees.take(), says: Message::of(part) }),
                    _ => {
                        let (many, reply) = self::times(part);
                        expected.push((many, Message::of(reply)));
                    }
                }
            }
        }
        let playing =
            tokio::spawn(Row { times: times.unwrap_or(1), leaves, request, expected }.play(self.server.clone()));
        if is_running {
            self.running.push(playing);
            sleep(MOMENT).await;
        } else {
            let began = Instant::now();
            playing.await.unwrap()?;
            self.took = began.elapsed();
            sleep(MOMENT).await;
        }
        self.judge()
    }

    /// Whether all that was asked of the origin is as the rows say.
    fn judge(&self) -> Result<(), String> {
        let rows = self.rows.lock();
        if let Some(answer) = rows.answers.front() {
            return Err(format!("the origin is not asked: {answer:?}"));
        }
        if rows.wrong.is_empty() { Ok(()) } else { Err(rows.wrong.join("\n")) }
    }

    async fn join(&mut self) -> Result<(), String> {
        for running in self.running.drain(..) {
            running.await.unwrap()?;
        }
        sleep(MOMENT).await;
        self.judge()
    }
}
