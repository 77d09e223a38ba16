//! Redis that fails: each machine goes on with its own window, says why, and comes back by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{ask, counts_alone, is_refused, left, machine, sample, shares};
use crate::harness::openssl::{acceptor, certificate};
use crate::harness::redis::Redis;
use serde_json::json;

use crate::harness::{PATIENCE, Server, Setup, run, wait_until};

async fn admitted(server: &Server, client: &str, times: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..times {
        admitted += usize::from(!is_refused(&ask(server, client).await));
    }
    admitted
}

/// A machine counts for itself, with this reason; then something is mended and it shares again.
async fn fails_and_returns(server: &Server, reason: &str, mend: impl AsyncFnOnce()) {
    wait_until(&format!("it says: {reason}"), || async {
        let status = server.status().await;
        // Each question makes it notice, and is answered.
        assert_eq!(ask(server, "203.0.113.99").await.status, 503);
        status["rate_limit"]["why"].as_str().is_some_and(|why| why.contains(reason))
    })
    .await;
    assert_eq!(server.status().await["rate_limit"]["store"], "local");
    assert!(sample(server, "grandstand_limit_shared").await < 0.5);
    mend().await;
    shares(server).await;
    assert!(sample(server, "grandstand_limit_shared").await > 0.5);
}

#[tokio::test]
async fn a_machine_starts_without_redis_and_shares_once_it_is_there() {
    let mut redis = Redis::absent(None).await;
    let server = machine(&redis, 4).start().await;
    assert_eq!(admitted(&server, "192.0.2.1", 3).await, 3);
    assert!(counts_alone(&server).await.contains("Redis"), "it says why");
    fails_and_returns(&server, "cannot be reached", async || redis.run(&[]).await).await;
    assert_eq!(redis.stamps("192.0.2.1").len(), 3, "what was admitted without Redis counts there");
    let other = machine(&redis, 4).start().await;
    shares(&other).await;
    assert_eq!(admitted(&other, "192.0.2.1", 4).await, 1);
    assert_eq!(admitted(&server, "192.0.2.1", 2).await, 0);
}

#[tokio::test]
async fn a_killed_redis_costs_one_limit_per_machine_and_what_was_lost_is_known_again() {
    let mut redis = Redis::start().await;
    let (one, other) = (machine(&redis, 5).start().await, machine(&redis, 5).start().await);
    shares(&one).await;
    shares(&other).await;
    assert_eq!(admitted(&one, "192.0.2.1", 3).await, 3);
    redis.kill();
    assert_eq!(admitted(&one, "192.0.2.1", 6).await, 2, "its own window has counted all the time");
    assert_eq!(admitted(&other, "192.0.2.1", 9).await, 5, "one further limit");
    assert!(counts_alone(&one).await.contains("Redis"));
    // It comes back without any data.
    redis.run(&[]).await;
    shares(&one).await;
    shares(&other).await;
    wait_until("both have told what they admitted alone", || async { redis.stamps("192.0.2.1").len() == 7 }).await;
    assert_eq!(admitted(&one, "192.0.2.1", 2).await + admitted(&other, "192.0.2.1", 2).await, 0);
    // Redis would admit a client whose window it has lost; a machine that admitted it often enough does not.
    assert_eq!(admitted(&one, "192.0.2.2", 5).await, 5);
    redis.ask::<()>(&["FLUSHALL"]);
    assert_eq!(admitted(&one, "192.0.2.2", 3).await, 0);
    wait_until("the refused requests do not count in Redis", || async { redis.stamps("192.0.2.2").is_empty() }).await;
}

#[tokio::test]
async fn a_slow_redis_delays_nobody_by_more_than_the_timeout() {
    let redis = Arc::new(Redis::start().await);
    let server = machine(&redis, 100_000).set("rate_limit.store_timeout", "50ms").start().await;
    let (began, mut all) = (Instant::now(), 0);
    for command in [&["DEBUG", "SLEEP", "6"][..], &["CLIENT", "PAUSE", "6000", "ALL"]] {
        shares(&server).await;
        let (sleeper, start) = (redis.clone(), Instant::now());
        let asleep = tokio::task::spawn_blocking(move || {
            let mut words = redis::cmd(command[0]);
            words.arg(&command[1..]).query::<()>(&mut sleeper.connect().unwrap()).unwrap();
        });
        let (mut asked, mut waited) = (0_u32, Duration::ZERO);
        while start.elapsed() < Duration::from_secs(4) {
            let before = Instant::now();
            ask(&server, "192.0.2.1").await;
            waited = waited.max(before.elapsed());
            asked += 1;
        }
        assert!(waited < Duration::from_secs(3), "a request waited {waited:?} for {command:?}");
        assert!(asked > 3, "{asked} requests in 4 s");
        all += asked;
        asleep.await.unwrap();
    }
    shares(&server).await;
    assert!(sample(&server, "grandstand_limit_store_losses_total").await >= 2.0);
    let counted = 100_000 - left(&ask(&server, "192.0.2.1").await).0;
    // On a machine that is slow enough the first ones do not count any more.
    assert!(counted <= all + 1, "{counted} of {}: something counts twice", all + 1);
    assert!(counted == all + 1 || began.elapsed() > PATIENCE, "{counted} of {}", all + 1);
}

