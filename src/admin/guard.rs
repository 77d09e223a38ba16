//! Who may give commands: nobody from another site, and off loopback only who knows the token.
//!
//! Pure. Callers: [`super::Admin`].

use std::net::IpAddr;

use http::HeaderMap;

use crate::config::AdminConfig;

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `Host` names something that is not this listener (DNS rebinding).
    ForeignHost,
    /// `Origin` names another site (cross-site request).
    ForeignOrigin,
    /// A token is required, and it is missing or wrong.
    Token,
    /// The listener is not on loopback and no token is configured.
    NoToken,
}

impl Refusal {
    /// What to do about it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignHost => "the Host header names another host; use an IP address or localhost",
            Self::ForeignOrigin => "commands from other sites are refused",
            Self::Token => "send `Authorization: Bearer <admin.token>`",
            Self::NoToken => "set admin.token: commands are refused where admin.listen is not on loopback without one",
        }
    }
}

/// Whether a request may write.
///
/// # Errors
/// With the reason when it may not.
pub(crate) fn may_write(config: &AdminConfig, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &'static str| headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap_or("?"));
    if text("host").is_some_and(|host| !is_own(host)) {
        return Err(Refusal::ForeignHost);
    }
    if let Some(origin) = text("origin") {
        let site = origin.split_once("://").map_or("?", |(_, site)| site);
        if !text("host").is_some_and(|host| host.eq_ignore_ascii_case(site)) {
            return Err(Refusal::ForeignOrigin);
        }
    }
    // An image or a form of another site names no origin.
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(Refusal::ForeignOrigin);
    }
    match &config.token {
        Some(token) => {
            let sent = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
            if sent.is_some_and(|sent| token.matches(sent.as_bytes())) { Ok(()) } else { Err(Refusal::Token) }
        }
        None if config.accepts_writes() => Ok(()),
        None => Err(Refusal::NoToken),
    }
}

/// An IP address or `localhost`, with or without a port: names can be made to point here, addresses cannot.
fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = http::HeaderValue::from_static;
        pairs.iter().map(|(name, text)| (name.parse().unwrap(), value(text))).collect()
    }

    #[test]
    fn commands_come_from_here_or_carry_the_token() {
        let config = crate::config::Config::default().admin;
        for (pairs, expected) in [
            (&[("host", "127.0.0.1:9090")][..], Ok(())),
            (&[("host", "localhost:9090")], Ok(())),
            (&[("host", "[::1]:9090")], Ok(())),
            (&[("host", "evil.test:9090")], Err(Refusal::ForeignHost)),
            (&[("host", "127.0.0.1:9090"), ("origin", "https://evil.test")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("origin", "null")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("sec-fetch-site", "cross-site")], Err(Refusal::ForeignOrigin)),
            (&[("host", "127.0.0.1:9090"), ("sec-fetch-site", "same-origin")], Ok(())),
            (&[("host", "127.0.0.1:9090"), ("origin", "http://127.0.0.1:9090")], Ok(())),
        ] {
            assert_eq!(may_write(&config, &headers(pairs)), expected, "{pairs:?}");
        }
        let text = "admin = { listen = \"127.0.0.1:9090\", token = \"0123456789abcdef0123\" }";
        let config = crate::config::Config::from_text(text).unwrap().config.admin;
        assert_eq!(may_write(&config, &headers(&[])), Err(Refusal::Token));
        assert_eq!(may_write(&config, &headers(&[("authorization", "Bearer 0123456789abcdef0123")])), Ok(()));
    }
}
