//! `[admin]`: the listener for operators. It is never a public one.
//!
//! Not the listener. Read by `resolve`, acted upon by `admin`.

use std::net::SocketAddr;

use super::address::socket;
use super::describe::Toml;
use super::secret::{Secret, token};
use super::section::Section;

/// `[admin]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens; collides with no public listener. Port 0: the system chooses.
    pub listen: SocketAddr,
    /// What writes must present. `None`: nothing on loopback, and writes are refused elsewhere.
    pub token: Option<Secret>,
}

impl AdminConfig {
    /// Whether writes can be accepted at all: on loopback, or with a token.
    pub fn accepts_writes(&self) -> bool {
        self.token.is_some() || self.listen.ip().to_canonical().is_loopback()
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9090)), token: None }
    }
}

impl AdminConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            listen: section.field("listen", Self::default().listen, socket),
            token: section.optional("token", token),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("admin");
        out.pair("listen", self.listen.to_string());
        let token = self.token.as_ref();
        out.absent("token", token.map_or("absent", |_| "set, not shown"));
    }
}