#[tokio::test]
async fn a_reload_changes_how_long_a_decision_waits_and_where_the_password_is() {
    let mut redis = Redis::start().await;
    let file = |name: &str| redis.dir().join(name);
    let (config, first, second) = (file("grandstand.toml"), file("first"), file("second"));
    redis.require_password("one");
    std::fs::write(&first, "one\n").unwrap();
    std::fs::write(&second, "two\n").unwrap();
    let write = |timeout: &str, password: &std::path::Path| {
        let text = format!("rate_limit = {{ store_timeout = {timeout:?}, store_password_file = {password:?} }}\n");
        std::fs::write(&config, text).unwrap();
    };
    write("10s", &first);
    let setup = machine(&redis, 100_000).without("rate_limit.store_timeout");
    let server = setup.serving(&["--config", config.to_str().unwrap()]).start().await;
    shares(&server).await;
    let reloaded = async |applied: &[&str]| {
        let report = server.admin(http::Method::POST, "/reload").await.json();
        let keys = [serde_json::json!(applied), serde_json::json!([])];
        assert_eq!([&report["applied"], &report["needs_restart"]], [&keys[0], &keys[1]], "{report}");
    };
    write("20ms", &first);
    reloaded(&["rate_limit.store_timeout"]).await;
    // It answers nothing for a while.
    redis.ask::<()>(&["CLIENT", "PAUSE", "3000", "ALL"]);
    wait_until("the decision is given up after the new time", || async {
        ask(&server, "192.0.2.1").await;
        let status = server.status().await;
        status["rate_limit"]["why"].as_str().is_some_and(|why| why.contains("within 20 ms"))
    })
    .await;
    write("10s", &second);
    reloaded(&["rate_limit.store_password_file", "rate_limit.store_timeout"]).await;
    redis.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    fails_and_returns(&server, "refuses the user name or password", async || redis.require_password("two")).await;
}

#[tokio::test]
async fn a_read_only_or_full_redis_is_named_noticed_without_requests_and_used_again_when_it_is_mended() {
    let redis = Redis::start().await;
    let server = machine(&redis, 100_000).start().await;
    shares(&server).await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let why = counts_alone(&server).await;
    assert!(why.contains("memory limit"), "{why}");
    let before = redis.scripts();
    wait_until("it has tried it again, several times", || async { redis.scripts() - before >= 4 }).await;
    let losses = sample(&server, "grandstand_limit_store_losses_total").await;
    assert!(losses < 1.5, "{losses}: it was used again although it is full");
    assert!(counts_alone(&server).await.contains("memory limit"));
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    shares(&server).await;
    assert_eq!(admitted(&server, "192.0.2.1", 2).await, 2);
    assert_eq!(redis.stamps("probe").len(), 0, "a check leaves nothing behind");
    redis.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    let mend = async || redis.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    fails_and_returns(&server, "read-only replica", mend).await;
    redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let mend = async || redis.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    fails_and_returns(&server, "memory limit", mend).await;
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let mut redis = Redis::start().await;
    redis.ask::<()>(&["DEBUG", "POPULATE", "20000", "other", "64"]);
    redis.ask::<()>(&["SAVE"]);
    redis.kill();
    // 3 ms for each key, until the test says otherwise; after about ten keys it answers questions.
    redis.run(&["--key-load-delay", "3000", "--loading-process-events-interval-bytes", "1024"]).await;
    let server = machine(&redis, 100_000).start().await;
    let mend = async || redis.ask::<()>(&["CONFIG", "SET", "key-load-delay", "0"]);
    fails_and_returns(&server, "loading its data", mend).await;
}

