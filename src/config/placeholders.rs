//! Placeholders of samples and documentation, in values that somebody forgot to replace.
//!
//! No value is shown, because any of them may be a secret. Callers: [`super::checks`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::errors::ConfigIssue;
use super::reader::join;
use super::sources::{Node, Raw};

/// Names that are nobody's (RFC 2606 §2 and §3): their ends.
const NAMES: [&str; 4] = ["example.org", "example.com", "example.net", ".example"];
/// Networks that are nobody's (RFC 5737 §3, RFC 3849 §2).
const NETWORKS: [IpNet; 4] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32)),
];
/// The object store of the samples.
const STORE: &str = "s3://bucket/prefix";

/// A warning for each value below `node`, the value of `key`, that has a placeholder.
pub(super) fn placeholders(key: &str, node: &Node) -> Vec<ConfigIssue> {
    match &node.value {
        Raw::Table(table) => table.iter().flat_map(|(name, node)| placeholders(&join(key, name), node)).collect(),
        Raw::Array(items) => items.iter().flat_map(|item| placeholders(key, item)).collect(),
        Raw::String => found_in(&node.text).map(|placeholder| warning(key, node, &placeholder)).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn warning(key: &str, node: &Node, placeholder: &str) -> ConfigIssue {
    let todo = match key {
        "origin.url" => "ask the provider of the API for its address",
        _ => "replace it with your own",
    };
    let problem = format!("contains a value of the examples ({placeholder}); {todo}");
    ConfigIssue::new(node.place.clone(), key, problem)
}

fn found_in(text: &str) -> Option<String> {
    if text == STORE {
        return Some(STORE.to_owned());
    }
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-'));
    let name_in = |word: &str| {
        let word = word.trim_end_matches('.').to_ascii_lowercase();
        NAMES.into_iter().find(|name| {
            let before = word.strip_suffix(name);
            before.is_some_and(|before| before.is_empty() || name.starts_with('.') || before.ends_with('.'))
        })
    };
    let named = words.find_map(name_in).map(str::to_owned);
    named.or_else(|| {
        let words = text.split(|c: char| !c.is_ascii_hexdigit() && !matches!(c, '.' | ':'));
        let mut addresses = words
            .filter_map(|word| word.parse::<IpAddr>().ok().or_else(|| Some(word.parse::<SocketAddr>().ok()?.ip())));
        let network = |address: IpAddr| NETWORKS.into_iter().find(|network| network.contains(&address.to_canonical()));
        addresses.find_map(network).map(|network| format!("an address of {network}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_networks_and_the_bucket_of_samples_are_found() {
        for (text, found) in [
            ("https://api.example.org", Some("example.org")),
            ("https://EXAMPLE.com:8443/v1", Some("example.com")),
            ("grandstand (you@example.net)", Some("example.net")),
            ("http://proxy.example:3128", Some(".example")),
            ("/etc/letsencrypt/live/venues.example.org/fullchain.pem", Some("example.org")),
            ("192.0.2.1", Some("an address of 192.0.2.0/24")),
            ("198.51.100.0/24", Some("an address of 198.51.100.0/24")),
            ("http://203.0.113.9:8080/x", Some("an address of 203.0.113.0/24")),
            ("http://[2001:db8::1]:80", Some("an address of 2001:db8::/32")),
            ("[2001:db8::1]:80", Some("an address of 2001:db8::/32")),
            ("s3://bucket/prefix", Some("s3://bucket/prefix")),
            ("s3://bucket/fleet", None),
            ("https://api.myexample.org", None),
            ("https://example.organic", None),
            ("grandstand, for example", None),
            ("1192.0.2.1", None),
            ("127.0.0.1:8080", None),
            ("[::]:8080", None),
            ("", None),
        ] {
            assert_eq!(found_in(text).as_deref(), found, "{text}");
        }
    }
}
