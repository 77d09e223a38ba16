//! `/metrics` for Prometheus, in the format that it asks for.

use std::io::Write as _;
use std::process::{Command, Stdio};

use http::Method;

use crate::client::{Reply, plain_client};
use crate::harness::{Server, Setup, origin};

/// What Prometheus 2.42 sends.
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

async fn metrics(server: &Server, accept: Option<&str>) -> Reply {
    let request = plain_client().get(format!("http://{}/metrics", server.admin));
    let request = accept.into_iter().fold(request, |request, accept| request.header("accept", accept));
    Reply::of(request.send().await.unwrap()).await
}

/// The written value of a sample, which must exist.
#[track_caller]
fn written<'a>(metrics: &'a str, series: &str) -> &'a str {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{metrics}"))
}

/// The same as a number.
#[track_caller]
fn sample(metrics: &str, series: &str) -> f64 {
    written(metrics, series).parse().unwrap()
}

/// The output of `promtool check metrics`.
fn promtool(metrics: &str) -> String {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool comes with the package prometheus, which ./setup.sh installs");
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    format!("{}{}", if output.status.success() { "" } else { "refused: " }, String::from_utf8_lossy(&said))
}

#[tokio::test]
async fn promtool_has_nothing_to_say_of_a_mirror_and_of_a_shield_whatever_is_accepted() {
    let origin = origin(60).await;
    for setup in [Setup::mirror_of(&origin), Setup::shield_of(&origin), Setup::offline()] {
        let server = setup.start().await;
        for target in ["/api/listings.json", "/api/listings.json", "/api/nothing", "/nothing"] {
            server.get(target).await;
        }
        for accept in [None, Some(PROMETHEUS), Some("application/openmetrics-text"), Some("*/*")] {
            let reply = metrics(&server, accept).await;
            assert_eq!(reply.the("content-type"), "text/plain; version=0.0.4; charset=utf-8", "{accept:?}");
            let text = reply.text();
            assert_eq!(promtool(text), "", "{text}");
            assert!(text.contains("# TYPE grandstand_answers_total counter\n"), "{text}");
            assert!(sample(text, "grandstand_limit_evicted_total") >= 0.0, "{accept:?}");
        }
        let head = server.admin(Method::HEAD, "/metrics").await;
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
}

#[tokio::test]
async fn the_process_and_what_is_wanted_are_told() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let text = metrics(&server, None).await.text().to_owned();
    assert_eq!(written(&text, concat!("grandstand_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}")), "1");
    assert_eq!(written(&text, "grandstand_details_wanted"), "60");
    assert_eq!(written(&text, "grandstand_details_mirrored"), "60");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let started = sample(&text, "process_start_time_seconds");
    assert!(started <= now + 2.0 && started > now - 7200.0, "{started} is not just before {now}");
    assert!(sample(&text, "process_cpu_seconds_total") > 0.0);
    assert!(sample(&text, "process_resident_memory_bytes") > 1e6);
    assert!(sample(&text, "process_virtual_memory_bytes") > 1e6);
    let (open, most) = (sample(&text, "process_open_fds"), sample(&text, "process_max_fds"));
    assert!(open > 5.0 && open < most, "{open} of {most}");
    let on_demand = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    on_demand.ready().await;
    assert_eq!(written(metrics(&on_demand, None).await.text(), "grandstand_details_wanted"), "0");
}
