//! Chooses the limiter for a request, and asks it.
//!
//! Callers: [`super`]; [`crate::answer::respond`] for requests that cannot be read.

use std::net::IpAddr;

use http::Method;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};

use crate::api::route::Window;
use crate::clock::Monotonic;
use crate::limit::{Decision, Limiter};
use crate::semantics::client_address;
use crate::semantics::problem::Problem;
use crate::shared_limit::Wish;

use super::noted::{Noted, check_host};
use super::{Routed, Rules, View, route};

/// The question for the shared limiter about a request, and the client; `None`: a limiter of this process decides.
pub(crate) fn shared_wish(view: &View<'_>, rules: &Rules) -> Option<(IpAddr, Wish)> {
    if is_of_pages(&route(view, rules)) && rules.pages.is_some() {
        return None;
    }
    let client = client_address::resolve(&rules.client_ip, view.peer, view.headers);
    let is_preflight = is_preflight(view, &check_host(view, &Noted::of(view.headers)));
    Some((client, if is_preflight { Wish::Peek } else { Wish::Admit }))
}

/// The window that counts a request: pages have one of their own.
pub(super) fn limiter<'a>(routed: &Result<Routed<'_>, Problem>, rules: &'a Rules) -> &'a Limiter {
    rules.pages.as_ref().filter(|_| is_of_pages(routed)).unwrap_or(&rules.limiter)
}

fn is_of_pages(routed: &Result<Routed<'_>, Problem>) -> bool {
    routed.as_ref().is_ok_and(|routed| routed.route.window() == Window::Pages)
}

pub(super) fn is_preflight(view: &View<'_>, host: &Result<(), Problem>) -> bool {
    view.method == Method::OPTIONS
        && host.is_ok()
        && view.headers.contains_key(ORIGIN)
        && view.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What the limiter says of a request whose fields cannot be read: it counts as the peer's own, unless the peer speaks
/// for others.
pub(crate) async fn admit_unread(peer: IpAddr, rules: &Rules, now: Monotonic) -> Decision {
    let peer = peer.to_canonical();
    match &rules.shared {
        _ if rules.client_ip.trusts(peer) => Decision::Unlimited,
        Some(shared) => Box::pin(shared.decide(peer, Wish::Admit)).await,
        None => rules.limiter.admit(peer, now),
    }
}

/// The same without counting it.
pub(crate) async fn peek_unread(peer: IpAddr, rules: &Rules, now: Monotonic) -> Decision {
    let peer = peer.to_canonical();
    match &rules.shared {
        _ if rules.client_ip.trusts(peer) => Decision::Unlimited,
        Some(shared) => Box::pin(shared.decide(peer, Wish::Peek)).await,
        None => rules.limiter.peek(peer, now),
    }
}