#[tokio::test]
async fn a_wrong_password_is_named_but_not_shown() {
    let mut redis = Redis::start().await;
    redis.require_password("right one");
    for user in [":wrong@", ""] {
        let url = redis.url().replace("redis://", &format!("redis://{user}"));
        let server = machine(&redis, 100_000).set("rate_limit.store", &url).start().await;
        fails_and_returns(&server, "refuses the user name or password", async || {
            redis.require_password(if user.is_empty() { "" } else { "wrong" });
        })
        .await;
        assert!(!server.process.said().contains("wrong"));
        redis.require_password("right one");
    }
    let with = redis.url().replace("redis://", "redis://default:right%20one@");
    shares(&machine(&redis, 100_000).set("rate_limit.store", &with).start().await).await;
    let file = redis.dir().join("password");
    std::fs::write(&file, "not yet\n").unwrap();
    let server = machine(&redis, 100_000).set("rate_limit.store_password_file", file.to_str().unwrap()).start().await;
    let mend = async || std::fs::write(&file, "right one\n").unwrap();
    fails_and_returns(&server, "refuses the user name or password", mend).await;
    let data = tempfile::tempdir().unwrap();
    let check = machine(&redis, 5).set("rate_limit.store", &with).arguments(&["check"], data.path());
    let (code, said) = run(&check).await;
    assert!(code == 0 && !said.contains("right") && said.contains("password not shown"), "{code}: {said}");
}

#[tokio::test]
async fn scripts_that_redis_forgot_are_sent_again_without_a_break() {
    let redis = Redis::start().await;
    let server = machine(&redis, 1000).start().await;
    shares(&server).await;
    for left_then in [999, 998, 997] {
        redis.ask::<()>(&["SCRIPT", "FLUSH"]);
        assert_eq!(left(&ask(&server, "192.0.2.1").await).0, left_then);
    }
    assert!(sample(&server, "grandstand_limit_store_losses_total").await < 0.5);
}

#[tokio::test]
async fn redis_is_reached_over_tls_only_with_a_good_certificate() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "IP:127.0.0.1", &["-days", "2"]);
    let redis = Redis::start_with(Some(acceptor(dir.path()))).await;
    let url = redis.url().replace("redis://", "rediss://");
    let ca = format!("SSL_CERT_FILE={}", dir.path().join("ca.pem").display());
    let trusting = machine(&redis, 5).set("rate_limit.store", &url).under(&["env", &ca]).start().await;
    shares(&trusting).await;
    assert_eq!(left(&ask(&trusting, "192.0.2.1").await).0, 4);
    let wary = machine(&redis, 5).set("rate_limit.store", &url).start().await;
    assert!(counts_alone(&wary).await.contains("Redis"));
    wait_until("it does not trust the certificate", || async {
        let status = wary.status().await;
        status["rate_limit"]["why"].as_str().is_some_and(|why| why.contains("certificate"))
    })
    .await;
    let cleartext = machine(&redis, 5).start().await;
    assert_eq!(admitted(&cleartext, "192.0.2.2", 6).await, 5);
}

/// `rate_limit` in `/status`.
async fn told(server: &Server) -> serde_json::Value {
    server.status().await["rate_limit"].clone()
}

#[tokio::test]
async fn operators_see_whether_the_limit_is_shared_since_when_not_and_what_it_cost() {
    let mut redis = Redis::start().await;
    let server = machine(&redis, 3).start().await;
    shares(&server).await;
    for _ in 0..5 {
        ask(&server, "192.0.2.7").await;
    }
    let shared = told(&server).await;
    assert!(shared["url"].as_str().is_some_and(|url| url.starts_with("redis://127.0.0.1:")), "{shared}");
    assert_eq!((&shared["store"], &shared["requests_per_minute"]), (&json!("shared"), &json!(3)));
    assert_eq!(shared["decisions"], json!({ "store": 4, "memory": 1, "process": 0 }));
    assert_eq!((&shared["lost"], &shared["why"], &shared["alone_since"]), (&json!(0), &json!(null), &json!(null)));
    let arguments = server.setup.arguments(&["status"], &server.data_dir());
    redis.kill();
    wait_until("it counts alone", || async {
        ask(&server, "192.0.2.8").await;
        server.status().await["rate_limit"]["store"] == "local"
    })
    .await;
    let alone = told(&server).await;
    assert!(alone["alone_since"].as_str().is_some_and(|since| since.starts_with("20")), "{alone}");
    assert!(alone["why"].as_str().is_some_and(|why| why.contains("Redis cannot be reached")), "{alone}");
    assert_eq!(alone["lost"], 1);
    let said = "the limit is not shared, so each machine counts clients by itself: Redis";
    assert!(server.finding("limit-not-shared").await.unwrap().starts_with(said));
    let (_, screen) = run(&arguments).await;
    assert!(screen.contains(&format!("  finding    {said}")), "{screen}");
    let without = Setup::offline().set("rate_limit.requests_per_minute", "5").start().await;
    let told = told(&without).await;
    assert_eq!((&told["store"], &told["url"], &told["decisions"]), (&json!("local"), &json!(null), &json!(null)));
    assert_eq!((&told["why"], left(&ask(&without, "192.0.2.1").await).0), (&json!(null), 4));
}

