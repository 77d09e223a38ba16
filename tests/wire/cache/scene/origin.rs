//! The origin of a scene: it answers what the rows say, and notes what it should not have been asked.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{Message, holds};
use crate::harness::virtually::begin;
use crate::harness::{Script, Seen};

/// What the origin answers to a request, and what it should see in it.
#[derive(Clone, Debug)]
pub struct Answer {
    pub sees: Option<Message>,
    pub says: Message,
}

impl Answer {
    fn script(&self, seen: &Seen, began: Instant) -> Script {
        let fill = |text: &str| {
            let mut text = text.replace("{n}", &seen.nth.to_string()).replace("LARGE", &"1,".repeat(1 << 10));
            while let Some((start, end)) = text.find('{').zip(text.find('}')).filter(|(start, end)| {
                end > start && text[start + 1..*end].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            }) {
                let value = seen.header(&text[start + 1..end]).unwrap_or("none").to_owned();
                text.replace_range(start..=end, &value);
            }
            dated(&text, began)
        };
        let head = fill(&self.says.head);
        let (after, head) = match head.strip_prefix("after ").and_then(|rest| rest.split_once(' ')) {
            Some((span, head)) => (seconds(span), head),
            None => (Duration::ZERO, head.as_str()),
        };
        let script = match head {
            "hangup" => Script::hang_up(),
            "hang" => Script::hang(),
            head => {
                let (cut, head) = head.strip_prefix("cut ").map_or((false, head), |head| (true, head));
                let (status, body) = head.split_once(' ').unwrap_or((head, ""));
                let body = if body == "\\xff" { vec![0xff] } else { body.as_bytes().to_vec() };
                let script = Script::new(status.parse().unwrap(), body);
                if cut { script.announced(1000) } else { script }
            }
        };
        let script = self.says.fields.iter().fold(script, |script, (name, value)| match name.strip_prefix('+') {
            Some(span) => script.then(seconds(span), fill(value)),
            None => script.with(name, fill(value)),
        });
        if after.is_zero() { script } else { script.after(after) }
    }
}

/// `@-10`: an HTTP date.
fn dated(text: &str, began: Instant) -> String {
    let Some(offset) = text.strip_prefix('@').and_then(|offset| offset.parse::<i64>().ok()) else {
        return text.to_owned();
    };
    let now = begin().as_seconds() + i64::try_from(began.elapsed().as_secs()).unwrap();
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + Duration::from_secs((now + offset).unsigned_abs()))
}

pub fn seconds(span: &str) -> Duration {
    match span.strip_suffix("ms") {
        Some(span) => Duration::from_millis(span.parse().unwrap()),
        None => Duration::from_secs(span.strip_suffix('s').unwrap().parse().unwrap()),
    }
}

/// The origin, as the rows script it.
#[derive(Debug, Default)]
pub struct Rows {
    pub answers: VecDeque<Answer>,
    pub always: Option<Answer>,
    pub asked: usize,
    pub wrong: Vec<String>,
    pub is_mirror: bool,
}

impl Rows {
    pub fn answer(&mut self, seen: &Seen, began: Instant) -> Script {
        let crawled = ["per_page=100", "sports.json", "states.json", "cities.json", "modified_since"];
        if self.is_mirror && crawled.iter().any(|part| seen.target.contains(part)) {
            return Script::new(404, "").with("cache-control", "no-store");
        }
        let Some(answer) = self.answers.pop_front() else {
            self.asked += 1;
            let Some(always) = &self.always else {
                self.wrong.push(format!("the origin is asked for {} {}", seen.method, seen.target));
                return Script::new(599, "");
            };
            return always.script(seen, began);
        };
        for (name, value) in answer.sees.iter().flat_map(|sees| &sees.fields) {
            if name == "names" {
                let mut names: Vec<_> = seen.headers.keys().map(http::HeaderName::as_str).collect();
                names.sort_unstable();
                self.check("the origin sees", name, value, Some(&names.join(", ")));
                continue;
            }
            let lines: Vec<_> = seen.headers.get_all(name).iter().map(|line| line.to_str().unwrap()).collect();
            self.check("the origin sees", name, value, (!lines.is_empty()).then(|| lines.join(", ")).as_deref());
        }
        if let Some(sees) = answer.sees.as_ref().filter(|sees| !sees.head.is_empty()) {
            let line = format!("{} {}", seen.method, seen.target);
            if !line.starts_with(&sees.head) {
                self.wrong.push(format!("the origin sees {line}, not {}", sees.head));
            }
        }
        answer.script(seen, began)
    }

    fn check(&mut self, what: &str, name: &str, expected: &str, value: Option<&str>) {
        if !holds(expected, value) {
            self.wrong.push(format!("{what} {name}: {value:?}, not {expected}"));
        }
    }
}
