use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt, DuplexStream, duplex};

use crate::telemetry::counters::ConnectionCounters;

use super::super::super::connections::{Connections, MostConnections};
use super::*;

/// A connection of which the peer's side holds so many bytes.
fn connection(room: usize) -> (Outbox, DuplexStream) {
    let (ours, theirs) = duplex(room);
    let room = MostConnections { name: "tests", all: 9, each: 9, ipv6_prefix: 64 };
    let admitted = Connections::new(room, ConnectionCounters::default()).admit(None).now_or_never();
    let connection = Arc::new(admitted.unwrap().ok().unwrap());
    (Outbox::new(Box::new(ours), b"", &connection, &InFlight::default()), theirs)
}

/// The bytes that have arrived.
fn arrived(theirs: &mut DuplexStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let read = theirs.read(&mut bytes).now_or_never().map_or(0, Result::unwrap);
    bytes.truncate(read);
    bytes
}

#[tokio::test]
async fn what_is_written_and_flushed_waits_until_it_is_sent() {
    let (outbox, mut theirs) = connection(1 << 20);
    let mut io = outbox.clone();
    for piece in [&b"one "[..], b"two "] {
        io.write_all(piece).await.unwrap();
        io.flush().await.unwrap();
    }
    assert_eq!(io.write_vectored(&[IoSlice::new(b"three "), IoSlice::new(b"four")]).await.unwrap(), 10);
    assert_eq!(arrived(&mut theirs), b"");
    assert!(outbox.send().now_or_never().is_none());
    assert_eq!(arrived(&mut theirs), b"one two three four");
    assert_eq!(outbox.0.lock().waiting.capacity(), 0, "an idle connection holds no room");
}

#[tokio::test]
async fn what_waits_is_bounded_and_stays_in_order() {
    let (outbox, mut theirs) = connection(1 << 20);
    let mut io = outbox.clone();
    let bytes: Vec<u8> = (0..=250).cycle().take(3 * MOST + MOST / 2).collect();
    let (small, large) = bytes.split_at(MOST / 2);
    io.write_all(small).await.unwrap();
    io.write_all(large).await.unwrap();
    assert!(outbox.0.lock().waiting.len() <= MOST);
    let pushed_out = arrived(&mut theirs);
    assert!(!pushed_out.is_empty(), "larger writes push out what waits");
    assert!(outbox.send().now_or_never().is_none());
    assert!([pushed_out, arrived(&mut theirs)].concat() == bytes);
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_up_the_writer() {
    let (outbox, mut theirs) = connection(1000);
    let mut io = outbox.clone();
    let mut written = 0;
    while let Some(done) = io.write(&[7; 500]).now_or_never() {
        written += done.unwrap();
        assert!(written <= MOST + 1500, "{written} bytes");
    }
    assert!(written > MOST - 500, "{written} bytes");
    let reads = async {
        let mut all = vec![0; written];
        theirs.read_exact(&mut all).await.unwrap();
        all
    };
    tokio::select! {
        error = outbox.send() => panic!("{error}"),
        all = reads => assert!(all.iter().all(|byte| *byte == 7)),
    }
}

#[tokio::test]
async fn the_end_of_a_connection_sends_what_waits() {
    let (outbox, mut theirs) = connection(1000);
    let mut io = outbox;
    io.write_all(b"goodbye").await.unwrap();
    AsyncWriteExt::shutdown(&mut io).await.unwrap();
    assert_eq!(arrived(&mut theirs), b"goodbye");
}

#[tokio::test]
async fn a_broken_connection_is_an_error() {
    let (outbox, theirs) = connection(1000);
    drop(theirs);
    outbox.clone().write_all(b"lost").await.unwrap();
    assert_eq!(outbox.send().await.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_connection_with_much_to_read_lets_others_go_on() {
    let (outbox, mut theirs) = connection(1 << 20);
    theirs.write_all(&vec![7; 1 << 20]).await.unwrap();
    let (mut io, mut piece) = (outbox.clone(), vec![0; 8 << 10]);
    for _ in 0..3 {
        let mut read = 0;
        while let Some(bytes) = io.read(&mut piece).now_or_never() {
            read += bytes.unwrap();
            assert!(read <= 24 << 10, "{read} bytes in one turn");
        }
        assert!(read >= 16 << 10, "{read} bytes");
        // The turn ends.
        assert!(outbox.send().now_or_never().is_none());
    }
}
