//! Connections: which are accepted, closed and asked to end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

fn connections(all: usize, each: usize) -> Connections {
    Connections::new(MostConnections { name: "tests", all, each, ipv6_prefix: 64 }, ConnectionCounters::default())
}

/// Admits one at once.
fn admit(connections: &Connections, peer: Option<IpAddr>) -> Result<Connection, Full> {
    connections.admit(peer).now_or_never().expect("no other one has to go")
}

/// One that waits until another one has gone.
fn waiting(
    connections: &Connections,
    peer: Option<IpAddr>,
) -> Pin<Box<impl Future<Output = Result<Connection, Full>>>> {
    let mut admitted = Box::pin(connections.admit(peer));
    assert!(admitted.as_mut().now_or_never().is_none(), "another one has to go first");
    admitted
}

fn peer(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn has_to_go(connection: &Connection) -> bool {
    connection.told_to_leave().now_or_never().is_some()
}

fn after(connections: &Connections, seconds: u64) -> Instant {
    connections.0.start + Duration::from_secs(seconds)
}

#[test]
fn a_household_has_so_many_and_gets_room_back() {
    let connections = connections(100, 2);
    let (one, _other) =
        (admit(&connections, Some(peer(1))).ok().unwrap(), admit(&connections, Some(peer(1))).ok().unwrap());
    assert_eq!(admit(&connections, Some(peer(1))).err(), Some(Full::Household(2)));
    assert!(admit(&connections, Some(peer(2))).is_ok(), "another household");
    assert!(admit(&connections, None).is_ok(), "one that speaks for many");
    drop(one);
    assert!(admit(&connections, Some(peer(1))).is_ok());
    assert_eq!(connections.0.table.lock().seats.len(), 1, "the others were dropped at once");
    let six = |last: u16| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)));
    let _both = (admit(&connections, six(1)).ok().unwrap(), admit(&connections, six(2)).ok().unwrap());
    assert_eq!(admit(&connections, six(3)).err(), Some(Full::Household(2)), "one network is one household");
    let mapped = Some(IpAddr::V6(Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped()));
    let _both = (admit(&connections, mapped).ok().unwrap(), admit(&connections, Some(peer(9))).ok().unwrap());
    assert_eq!(admit(&connections, mapped).err(), Some(Full::Household(2)), "IPv4 is IPv4");
}

#[tokio::test(start_paused = true)]
async fn the_one_that_has_been_idle_for_the_longest_goes() {
    let connections = connections(3, 9);
    let mut open: Vec<Connection> =
        (0..3).map(|number| admit(&connections, Some(peer(number))).ok().unwrap()).collect();
    for (connection, since) in open.iter().zip([20, 10, 30]) {
        connection.set_idle(after(&connections, since));
    }
    let newcomer = waiting(&connections, Some(peer(9)));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(connections.open(), 3, "it counts until it is closed");
    drop(open.remove(1));
    let newcomer = newcomer.await.ok().unwrap();
    newcomer.set_idle(after(&connections, 40));
    // It asked for something and is idle again since.
    open[0].set_busy();
    open[0].set_idle(after(&connections, 50));
    let next = waiting(&connections, Some(peer(9)));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, true]);
    drop(open);
    let _next = next.await.ok().unwrap();
    assert_eq!(connections.open(), 2);
}

#[tokio::test(start_paused = true)]
async fn busy_connections_stay_and_when_all_are_there_is_no_room() {
    let connections = connections(2, 9);
    let [one, other] = [1, 2].map(|number| Arc::new(admit(&connections, Some(peer(number))).ok().unwrap()));
    one.set_busy();
    let streams = [other.stream(), other.stream()];
    assert_eq!(admit(&connections, Some(peer(3))).err(), Some(Full::All));
    let [first, second] = streams;
    drop(first);
    assert_eq!(admit(&connections, Some(peer(3))).err(), Some(Full::All), "one stream is still answered");
    drop(second);
    let newcomer = waiting(&connections, Some(peer(3)));
    assert!(has_to_go(&other) && !has_to_go(&one));
    // A request came for it in between.
    other.set_busy();
    assert_eq!(newcomer.await.err(), Some(Full::All), "it does not wait for ever");
    other.set_idle(after(&connections, 1));
    assert_eq!(admit(&connections, Some(peer(3))).err(), Some(Full::All), "nobody has to go twice");
    drop(other);
    assert!(admit(&connections, Some(peer(3))).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_tries_the_next_idle_one_when_the_first_does_not_go() {
    let connections = connections(2, 9);
    let [first, second] = [1, 2].map(|number| admit(&connections, Some(peer(number))).ok().unwrap());
    first.set_idle(after(&connections, 1));
    second.set_idle(after(&connections, 2));
    let newcomer = waiting(&connections, Some(peer(3)));
    assert!(has_to_go(&first) && !has_to_go(&second));
    // A request came for it in between.
    first.set_busy();
    let next = async {
        second.told_to_leave().await;
        drop(second);
    };
    let (newcomer, ()) = futures_util::join!(newcomer, next);
    assert!(newcomer.is_ok() && !has_to_go(&first));
    assert_eq!(connections.open(), 2);
}

#[test]
fn a_household_that_has_too_many_makes_nobody_go() {
    let connections = connections(2, 1);
    let (one, other) =
        (admit(&connections, Some(peer(1))).ok().unwrap(), admit(&connections, Some(peer(2))).ok().unwrap());
    assert_eq!(admit(&connections, Some(peer(1))).err(), Some(Full::Household(1)));
    assert!(!has_to_go(&one) && !has_to_go(&other));
}

#[test]
fn at_the_end_all_are_told() {
    let connections = connections(9, 9);
    let open: Vec<Connection> = (0..3).map(|number| admit(&connections, Some(peer(number))).ok().unwrap()).collect();
    open[1].set_busy();
    connections.close();
    assert!(open.iter().all(has_to_go));
}

#[test]
fn a_connection_closes_when_it_has_been_idle_for_so_long_and_each_knows_that_the_server_stops() {
    let connections = connections(9, 9);
    let open: Vec<Connection> = (0..3).map(|number| admit(&connections, Some(peer(number))).ok().unwrap()).collect();
    // Later than the clock of this test will ever be.
    open[0].set_idle(after(&connections, 3600));
    open[2].set_busy();
    for (number, connection) in open.iter().enumerate().filter(|(number, _)| *number != 1) {
        connection.set_busy();
        connection.set_idle(after(&connections, if number == 0 { 3600 } else { 0 }));
    }
    open[1].set_busy();
    let closes = open[1].closes();
    assert!(closes.now_or_never().is_none() && !open[1].is_closing());
    let closes = open[1].closes();
    connections.wind_down();
    let silent = admit(&connections, Some(peer(3))).ok().unwrap();
    connections.close_idle(Duration::ZERO);
    assert!(has_to_go(&silent), "it never asked for anything");
    assert!(closes.now_or_never().is_some() && open.iter().all(Connection::is_closing));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [true, false, true]);
    connections.close_idle(Duration::from_secs(1));
    assert!(!has_to_go(&open[0]), "it was idle a moment ago");
}

#[derive(Clone, Debug)]
enum Step {
    Admit(u32),
    Leave(usize),
    Rest(usize),
    Work(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_u32).prop_map(Step::Admit),
        1 => any::<usize>().prop_map(Step::Leave),
        3 => any::<usize>().prop_map(Step::Rest),
        2 => any::<usize>().prop_map(Step::Work),
    ]
}

