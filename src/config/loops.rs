//! Whether `origin.url` leads back to this server.
//!
//! Not loops through other machines: those are found when a request comes back (`semantics::hops`). Callers:
//! [`super::Examined::check_loops`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use super::address::BaseUrl;

/// The longest wait for a name server. Without an answer no loop is reported.
const RESOLVING: Duration = Duration::from_secs(2);

/// The first of `listeners`, each with its key, that a URL leads to. Another port of the same machine is another
/// program. Port 0 is not bound yet.
pub(super) fn own_listener<'a>(
    url: &BaseUrl,
    listeners: impl Iterator<Item = (&'a str, SocketAddr)>,
    resolve: impl Fn(&str) -> Vec<IpAddr>,
    is_local: impl Fn(IpAddr) -> bool,
) -> Option<(&'a str, SocketAddr)> {
    let mut listeners = listeners.filter(|(_, address)| address.port() == url.port()).peekable();
    listeners.peek()?;
    let addresses = match literal(url.host()) {
        Some(address) => vec![address],
        None if url.is_loopback() => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        None => resolve(url.host()),
    };
    listeners.find(|(_, listener)| addresses.iter().any(|address| reaches(*address, listener.ip(), &is_local)))
}

/// The address, if the host is written as one.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether a connection to an address arrives at a listener.
fn reaches(address: IpAddr, listener: IpAddr, is_local: impl Fn(IpAddr) -> bool) -> bool {
    // A connection to an unspecified address goes to this machine.
    let address = match address.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    match listener.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.is_ipv4() && is_local(address),
        // IPv4 as well, on most systems.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => is_local(address),
        listener => listener == address,
    }
}

/// Whether an address is one of this machine: a socket can be bound to it.
pub(super) fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The addresses of a name; none without an answer in time.
pub(super) fn resolve(host: &str) -> Vec<IpAddr> {
    let (tell, told) = mpsc::channel();
    let host = host.to_owned();
    // The system's resolver has no deadline.
    std::thread::spawn(move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        // The receiver may have stopped waiting.
        let _ = tell.send(found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default());
    });
    told.recv_timeout(RESOLVING).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The listener of a URL, on a machine with the addresses 127.0.0.0/8, ::1, 192.0.2.1 and 2001:db8::1.
    fn found(url: &str, listeners: &[&str]) -> Option<String> {
        let url = BaseUrl::parse(url).unwrap();
        let listeners = listeners.iter().map(|listener| ("listen", listener.parse().unwrap()));
        let local = |address: IpAddr| {
            address.is_loopback() || ["192.0.2.1", "2001:db8::1"].contains(&address.to_string().as_str())
        };
        let resolve = |name: &str| match name {
            "here.test" => vec!["198.51.100.7".parse().unwrap(), "192.0.2.1".parse().unwrap()],
            "elsewhere.test" => vec!["198.51.100.7".parse().unwrap()],
            _ => Vec::new(),
        };
        own_listener(&url, listeners, resolve, local).map(|(_, address)| address.to_string())
    }

    #[test]
    fn an_origin_that_is_one_of_our_listeners_is_found() {
        for (url, listener) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/base", "127.0.0.1:8080"),
            ("https://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("http://a.localhost:8080", "[::1]:8080"),
            ("http://127.0.0.7:8080", "0.0.0.0:8080"),
            ("http://0.0.0.0:8080", "127.0.0.1:8080"),
            ("http://[::]:8080", "[::1]:8080"),
            ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
            ("http://192.0.2.1", "0.0.0.0:80"),
            ("http://192.0.2.1", "[::]:80"),
            ("https://[2001:db8::1]", "[::]:443"),
            ("https://here.test", "0.0.0.0:443"),
            ("https://here.test", "192.0.2.1:443"),
        ] {
            assert_eq!(found(url, &["203.0.113.1:1", listener]).as_deref(), Some(listener), "{url}");
        }
    }

    #[test]
    fn other_ports_and_other_machines_are_no_loop() {
        for (url, listener) in [
            ("http://127.0.0.1:8081", "127.0.0.1:8080"),
            ("http://localhost:8081", "0.0.0.0:8080"),
            ("http://127.0.0.2:8080", "127.0.0.1:8080"),
            ("http://192.0.2.1:8080", "127.0.0.1:8080"),
            ("http://[2001:db8::1]:8080", "0.0.0.0:8080"),
            ("https://elsewhere.test", "0.0.0.0:443"),
            ("https://unknown.test", "0.0.0.0:443"),
            ("http://198.51.100.7", "[::]:80"),
            ("http://127.0.0.1:8080", "127.0.0.1:0"),
        ] {
            assert_eq!(found(url, &[listener]), None, "{url} {listener}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        assert!(is_local(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_local("192.0.2.77".parse().unwrap()), "TEST-NET-1");
    }
}
