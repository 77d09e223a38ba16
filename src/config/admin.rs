//! `[admin]`: the settings of the listener for operators.
//!
//! Callers: `resolve` reads it, `admin` acts on it.

use std::net::{IpAddr, SocketAddr};

use crate::semantics::target;

use super::address::socket;
use super::describe::Toml;
use super::parse::expected;
use super::raw::Node;
use super::secret::{Secret, token};
use super::section::Section;

/// `[admin]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it listens; collides with no public listener. Port 0: the system chooses.
    pub listen: SocketAddr,
    /// The token for actions. `None`: not needed on loopback; elsewhere actions are refused.
    pub token: Option<Secret>,
    /// Further names and addresses that requests may have in `Host`, as [`target::host_of`] writes them; empty: none.
    pub hosts: Vec<String>,
}

impl AdminConfig {
    /// Whether actions are accepted at all: on loopback, or with a token.
    pub fn accepts_writes(&self) -> bool {
        self.token.is_some() || self.listen.ip().to_canonical().is_loopback()
    }
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9090)), token: None, hosts: Vec::new() }
    }
}

impl AdminConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            listen: section.field("listen", Self::default().listen, socket),
            token: section.optional("token", token),
            hosts: section.list("hosts", "\"mirror.internal\"", Vec::new(), own_name),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("admin");
        out.pair("listen", self.listen.to_string());
        match &self.token {
            Some(token) => out.secret("token", token.expose(), "set, not shown"),
            None => out.absent("token", "absent"),
        }
        out.list("hosts", &self.hosts);
    }
}

/// A name or an address that `Host` may have, without a port.
fn own_name(node: &Node) -> Result<String, String> {
    let address = || node.as_text()?.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string());
    let name = || target::host_of(node.as_text()?.as_bytes()).filter(|_| !node.text.contains(':'));
    match address().or_else(name) {
        Some(name) => Ok(name),
        None => expected(node, "a host name or an IP address without a port, such as \"mirror.internal\""),
    }
}
