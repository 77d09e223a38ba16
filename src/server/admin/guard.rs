//! Guard of the admin listener: only requests for this listener are answered. Actions from other sites are refused, and
//! off loopback all actions without the token.
//!
//! A web page can make its own name point to this listener (DNS rebinding); a browser then reads what is here and sends
//! the page's name in `Host`. That name is all that tells such a request from an operator's. Pure. Callers:
//! [`super::front`], [`super::Admin`].

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, header};

use crate::config::AdminConfig;
use crate::protocol::target;

/// The longest foreign name that is repeated in an answer, in bytes.
const SHOWN: usize = 80;

/// Checks that a request is for this listener. `local`: the address that its connection came to; `None`: unknown.
pub(crate) fn is_for_us(config: &AdminConfig, local: Option<IpAddr>, request: &Parts) -> Result<(), String> {
    let fields = request.headers.get_all(header::HOST).iter().map(http::HeaderValue::as_bytes);
    // A target with a host of its own counts as well as the field (RFC 9112 §3.2.2).
    let target = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    let own = [Some(config.listen), local.map(|address| SocketAddr::new(address, 0))];
    let is_ours = |value: &[u8]| {
        let Some(name) = target::host_of(value) else { return false };
        let is_own = |address: IpAddr| {
            address.is_loopback() || own.into_iter().flatten().any(|own| own.ip().to_canonical() == address)
        };
        name == "localhost" || config.hosts.contains(&name) || name.parse().is_ok_and(is_own)
    };
    // HTTP/1.0 need not name one, and no browser sends that.
    match fields.chain(target).find(|value| !is_ours(value)) {
        None => Ok(()),
        Some(foreign) => {
            let shown = String::from_utf8_lossy(&foreign[..foreign.len().min(SHOWN)]);
            Err(format!(
                "{shown:?} in Host is not a name of the admin listener; ask for localhost or for the listener's address, or \
                 add the name to admin.hosts"
            ))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `Origin` names another site (cross-site request).
    ForeignOrigin,
    /// A token is required, and it is missing or wrong.
    Token,
    /// The listener is not on loopback and no token is configured.
    NoToken,
}

impl Refusal {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignOrigin => "actions from other sites are refused",
            Self::Token => "send `Authorization: Bearer <admin.token>`",
            Self::NoToken => {
                "actions are refused: admin.listen is not a loopback address, so set admin.token (or admin.token_file) and send it"
            }
        }
    }
}

