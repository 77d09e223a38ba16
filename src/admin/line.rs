//! The state of the server in one line, for service managers.
//!
//! Callers: [`crate::app`].

use super::status::Status;
use crate::config::Use;
use crate::words::counted;

impl Status {
    /// What the server does and how it is: `serving 5000 listings (mirror), confirmed at 2026-11-22T14:30:00Z`.
    pub(crate) fn line(&self) -> String {
        let reading = self.read();
        let usage = self.usage.as_str();
        let served = match &reading.published {
            Some(published) => {
                let listings = counted(published.dataset.len() as u64, "listing");
                let confirmed = published.claimed().rfc3339().unwrap_or_else(|| "an unknown time".to_owned());
                format!("serving {listings} ({usage}), confirmed at {confirmed}")
            }
            None if self.usage == Use::Shield => format!("serving ({usage})"),
            None => format!("no data yet ({usage})"),
        };
        let reasons: Vec<&str> = reading.reasons.iter().map(|reason| reason.text.as_str()).collect();
        if reasons.is_empty() { served } else { format!("{served}; unhealthy: {}", reasons.join("; ")) }
    }
}
