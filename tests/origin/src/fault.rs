//! Faults: which requests fail, and how often.
//!
//! Not what goes wrong: tests bring that ([`Mishap`]), so that the program has none. Callers: the server, once per
//! admitted request.

use std::fmt::Debug;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method, Response};
use sample::dice::Dice;

use super::server::{self, Shared};
use super::switches::Switches;
use super::wire::Body;

/// What goes wrong.
#[async_trait]
pub trait Mishap: Debug + Send + Sync {
    /// The answer instead of, or made of, the right one. An error means that the connection is dropped.
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>>;
}

/// A request with a fault.
#[derive(Debug)]
pub struct Asked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) switches: &'a Switches,
    /// The method.
    pub method: &'a Method,
    /// Path and query, with the origin's prefix.
    pub target: &'a str,
    /// The header.
    pub headers: &'a HeaderMap,
    /// A second handle on the connection, to write past the HTTP library; `None` without a socket, or if the system
    /// gave none.
    pub connection: Option<&'a TcpStream>,
}

impl Asked<'_> {
    /// The right answer.
    pub async fn right(&self) -> Response<Body> {
        self.shared.answer(self.switches, self.method, self.target, self.headers).await
    }

    /// The text of the right answer now, past the CDN.
    pub fn right_text(&self) -> String {
        self.shared.text(self.switches, self.target)
    }

    /// Whether the client takes gzip.
    pub fn accepts_gzip(&self) -> bool {
        server::accepts_gzip(self.headers)
    }
}

/// A fault and the requests that it affects.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Start of path and query, after the origin's prefix: `/api/listings.json?page=2`. Empty matches everything.
    pub path_prefix: String,
    /// Share of the matching requests, `0.0..=1.0`.
    pub probability: f64,
    /// How many more requests it affects; counts down. `None`: no end.
    pub times: Option<u32>,
    /// What goes wrong.
    pub fault: Arc<dyn Mishap>,
}

impl FaultRule {
    /// A fault for all requests whose path and query start so.
    pub fn always(path_prefix: &str, fault: impl Mishap + 'static) -> Self {
        // A fault that never strikes lets a test pass that shows nothing.
        debug_assert!(path_prefix.is_empty() || path_prefix.starts_with('/'), "no path starts with {path_prefix}");
        Self { path_prefix: path_prefix.to_owned(), probability: 1.0, times: None, fault: Arc::new(fault) }
    }

    /// A fault for the next so many requests whose path and query start so.
    pub fn times(path_prefix: &str, times: u32, fault: impl Mishap + 'static) -> Self {
        Self { times: Some(times), ..Self::always(path_prefix, fault) }
    }

    /// A fault for a share of all requests.
    pub fn share(probability: f64, fault: impl Mishap + 'static) -> Self {
        Self { probability, ..Self::always("", fault) }
    }
}

/// The fault, if any, of a request for `target`; counts it.
pub(super) fn strike(rules: &mut [FaultRule], target: &str, dice: &mut Dice) -> Option<Arc<dyn Mishap>> {
    for rule in rules {
        let applies = target.starts_with(&rule.path_prefix) && rule.times != Some(0);
        if applies && dice.chance(rule.probability) {
            rule.times = rule.times.map(|left| left - 1);
            return Some(rule.fault.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    enum Named {
        One,
        Other,
    }

    #[async_trait]
    impl Mishap for Named {
        async fn befall(&self, _asked: &Asked<'_>) -> io::Result<Response<Body>> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }

    #[test]
    fn rules_count_down_and_leave_other_paths_alone() {
        let mut dice = Dice::of(&[1]);
        let mut rules = [FaultRule::times("/api/cities", 2, Named::One), FaultRule::share(0.5, Named::Other)];
        let mut strikes = |rules: &mut [FaultRule], target: &str| {
            strike(rules, target, &mut dice).map_or_else(String::new, |fault| format!("{fault:?}"))
        };
        assert_eq!(strikes(&mut rules, "/api/cities.json"), "One");
        assert_eq!(strikes(&mut rules, "/api/cities.json"), "One");
        let struck = (0..1_000).filter(|_| strikes(&mut rules, "/api/cities.json") == "Other");
        assert!((400..600).contains(&struck.count()));
        assert_eq!(strikes(&mut rules[..1], "/api/states.json"), "");
    }
}
