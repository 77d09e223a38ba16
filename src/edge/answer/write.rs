//! Serialisation of an answer's head: the bytes that HTTP/1 sends, and the map that HTTP/2 code takes.
//!
//! Every answer of the public listener gets its head here. Callers: [`crate::edge::serve`];
//! [`crate::server::admin::front`] for what it writes without pingora.

use std::cell::RefCell;

use bytes::Bytes;
use http::StatusCode;
use http::header::{DATE, HeaderMap, HeaderValue};

use crate::clock::WallTime;

use super::compose::{Answer, ConstantHeaders, Outcome};
use super::head as fields;
use super::head::{Field, Fields};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    KeepAlive,
    Close,
}

impl ConstantHeaders {
    /// The head of an answer as HTTP/1.1 sends it (RFC 9112 §2.1), in place of what is in `out`.
    pub fn http1(&self, answer: &Answer, persistence: Persistence, out: &mut Vec<u8>) {
        begin(out, answer.status);
        out.extend_from_slice(&self.block(answer.shape).lines);
        for (field, value) in answer.found.iter().flat_map(|(found, _)| found.fields(answer.now)) {
            field.write_to(out, |out| out.extend_from_slice(value.as_bytes()));
        }
        answer.fields.write_to(out);
        answer.changing(|field, value| field.write_to(out, value));
        end(out, answer.now, persistence);
    }

    /// The fields of an answer as HTTP/2 code takes them.
    pub fn http2(&self, answer: &Answer) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(ROOM);
        map.extend(self.block(answer.shape).map.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (field, value) in answer.found.iter().flat_map(|(found, _)| found.fields(answer.now)) {
            map.append(field.name(), value.clone());
        }
        for (name, value) in answer.fields.iter() {
            map.append(name, value.clone());
        }
        // The values share one allocation.
        let mut texts = Vec::with_capacity(TEXTS);
        let mut ends = [const { (&fields::AGE, 0) }; MOST_CHANGING];
        let mut places = ends.iter_mut();
        answer.changing(|field, value| {
            value(&mut texts);
            if let Some(place) = places.next() {
                *place = (field, texts.len());
            }
        });
        let mut texts = Bytes::from(texts);
        let mut start = 0;
        for (field, end) in ends.into_iter().take_while(|(_, end)| *end > 0) {
            if let Ok(mut value) = HeaderValue::from_maybe_shared(texts.split_to(end - start)) {
                value.set_sensitive(is_new_each_time(field));
                map.append(field.name(), value);
            }
            start = end;
        }
        with_date(answer.now, |date| drop(map.insert(DATE, date.clone())));
        map
    }
}

/// Room for every field of an answer, so that the map is allocated once.
const ROOM: usize = 22;
/// Room for the values that change, in bytes, and how many there are at most: another one needs a place here, or it is
/// missing over HTTP/2.
const TEXTS: usize = 192;
const MOST_CHANGING: usize = 7;

/// Whether a field stays out of the table that HPACK compresses with: there it would push out the fields that stay the
/// same (RFC 7541 §2.3.2).
fn is_new_each_time(field: &'static Field) -> bool {
    [&fields::RATE_LIMIT, &fields::X_REQUEST_ID].into_iter().any(|one| std::ptr::eq(one, field))
}

impl Answer {
    /// Gives `put` the fields whose values are different each time, or each second, with a function that appends the
    /// value: visible ASCII, not empty.
    fn changing(&self, mut put: impl FnMut(&'static Field, &dyn Fn(&mut Vec<u8>))) {
        if let Some((_, Some(length))) = self.found {
            put(&fields::CONTENT_LENGTH, &|out| put_number(out, length));
        }
        if let Some(age) = self.age {
            put(&fields::AGE, &|out| put_number(out, age.seconds));
            if let Some(expires) = age.expires {
                put(&fields::X_ACCEL_EXPIRES, &|out| put_number(out, expires));
            }
        }
        if let Outcome::Cache(outcome) = self.outcome {
            put(&fields::CACHE_STATUS, &|out| outcome.write_to(out));
        }
        if self.limit.quota().is_some() {
            put(&fields::RATE_LIMIT_POLICY, &|out| self.limit.write_policy(out));
            put(&fields::RATE_LIMIT, &|out| self.limit.write_rate_limit(out));
        }
        if let Some(id) = &self.id {
            put(&fields::X_REQUEST_ID, &|out| out.extend_from_slice(id.as_bytes()));
        }
    }
}

fn put_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A head of other fields than an answer's, as HTTP/1.1 sends it.
pub(crate) fn http1(status: StatusCode, fields: &Fields, now: WallTime, persistence: Persistence) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out, status);
    fields.write_to(&mut out);
    end(&mut out, now, persistence);
    out
}

