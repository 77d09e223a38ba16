//! Which connections are accepted, closed and told to end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

fn connections(all: usize, each: usize) -> Connections {
    Connections::new(MostConnections { name: "tests", all, each, ipv6_prefix: 64 }, ConnectionCounters::default())
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
        (connections.admit(Some(peer(1))).ok().unwrap(), connections.admit(Some(peer(1))).ok().unwrap());
    assert_eq!(connections.admit(Some(peer(1))).err(), Some(Full::Household(2)));
    assert!(connections.admit(Some(peer(2))).is_ok(), "another household");
    assert!(connections.admit(None).is_ok(), "one that speaks for many");
    drop(one);
    assert!(connections.admit(Some(peer(1))).is_ok());
    assert_eq!(connections.0.table.lock().open(), 1, "the others were dropped at once");
    let six = |last: u16| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)));
    let _both = (connections.admit(six(1)).ok().unwrap(), connections.admit(six(2)).ok().unwrap());
    assert_eq!(connections.admit(six(3)).err(), Some(Full::Household(2)), "one network is one household");
    let mapped = Some(IpAddr::V6(Ipv4Addr::new(10, 0, 0, 9).to_ipv6_mapped()));
    let _both = (connections.admit(mapped).ok().unwrap(), connections.admit(Some(peer(9))).ok().unwrap());
    assert_eq!(connections.admit(mapped).err(), Some(Full::Household(2)), "IPv4 is IPv4");
}

#[test]
fn the_one_that_has_been_idle_for_the_longest_goes() {
    let connections = connections(3, 9);
    let open: Vec<Connection> = (0..3).map(|number| connections.admit(Some(peer(number))).ok().unwrap()).collect();
    for (connection, since) in open.iter().zip([20, 10, 30]) {
        connection.set_idle(after(&connections, since));
    }
    let newcomer = connections.admit(Some(peer(9))).ok().unwrap();
    newcomer.set_idle(after(&connections, 40));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(connections.0.table.lock().open(), 3);
    // It asked for something and is idle again since.
    open[0].set_busy();
    open[0].set_idle(after(&connections, 50));
    let _next = connections.admit(Some(peer(9))).ok().unwrap();
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, false, true]);
    drop(open);
    assert_eq!(connections.0.table.lock().open(), 2, "whoever went frees nobody's place a second time");
}

#[test]
fn busy_connections_stay_and_when_all_are_there_is_no_room() {
    let connections = connections(2, 9);
    let (one, other) = (connections.admit(Some(peer(1))).ok().unwrap(), connections.admit(Some(peer(2))).ok().unwrap());
    one.set_busy();
    let other = Arc::new(other);
    let streams = [other.stream(), other.stream()];
    assert_eq!(connections.admit(Some(peer(3))).err(), Some(Full::All));
    let [first, second] = streams;
    drop(first);
    assert_eq!(connections.admit(Some(peer(3))).err(), Some(Full::All), "one stream is still answered");
    drop(second);
    let newcomer = connections.admit(Some(peer(3))).ok().unwrap();
    assert!(has_to_go(&other) && !has_to_go(&one));
    newcomer.set_busy();
    one.set_idle(after(&connections, 1));
    assert!(connections.admit(Some(peer(3))).is_ok());
}

#[test]
fn a_household_that_has_too_many_makes_nobody_go() {
    let connections = connections(2, 1);
    let (one, other) = (connections.admit(Some(peer(1))).ok().unwrap(), connections.admit(Some(peer(2))).ok().unwrap());
    assert_eq!(connections.admit(Some(peer(1))).err(), Some(Full::Household(1)));
    assert!(!has_to_go(&one) && !has_to_go(&other));
}

#[test]
fn at_the_end_all_are_told() {
    let connections = connections(9, 9);
    let open: Vec<Connection> = (0..3).map(|number| connections.admit(Some(peer(number))).ok().unwrap()).collect();
    open[1].set_busy();
    connections.close();
    assert!(open.iter().all(|connection| has_to_go(connection) && connection.is_closing()));
}

/// What a test does with the connections.
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
        // Connection, household, idle since (or busy), whether it was told to go.
        let mut open: Vec<(Connection, u32, Option<u64>, bool)> = Vec::new();
        for (now, step) in steps.into_iter().enumerate() {
            let (now, at) = (now as u64 + 1, |index: usize, len: usize| (len > 0).then(|| index % len));
            match step {
                Step::Admit(number) => {
                    let mine = open.iter().filter(|(_, household, ..)| *household == number).count();
                    let count = open.iter().filter(|(.., told)| !told).count();
                    let oldest = open.iter().filter(|(.., told)| !told).filter_map(|(_, _, since, _)| *since).min();
                    let admitted = connections.admit(Some(peer(number)));
                    let expected = match oldest {
                        _ if mine >= each => Some(Full::Household(each)),
                        None if count >= all => Some(Full::All),
                        _ => None,
                    };
                    prop_assert_eq!(admitted.as_ref().err().copied(), expected);
                    if let Ok(connection) = admitted {
                        for (connection, _, since, told) in &mut open {
                            let goes = count >= all && !*told && *since == oldest;
                            prop_assert_eq!(has_to_go(connection), goes);
                            *told |= goes;
                        }
                        connection.set_idle(after(&connections, now));
                        open.push((connection, number, Some(now), false));
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
            prop_assert_eq!(connections.0.table.lock().open(), open.iter().filter(|(.., told)| !told).count());
        }
    }
}

#[test]
fn lower_limits_close_idle_connections_and_higher_ones_admit_more() {
    let connections = connections(4, 2);
    let open: Vec<Connection> = (0..4).map(|number| connections.admit(Some(peer(number))).ok().unwrap()).collect();
    for (connection, since) in open.iter().zip([20, 10, 30, 40]) {
        connection.set_idle(after(&connections, since));
    }
    open[0].set_busy();
    let room = |all, each| MostConnections { name: "tests", all, each, ipv6_prefix: 64 };
    connections.set_room(room(2, 1));
    assert_eq!(open.iter().map(has_to_go).collect::<Vec<_>>(), [false, true, true, false], "the longest idle ones");
    assert_eq!(connections.open(), 2);
    assert_eq!(connections.admit(Some(peer(0))).err(), Some(Full::Household(1)));
    connections.set_room(room(9, 3));
    let _more = [connections.admit(Some(peer(0))).ok().unwrap(), connections.admit(Some(peer(0))).ok().unwrap()];
    assert!(connections.admit(Some(peer(0))).is_err());
}
