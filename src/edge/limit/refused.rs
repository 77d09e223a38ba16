//! Needless refusals: clients of one proxy that is not trusted, or one address again and again.
//!
//! It remembers two addresses, however many are refused. Pure: `now` is an argument. Callers:
//! [`crate::edge::answer::admit`] tells it of refusals, [`crate::server::admin`] shows what it found.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use parking_lot::Mutex;

use crate::clock::Monotonic;
use crate::telemetry::findings::{Finding, Kind};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// So many refusals of one address are no accident.
const MANY: u64 = 100;

/// What to do about a trusted proxy that names no clients.
const UNNAMED: &str = "Let the proxy send that header with the address of each client, or set client_ip.header to the header that it sends, and reload. Until then all clients behind it share one limit.";

/// What was refused in the last hour.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<RecentRefusals>);

#[derive(Debug, Default)]
struct RecentRefusals {
    proxy: Option<(UntrustedProxy, Monotonic)>,
    busy: Option<BusyAddress>,
}

/// A peer that is probably a proxy: its clients share one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UntrustedProxy {
    pub peer: IpAddr,
    pub header: HeaderName,
}

/// The address that is refused most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BusyAddress {
    pub client: IpAddr,
    /// Whether it was a trusted proxy that named no client.
    is_proxy: bool,
    /// How much more often than all others.
    pub refusals: u64,
    since: Monotonic,
    last: Monotonic,
}

impl BusyAddress {
    /// How long it has been refused, in minutes.
    fn minutes(&self) -> u64 {
        self.last.since(self.since).as_secs().div_ceil(60).max(1)
    }
}

impl UntrustedProxy {
    /// The peer, if it is in a loopback or private network and forwards for others.
    pub(crate) fn of(peer: IpAddr, headers: &HeaderMap) -> Option<Self> {
        let header = [&X_FORWARDED_FOR, &FORWARDED].into_iter().find(|name| headers.contains_key(*name))?;
        let peer = peer.to_canonical();
        is_inside(peer).then(|| Self { peer, header: header.clone() })
    }
}

/// Whether an address is of a loopback, private or link-local network, or shared (RFC 6598), as within a provider.
fn is_inside(address: IpAddr) -> bool {
    const SHARED: u32 = Ipv4Addr::new(100, 64, 0, 0).to_bits() >> 22;
    match address {
        IpAddr::V4(four) => {
            four.is_loopback() || four.is_private() || four.is_link_local() || four.to_bits() >> 22 == SHARED
        }
        IpAddr::V6(six) => six.is_loopback() || six.is_unique_local() || six.is_unicast_link_local(),
    }
}

impl Refusals {
    /// Notes a refusal. `is_proxy`: the client is a trusted proxy itself. `proxy`: it is one that is not trusted.
    pub(crate) fn note(&self, client: IpAddr, is_proxy: bool, proxy: Option<UntrustedProxy>, now: Monotonic) {
        let mut memory = self.0.lock();
        memory.count(client, is_proxy, now);
        let Some(proxy) = proxy else { return };
        let is_other = |(known, at): &(UntrustedProxy, Monotonic)| *known != proxy && now.since(*at) < REMEMBERED;
        if !memory.proxy.as_ref().is_some_and(is_other) {
            memory.proxy = Some((proxy, now));
        }
    }

    /// What is to be mended: a proxy that is not trusted, and the address that is refused most if it is another one.
    pub(crate) fn findings(&self, now: Monotonic, trusts: impl Fn(IpAddr) -> bool) -> Vec<Finding> {
        let (proxy, busy) = self.found(now);
        let proxy = proxy.filter(|proxy| !trusts(proxy.peer)).map(|UntrustedProxy { peer, header }| {
            let text = format!(
                "{peer} sends the header {header}, as proxies do, and is not in client_ip.trusted_proxies: all clients \
                 behind it share one limit, and some were refused (429)"
            );
            Finding::new(Kind::ProxyUntrusted, text)
        });
        // A reload since then may have made it a trusted one, or none.
        let busy = busy.filter(|busy| trusts(busy.client) == busy.is_proxy).map(|busy| {
            let (client, refusals, minutes) = (busy.client, busy.refusals, busy.minutes());
            let text = format!("the limit refused {client} at least {refusals} times (429) in {minutes} min");
            if busy.is_proxy {
                let why = ": it is in client_ip.trusted_proxies, but did not name its clients in the header of client_ip.header";
                return Finding::new(Kind::ClientRefused, text + why).todo(UNNAMED);
            }
            Finding::new(Kind::ClientRefused, text)
        });
        proxy.into_iter().chain(busy).collect()
    }

    /// The proxy that is not trusted, and the address that is refused most if it is another one.
    fn found(&self, now: Monotonic) -> (Option<UntrustedProxy>, Option<BusyAddress>) {
        let memory = self.0.lock();
        let is_fresh = |at: Monotonic| now.since(at) < REMEMBERED;
        let proxy = memory.proxy.as_ref().filter(|(_, at)| is_fresh(*at)).map(|(proxy, _)| proxy.clone());
        let busy = memory.busy.filter(|busy| busy.refusals >= MANY && is_fresh(busy.last));
        let is_other = |busy: &BusyAddress| proxy.as_ref().is_none_or(|proxy| proxy.peer != busy.client);
        let busy = busy.filter(is_other);
        (proxy, busy)
    }
}