/// Gives `put` the value of `Date`, which is written out once a second. Without an HTTP-date there is no `Date` (RFC 9110
/// §6.6.1).
fn with_date(now: WallTime, put: impl FnOnce(&HeaderValue)) {
    thread_local! {
        static LATEST: RefCell<(Option<i64>, Option<HeaderValue>)> = const { RefCell::new((None, None)) };
    }
    LATEST.with_borrow_mut(|(second, date)| {
        if *second != Some(now.as_seconds()) {
            (*second, *date) = (Some(now.as_seconds()), now.http_date().and_then(|date| date.try_into().ok()));
        }
        if let Some(date) = date {
            put(date);
        }
    });
}

fn begin(out: &mut Vec<u8>, status: StatusCode) {
    out.clear();
    match status {
        StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        StatusCode::NOT_MODIFIED => out.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n"),
        _ => {
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(status.as_str().as_bytes());
            // The space stays when there is no phrase (RFC 9112 §4).
            out.push(b' ');
            out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn end(out: &mut Vec<u8>, now: WallTime, persistence: Persistence) {
    with_date(now, |date| {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(b"\r\n");
    });
    out.extend_from_slice(match persistence {
        Persistence::KeepAlive => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use http::Method;

    use crate::edge::answer::compose::Asked;
    use crate::edge::limit::Decision;
    use crate::protocol::freshness::CacheControl;
    use crate::protocol::problem::Problem;

    use super::*;

    fn answer(now: WallTime) -> (ConstantHeaders, Answer) {
        let minute = Duration::from_secs(60);
        let lifetime = CacheControl { ttl: minute, stale_while_revalidate: minute, stale_if_error: minute };
        let constant_headers = ConstantHeaders::new(lifetime, true, &[Method::GET]);
        let limit = Decision::Refused { quota: 60, retry_after_seconds: 7 };
        let (method, headers) = (Method::GET, HeaderMap::new());
        let asked = Asked::of(&method, &headers, limit, now.into());
        let mut answer = constant_headers.problem(asked, &Problem::rate_limited(60, 7));
        answer.id = Some("an-id".to_owned());
        (constant_headers, answer)
    }

    #[test]
    fn both_protocols_get_the_same_fields() {
        let (constant_headers, answer) = answer(WallTime::from_seconds(784_111_777));
        let mut head = b"what was there before".to_vec();
        constant_headers.http1(&answer, Persistence::Close, &mut head);
        let text = String::from_utf8(head).unwrap();
        let lines = text.strip_prefix("HTTP/1.1 429 Too Many Requests\r\n").unwrap();
        let ours = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\r\n";
        let lines: BTreeSet<String> =
            lines.strip_suffix(ours).unwrap().lines().map(|line| line.replacen(": ", "=", 1).to_lowercase()).collect();
        let map = constant_headers.http2(&answer);
        assert_eq!(map.get(DATE).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
        let fields = map
            .iter()
            .filter(|(name, _)| *name != DATE)
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()).to_lowercase());
        assert_eq!(fields.collect::<BTreeSet<String>>(), lines);
        assert!(map.len() == lines.len() + 1 && lines.contains("x-request-id=an-id"), "{lines:?}");
        for (name, value) in &map {
            assert_eq!(value.is_sensitive(), matches!(name.as_str(), "ratelimit" | "x-request-id"), "{name}");
        }
    }

    #[test]
    fn a_clock_that_shows_no_time_one_can_say_gives_no_date() {
        let (constant_headers, answer) = answer(WallTime::from_millis(i64::MAX));
        let mut head = Vec::new();
        constant_headers.http1(&answer, Persistence::KeepAlive, &mut head);
        let text = String::from_utf8(head).unwrap();
        assert!(text.ends_with("\r\nConnection: keep-alive\r\n\r\n") && !text.contains("\r\nDate:"), "{text}");
        let status = StatusCode::from_u16(299).unwrap();
        let head = http1(status, &Fields::default(), WallTime::from_seconds(0), Persistence::Close);
        assert_eq!(head, b"HTTP/1.1 299 \r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: close\r\n\r\n");
    }
}