proptest! {
    /// Compared with a list that is searched from end to end.
    #[test]
    fn whoever_goes_is_who_should(steps in prop::collection::vec(step(), 1..300), all in 1_usize..90, each in 1_usize..60) {
        let connections = connections(all, each);
        // Waiting needs a timer.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        // Connection, household, idle since (or busy).
        let mut open: Vec<(Connection, u32, Option<u64>)> = Vec::new();
        for (now, step) in steps.into_iter().enumerate() {
            let (now, at) = (now as u64 + 1, |index: usize, len: usize| (len > 0).then(|| index % len));
            match step {
                Step::Admit(number) => {
                    let mine = open.iter().filter(|(_, household, _)| *household == number).count();
                    let (count, oldest) = (open.len(), open.iter().filter_map(|(_, _, since)| *since).min());
                    let mut admitted = Box::pin(connections.admit(Some(peer(number))));
                    let at_once = admitted.as_mut().now_or_never();
                    prop_assert_eq!(at_once.is_none(), mine < each && oldest.is_some() && open.len() >= all);
                    let admitted = at_once.unwrap_or_else(|| {
                        let goes = open.iter().position(|(_, _, since)| *since == oldest).unwrap();
                        assert!(has_to_go(&open.swap_remove(goes).0));
                        admitted.now_or_never().unwrap()
                    });
                    let expected = match oldest {
                        _ if mine >= each => Some(Full::Household(each)),
                        None if count >= all => Some(Full::All),
                        _ => None,
                    };
                    prop_assert_eq!(admitted.as_ref().err().copied(), expected);
                    if let Ok(connection) = admitted {
                        prop_assert!(!open.iter().any(|(connection, ..)| has_to_go(connection)));
                        connection.set_idle(after(&connections, now));
                        open.push((connection, number, Some(now)));
                    }
                }
                Step::Leave(index) => {
                    if let Some(index) = at(index, open.len()) {
                        drop(open.swap_remove(index));
                    }
                }
                Step::Rest(index) => {
                    if let Some(index) = at(index, open.len()) {
                        open[index].0.set_idle(after(&connections, now));
                        open[index].2 = Some(now);
                    }
                }
                Step::Work(index) => {
                    if let Some(index) = at(index, open.len()) {
                        open[index].0.set_busy();
                        open[index].2 = None;
                    }
                }
            }
            prop_assert_eq!(connections.open(), open.len());
        }
    }
}

#[test]
fn lower_limits_close_idle_connections_and_higher_ones_admit_more() {
    let connections = connections(4, 2);
    let mut open: Vec<Connection> =
        (0..4).map(|number| admit(&connections, Some(peer(number))).ok().unwrap()).collect();
    for (connection, since) in open.iter().zip([20, 10, 30, 40]) {
        connection.set_idle(after(&connections, since));
    }
    open[0].set_busy();
    let room = |all, each| MostConnections { name: "tests", all, each, ipv6_prefix: 64 };
    connections.set_room(room(2, 1));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, true, true, false], "the longest idle ones");
    drop(open.drain(1..3));
    assert_eq!(connections.open(), 2);
    assert_eq!(admit(&connections, Some(peer(0))).err(), Some(Full::Household(1)));
    connections.set_room(room(9, 3));
    let _more = [admit(&connections, Some(peer(0))).ok().unwrap(), admit(&connections, Some(peer(0))).ok().unwrap()];
    assert!(admit(&connections, Some(peer(0))).is_err());
}
