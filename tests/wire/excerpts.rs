//! Messages show text from the origin as an excerpt.

use sample_origin::FaultRule;

use crate::harness::{Setup, origin, wait_until};
use crate::origin_faults::Fault;

#[tokio::test]
async fn a_long_text_of_the_origin_is_cut_in_status_and_log() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    let to = format!("http://elsewhere.test/{}", "%C3%A9".repeat(3000));
    origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Redirect(to.clone()))]);
    wait_until("it is told", || async { server.status().await["last_error"]["message"].is_string() }).await;
    let status = server.status().await;
    let message = status["last_error"]["message"].as_str().unwrap();
    assert!(message.len() <= 500 && message.contains("elsewhere.test") && message.ends_with('…'), "{message}");
    wait_until("the log has it", || async { server.process.said().contains("elsewhere.test") }).await;
    let longest = server.process.said().lines().map(str::len).max().unwrap();
    assert!(longest < 2000, "{longest}");
}