pub(crate) fn may_write(config: &AdminConfig, headers: &HeaderMap) -> Result<(), Refusal> {
    let lines = |name: &'static str| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    let text = |name| lines(name).next();
    let is_ours = |origin: &str| {
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        text("host").zip(site).is_some_and(|(host, site)| host.eq_ignore_ascii_case(site))
    };
    // An image or a form of another site names no origin. Of several lines, the most foreign one counts.
    if !(lines("origin").all(is_ours) && lines("sec-fetch-site").all(|site| matches!(site, "same-origin" | "none"))) {
        return Err(Refusal::ForeignOrigin);
    }
    match config.secret() {
        Some(token) => {
            // Of two lines, a proxy in front may have checked the other one.
            let sent = text("authorization").filter(|_| lines("authorization").count() == 1);
            match sent.and_then(|value| value.split_once(' ')) {
                // RFC 9110 §11.1: in any case.
                Some((scheme, sent)) if scheme.eq_ignore_ascii_case("bearer") && token.matches(sent.as_bytes()) => {
                    Ok(())
                }
                _ => Err(Refusal::Token),
            }
        }
        None if config.accepts_writes() => Ok(()),
        None => Err(Refusal::NoToken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = http::HeaderValue::from_static;
        let mut headers = HeaderMap::new();
        for (name, text) in pairs {
            headers.append(*name, value(text));
        }
        headers
    }

    /// The verdict on a request to 10.0.0.7 with these values of `Host`.
    fn refused(config: &AdminConfig, target: &str, hosts: &[&str]) -> Option<String> {
        let request = http::Request::get(target);
        let request = hosts.iter().fold(request, |request, host| request.header("host", *host));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        is_for_us(config, Some(IpAddr::from([10, 0, 0, 7])), &parts).err()
    }

    #[test]
    fn a_request_names_loopback_the_listener_or_what_is_configured() {
        let text = "admin = { listen = \"0.0.0.0:9090\", hosts = [\"Mirror\", \"192.0.2.9\", \"2001:db8::1\"] }";
        let config = crate::config::Config::from_text(text).unwrap().config.admin;
        for own in [
            "localhost",
            "LOCALHOST.:9090",
            "127.0.0.1:9090",
            "127.9.9.9",
            "[::1]:9090",
            "[::ffff:127.0.0.1]",
            "10.0.0.7:9090",
            "0.0.0.0:9090",
            "mirror:9090",
            "MIRROR.",
            "192.0.2.9",
            "[2001:db8:0::1]:1",
        ] {
            assert_eq!(refused(&config, "/status", &[own]), None, "{own}");
        }
        assert_eq!(refused(&config, "/status", &[]), None, "HTTP/1.0");
        for foreign in [
            "evil.test",
            "localhost.evil.test",
            "127.0.0.1.evil.test:9090",
            "10.0.0.8:9090",
            "mirror.evil.test",
            "[::2]",
            "localhost:9090:9090",
            "",
        ] {
            let told = refused(&config, "/status", &[foreign]).unwrap();
            assert!(told.contains(&format!("{foreign:?}")) && told.contains("admin.hosts"), "{told}");
        }
        assert!(refused(&config, "/status", &["localhost", "evil.test"]).is_some(), "each of two");
        assert!(refused(&config, "http://evil.test/status", &["localhost"]).is_some(), "the target counts");
        assert!(refused(&config, "http://mirror:9090/status", &["localhost"]).is_none());
        let long = refused(&config, "/", &[&"x".repeat(5000)]).unwrap();
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn commands_come_from_here_or_carry_the_token() {
        let config = crate::config::Config::default().admin;
        for (pairs, expected) in [
            (&[("host", "127.0.0.1:9090")][..], Ok(())),
            (&[("host", "localhost:9090")], Ok(())),
            (&[("host", "[::1]:9090")], Ok(())),
            (&[("host", "127.0.0.1:9090"), ("origin", "https://evil.test")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("origin", "null")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("origin", "evil://127.0.0.1:9090")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("sec-fetch-site", "cross-site")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("sec-fetch-site", "same-origin")], Ok(())),
            (
                &[("host", "a:1"), ("origin", "http://a:1"), ("origin", "https://evil.test")],
                Err(Refusal::ForeignOrigin),
            ),
            (&[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("origin", "http://127.0.0.1:9090")], Ok(())),
        ] {
            assert_eq!(may_write(&config, &headers(pairs)), expected, "{pairs:?}");
        }
        let text = "admin = { listen = \"127.0.0.1:9090\", token = \"0123456789abcdef0123\" }";
        let config = crate::config::Config::from_text(text).unwrap().config.admin;
        assert_eq!(may_write(&config, &headers(&[])), Err(Refusal::Token));
        for scheme in ["Bearer 0123456789abcdef0123", "bearer 0123456789abcdef0123", "BEARER 0123456789abcdef0123"] {
            assert_eq!(may_write(&config, &headers(&[("authorization", scheme)])), Ok(()), "{scheme}");
            for other in [scheme, "Basic eDp5"] {
                for pair in [[scheme, other], [other, scheme]] {
                    let twice = headers(&pair.map(|value| ("authorization", value)));
                    assert_eq!(may_write(&config, &twice), Err(Refusal::Token), "{pair:?}");
                }
            }
        }
        for wrong in ["Bearer", "Bearer0123456789abcdef0123", "Basic 0123456789abcdef0123", "0123456789abcdef0123"] {
            assert_eq!(may_write(&config, &headers(&[("authorization", wrong)])), Err(Refusal::Token), "{wrong}");
        }
    }
}