impl RecentRefusals {
    /// The majority vote of Boyer and Moore: an address that has most of the refusals is found with one counter.
    fn count(&mut self, client: IpAddr, is_proxy: bool, now: Monotonic) {
        match &mut self.busy {
            Some(busy) if now.since(busy.last) < REMEMBERED => {
                if (busy.client, busy.is_proxy) == (client, is_proxy) {
                    (busy.refusals, busy.last) = (busy.refusals + 1, now);
                    return;
                }
                busy.refusals -= 1;
                if busy.refusals > 0 {
                    return;
                }
            }
            _ => {}
        }
        self.busy = Some(BusyAddress { client, is_proxy, refusals: 1, since: now, last: now });
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_seconds(seconds)
    }

    fn proxy(peer: &str, fields: &[&'static str]) -> Option<UntrustedProxy> {
        let value = HeaderValue::from_static("192.0.2.1");
        let headers = fields.iter().map(|name| (HeaderName::from_static(name), value.clone())).collect();
        UntrustedProxy::of(peer.parse().unwrap(), &headers)
    }

    #[test]
    fn a_proxy_is_inside_and_names_its_clients() {
        for inside in ["127.0.0.1", "10.1.2.3", "172.17.0.1", "192.168.1.1", "100.64.0.9", "::1", "fd00::1", "fe80::1"]
        {
            assert!(proxy(inside, &["x-forwarded-for"]).is_some(), "{inside}");
            assert_eq!(proxy(inside, &["forwarded"]).unwrap().header, "forwarded");
            assert_eq!(proxy(inside, &["x-real-ip"]), None);
        }
        for outside in ["192.0.2.1", "172.32.0.1", "100.128.0.1", "2001:db8::1"] {
            assert_eq!(proxy(outside, &["x-forwarded-for", "forwarded"]), None, "{outside}");
        }
        assert_eq!(proxy("::ffff:127.0.0.1", &["forwarded"]).unwrap().peer, IpAddr::from([127, 0, 0, 1]));
    }

    #[test]
    fn the_first_untrusted_proxy_is_told_until_an_hour_has_passed_without_it() {
        let (refused, first, second) =
            (Refusals::default(), proxy("127.0.0.1", &["x-forwarded-for"]), proxy("10.0.0.1", &["x-forwarded-for"]));
        let note = |proxy: &Option<UntrustedProxy>, now| {
            refused.note(proxy.as_ref().unwrap().peer, false, proxy.clone(), at(now));
        };
        for (proxy, now) in [(&first, 0), (&first, 10), (&second, 20), (&first, 30)] {
            note(proxy, now);
            assert_eq!(refused.found(at(now)).0, first);
        }
        let kinds = |now, trusted| -> Vec<Kind> {
            refused.findings(at(now), |_| trusted).iter().map(|finding| finding.kind).collect()
        };
        assert_eq!((kinds(3629, false), kinds(3629, true)), (vec![Kind::ProxyUntrusted], vec![]));
        assert_eq!(kinds(3630, false), []);
        note(&second, 3630);
        assert_eq!(refused.found(at(3630)).0, second);
    }

    #[test]
    fn one_address_among_many_is_found_once_it_has_many_refusals() {
        let refused = Refusals::default();
        let client = IpAddr::from([192, 0, 2, 7]);
        let note = |client: IpAddr, now| refused.note(client, false, None, at(now));
        for number in 0..MANY * 2 {
            note(client, number);
            if number % 2 == 0 {
                note([198, 51, 100, number as u8].into(), number);
            }
        }
        let findings = refused.findings(at(200), |_| false);
        assert_eq!((findings.len(), findings[0].kind), (1, Kind::ClientRefused));
        let found = refused.found(at(200)).1.unwrap();
        assert_eq!((found.client, found.minutes()), (client, 4));
        assert!(found.refusals >= MANY - 1, "{found:?}");
        assert_eq!(refused.found(at(199 + 3600)).1, None);
    }

    #[test]
    fn the_same_address_is_not_told_twice() {
        let refused = Refusals::default();
        let known = proxy("127.0.0.1", &["x-forwarded-for"]);
        for _ in 0..MANY {
            refused.note([127, 0, 0, 1].into(), false, known.clone(), at(1));
        }
        assert_eq!(refused.found(at(1)), (known, None));
    }

    #[test]
    fn a_trusted_proxy_that_names_no_client_is_told_as_that_while_it_is_trusted() {
        let (refused, proxy) = (Refusals::default(), IpAddr::from([127, 0, 0, 1]));
        (0..MANY).for_each(|_| refused.note(proxy, true, None, at(1)));
        let findings = refused.findings(at(2), |_| true);
        assert_eq!((findings.len(), findings[0].kind, findings[0].todo), (1, Kind::ClientRefused, UNNAMED));
        assert_eq!(refused.findings(at(2), |_| false), []);
        (0..=MANY).for_each(|_| refused.note(proxy, false, None, at(3)));
        assert_eq!(refused.findings(at(4), |_| true), [], "it was refused before a reload made it trusted");
    }
}