/// Whoever can write to Redis can damage keys, by accident too.
#[tokio::test]
async fn a_damaged_key_concerns_its_client_alone_and_is_repaired() {
    let redis = Redis::start().await;
    let (one, other) = (machine(&redis, 4).start().await, machine(&redis, 4).start().await);
    shares(&one).await;
    shares(&other).await;
    let key = |client: &str| format!("grandstand:limit:{client}");
    let damages: [(&str, &[&str]); 6] = [
        ("192.0.2.1", &["SET", "of another type"]),
        ("192.0.2.2", &["ZADD", "inf", "a"]),
        ("192.0.2.3", &["ZADD", "-inf", "a"]),
        ("192.0.2.4", &["ZADD", "1e300", "a", "inf", "b", "-1e300", "c", "0.5", "d"]),
        ("192.0.2.5", &["HSET", "field", "value"]),
        ("probe", &["RPUSH", "of another type"]),
    ];
    for (client, words) in damages {
        redis.ask::<redis::Value>(&[&[words[0], &key(client)], &words[1..]].concat());
    }
    for (client, _) in &damages[..5] {
        assert_eq!(admitted(&one, client, 3).await + admitted(&other, client, 3).await, 4, "{client}");
        assert_eq!(redis.stamps(client).len(), 4, "{client}");
    }
    // In the middle of a window, it keeps what is good.
    redis.ask::<i64>(&["ZADD", &key("192.0.2.6"), "inf", "a"]);
    assert_eq!(admitted(&one, "192.0.2.6", 2).await, 2);
    redis.ask::<i64>(&["ZADD", &key("192.0.2.6"), "inf", "b"]);
    assert_eq!(admitted(&other, "192.0.2.6", 5).await, 2);
    let before = redis.scripts();
    wait_until("the connection was tried with its damaged key", || async { redis.scripts() >= before + 4 }).await;
    for server in [&one, &other] {
        assert_eq!(server.status().await["rate_limit"]["store"], "shared");
        assert!(sample(server, "grandstand_limit_store_losses_total").await < 0.5);
    }
}

/// Answers each command with `answer`, then with `more` without end; the address, and how many bytes of one connection were
/// taken at most.
async fn impostor(answer: String, more: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, most) = (format!("redis://{}", listener.local_addr().unwrap()), Arc::<AtomicUsize>::default());
    let taken = most.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut command, mut bytes) = (vec![0; 64 << 10], 0);
            while let Ok(length @ 1..) = stream.read(&mut command).await {
                let commands = 1 + command[..length].windows(3).filter(|bytes| bytes == b"\r\n*").count();
                if stream.write_all(answer.repeat(commands).as_bytes()).await.is_err() {
                    break;
                }
                while !more.is_empty() && stream.write_all(more).await.is_ok() {
                    bytes += more.len();
                    taken.fetch_max(bytes, Ordering::Relaxed);
                }
            }
        }
    });
    (url, most)
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    for answer in ["$2000000000\r\n", "*2000000000\r\n", "-ERR "] {
        let (url, taken) = impostor(answer.to_owned(), &[b'x'; 4096]).await;
        let server = Setup::offline().set("rate_limit.store", &url).start().await;
        wait_until(answer, || async {
            let why = told(&server).await["why"].as_str().unwrap_or_default().to_owned();
            !why.contains("not answered yet")
        })
        .await;
        // What the system holds for the connection counts, too.
        assert!(taken.load(Ordering::Relaxed) < 32 << 20, "{answer:?}: {}", taken.load(Ordering::Relaxed));
    }
}

#[tokio::test]
async fn an_error_of_redis_is_cut_and_forges_no_line() {
    let (url, _) = impostor(format!("-ERR \u{1b}[2J\nforged \u{9b}{}\r\n", "x".repeat(5000)), b"").await;
    let server = Setup::offline().set("rate_limit.store", &url).start().await;
    wait_until("it is told", || async { server.process.said().contains("Redis answered with an error: ") }).await;
    let (said, why) = (server.process.said(), told(&server).await["why"].as_str().unwrap().to_owned());
    for text in said.lines().chain([&*why]) {
        assert!(text.len() < 1000 && !text.starts_with("forged") && !text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
    }
    assert!(why.contains(r"\u{1b}[2J\nforged \u{9b}xxx"), "{why}");
}
