use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;

use crate::telemetry::counters::ConnectionCounters;

use crate::edge::limit::backlog::{OF_BODY, OF_CONNECTION, WRITE_TIMEOUT};

use super::super::connections::{Connections, InFlight, MostConnections};
use super::super::gate::PREFACE;
use super::super::write::AHEAD;
use super::*;

// Time stands still but for the waits of these tests (`start_paused`), so that they take no longer than their work.

/// Kinds of frames, and flags (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// GET, http and / from the static table, and the authority x (RFC 7541 §6).
const HEAD: [u8; 6] = [0x82, 0x86, 0x84, 1, 1, b'x'];

/// A window that holds nothing up.
const WIDE: u32 = (1 << 31) - 1;
/// The window that a client has if it says nothing.
const USUAL: u32 = 65_535;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// Our side of a connection, which gives everyone the same answer.
struct Server {
    admitted: Arc<Connection>,
    in_flight: InFlight,
    made: Arc<AtomicUsize>,
    serving: JoinHandle<Instant>,
}

/// A client that writes its frames by hand, and reads when it wants to.
struct Client {
    io: DuplexStream,
    /// The start of a frame whose end was not read yet.
    rest: Vec<u8>,
    /// Whether it gives back what it reads of the windows.
    gives_back: bool,
    /// How many bytes of data each stream got.
    got: HashMap<u32, usize>,
    complete: usize,
    reset: Vec<u32>,
    is_told: bool,
}

/// A connection on which each answer has so many bytes.
fn connect(size: usize) -> (Server, Client) {
    let room = MostConnections { name: "tests", all: 9, each: 9, ipv6_prefix: 64 };
    let connections = Connections::new(room, ConnectionCounters::default());
    connect_to(&connections, Some(IpAddr::from([192, 0, 2, 1])), size)
}

fn connect_to(connections: &Connections, peer: Option<IpAddr>, size: usize) -> (Server, Client) {
    let (ours, theirs) = duplex(16 << 10);
    let admitted = Arc::new(connections.admit(peer).now_or_never().unwrap().ok().unwrap());
    let made = Arc::new(AtomicUsize::new(0));
    let in_flight = InFlight::default();
    let body = Bytes::from(vec![b'x'; size]);
    let serving = {
        let (admitted, in_flight, made) = (admitted.clone(), in_flight.clone(), made.clone());
        tokio::spawn(async move {
            let answers = move |mut exchange: Exchange, works: connections::Stream| {
                let (body, made) = (body.clone(), made.clone());
                async move {
                    let backlog = works.connection().backlog();
                    if backlog.room().await.is_ok() {
                        made.fetch_add(1, Ordering::Relaxed);
                        let mut stream = exchange.respond.send_response(Response::new(()), false).unwrap();
                        let _sent = write(&mut stream, body, backlog, || WAITS).await;
                    }
                }
            };
            let mut options = Builder::new();
            options.max_concurrent_streams(STREAMS);
            options.max_send_buffer_size(PIECE);
            let outbox = Outbox::new(Box::new(ours), b"", &admitted, &in_flight);
            let leave = pin!(admitted.told_to_leave());
            streams(outbox, options, &admitted, leave, answers).await;
            Instant::now()
        })
    };
    (Server { admitted, in_flight, made, serving }, Client::new(theirs))
}

impl Client {
    fn new(io: DuplexStream) -> Self {
        let (rest, got, reset) = (Vec::new(), HashMap::new(), Vec::new());
        Self { io, rest, gives_back: false, got, complete: 0, reset, is_told: false }
    }

    /// Begins a connection with this window for each stream, and a wide one for the connection unless it is the usual.
    async fn begin(&mut self, window: u32) {
        let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
        let wide = if window == USUAL { Vec::new() } else { window_update(0, WIDE - USUAL) };
        self.send(&[&PREFACE[..], &frame(SETTINGS, 0, 0, &settings), &wide].concat()).await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        // What the server has no room for is lost with the connection.
        let _sent = self.io.write_all(bytes).await;
    }

    /// Asks on so many streams, from this one on.
    async fn ask(&mut self, first: u32, streams: u32) {
        self.ask_with(&HEAD, first, streams).await;
    }

    async fn ask_with(&mut self, head: &[u8], first: u32, streams: u32) {
        for stream in 0..streams {
            self.send(&frame(HEADERS, END_STREAM | END_HEADERS, first + 2 * stream, head)).await;
        }
    }

    /// Reads so many bytes, or what comes until nothing more does; `false` at the end of the connection.
    async fn read(&mut self, bytes: usize) -> bool {
        let (mut left, mut piece) = (bytes, vec![0; 64 << 10]);
        while left > 0 {
            let most = left.min(piece.len());
            let Ok(read) = timeout(Duration::from_millis(1), self.io.read(&mut piece[..most])).await else {
                return true;
            };
            let Ok(read @ 1..) = read else { return false };
            left -= read;
            self.rest.extend_from_slice(&piece[..read]);
            self.see().await;
        }
        true
    }

    /// Looks at the frames that are complete.
    async fn see(&mut self) {
        let all = std::mem::take(&mut self.rest);
        let mut rest = &all[..];
        while let [high, middle, low, kind, flags, a, b, c, d, ..] = *rest {
            let (length, stream) = (u32::from_be_bytes([0, high, middle, low]), u32::from_be_bytes([a, b, c, d]));
            let Some(after) = rest.get(9 + length as usize..) else { break };
            rest = after;
            match kind {
                DATA => {
                    *self.got.entry(stream).or_default() += length as usize;
                    self.complete += usize::from(flags & END_STREAM != 0);
                    if self.gives_back && length > 0 {
                        self.send(&[window_update(0, length), window_update(stream, length)].concat()).await;
                    }
                }
                RST_STREAM => self.reset.push(stream),
                GOAWAY => self.is_told = true,
                _ => {}
            }
        }
        self.rest = rest.to_vec();
    }

    /// Reads so many bytes each second, for so long or until so many answers are complete.
    async fn read_slowly(&mut self, each_second: usize, complete: usize, seconds: usize) {
        for _ in 0..seconds {
            if self.complete >= complete || !self.read(each_second).await {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

#[test]
fn a_connection_ends_a_while_after_its_last_stream() {
    let now = Instant::now();
    assert_eq!(next_look(None, KEEPALIVE, now), Some(now + LOOKS_AGAIN), "it is busy");
    assert_eq!(next_look(None, Duration::ZERO, now), Some(now + LOOKS_AGAIN), "it leaves, but is busy");
    assert_eq!(next_look(Some(now), Duration::ZERO, now), None);
    let since = now;
    for (seconds, left) in [(0, Some(60)), (59, Some(1)), (60, None), (61, None)] {
        let now = since + Duration::from_secs(seconds);
        assert_eq!(
            next_look(Some(since), KEEPALIVE, now),
            left.map(|left| now + Duration::from_secs(left)),
            "{seconds}"
        );
    }
}

/// The HTTP/2 code has all of these answers within a moment.
#[tokio::test(start_paused = true)]
async fn the_first_head_must_come_sooner_than_the_next_one() {
    for (flags, patience) in [(0, HEAD_DEADLINE), (END_HEADERS, KEEPALIVE)] {
        let (server, mut client) = connect(1);
        client.begin(WIDE).await;
        let began = Instant::now();
        client.send(&frame(HEADERS, END_STREAM | flags, 1, &HEAD)).await;
        client.read(1 << 20).await;
        let took = server.serving.await.unwrap() - began;
        assert!(took >= patience && took < patience + Duration::from_secs(2), "{took:?} instead of {patience:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_many_answers_slowly_gets_all_of_them() {
    let (server, mut client) = connect(64 << 10);
    client.begin(WIDE).await;
    client.ask(1, STREAMS).await;
    client.read_slowly(40 << 10, 128, 1000).await;
    assert_eq!((client.complete, client.got.len()), (128, 128));
    assert!(client.got.values().all(|got| *got == 64 << 10) && client.reset.is_empty());
    assert!(!server.serving.is_finished());
}

/// One at a time, they would take longer than the deadline of a write.
#[tokio::test(start_paused = true)]
async fn large_answers_that_share_a_slow_connection_all_arrive() {
    for (window, gives_back) in [(WIDE, false), (USUAL, true)] {
        let (_server, mut client) = connect(600 << 10);
        client.gives_back = gives_back;
        client.begin(window).await;
        client.ask(1, 32).await;
        client.read_slowly(40 << 10, 32, 1000).await;
        assert_eq!((client.complete, client.reset.len()), (32, 0), "window {window}");
        assert!(client.got.values().all(|got| *got == 600 << 10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_busy_and_in_flight_until_its_client_has_everything() {
    let (server, mut client) = connect(64 << 10);
    client.begin(WIDE).await;
    client.ask(1, 20).await;
    client.read_slowly(40 << 10, 20, 20).await;
    assert_eq!(server.admitted.idle_since(), None);
    assert_eq!(server.in_flight.count(), 1, "the requests are answered, but the answers are not read");
    client.read_slowly(1 << 20, 20, 20).await;
    assert_eq!((client.complete, server.in_flight.count()), (20, 0));
    assert!(server.admitted.idle_since().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_cut_off_after_the_deadline_of_a_write() {
    // The first has many small answers waiting, the second large ones.
    for size in [64 << 10, 600 << 10] {
        let (server, mut client) = connect(size);
        client.begin(WIDE).await;
        client.ask(1, STREAMS).await;
        client.read_slowly(40 << 10, 128, 70).await;
        // The deadline counts from its last piece.
        client.read_slowly(600 << 10, 128, 1).await;
        assert!(!server.serving.is_finished());
        let stopped = Instant::now();
        let took = server.serving.await.unwrap() - stopped;
        assert!(took <= WRITE_TIMEOUT && took + Duration::from_secs(2) >= WRITE_TIMEOUT, "{took:?}");
        assert_eq!(server.in_flight.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_a_few_bytes_now_and_then_is_cut_off_like_one_that_stops() {
    // The first has many small answers waiting, the second large ones; the last one reads half as much as it must.
    for (size, reads, every) in [(64 << 10, 1, 29), (600 << 10, 1, 29), (64 << 10, 1 << 10, 1)] {
        let (server, mut client) = connect(size);
        client.begin(WIDE).await;
        client.ask(1, STREAMS).await;
        let asked = Instant::now();
        while !server.serving.is_finished() && asked.elapsed() < Duration::from_secs(1000) {
            client.read(reads).await;
            sleep(Duration::from_secs(every)).await;
        }
        let took = server.serving.await.unwrap() - asked;
        assert!(took >= WRITE_TIMEOUT && took <= 2 * WRITE_TIMEOUT, "{size}, {reads} bytes: {took:?}");
        assert_eq!(server.in_flight.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_just_enough_gets_everything() {
    let (server, mut client) = connect(64 << 10);
    client.begin(WIDE).await;
    client.ask(1, 20).await;
    client.read_slowly(3 << 10, 20, 1000).await;
    assert_eq!((client.complete, client.reset.len()), (20, 0));
    assert!(!server.serving.is_finished());
}

#[tokio::test(start_paused = true)]
async fn streams_whose_windows_stay_closed_are_reset_and_then_the_connection_ends() {
    let (server, mut client) = connect(64 << 10);
    client.begin(0).await;
    client.ask(1, 10).await;
    let asked = Instant::now();
    // Acknowledgements of pings are no progress.
    while !server.serving.is_finished() && asked.elapsed() < Duration::from_secs(1000) {
        client.read_slowly(1 << 10, 1, 5).await;
        client.send(&frame(PING, 0, 0, b"8 bytes.")).await;
    }
    assert_eq!(client.reset.len(), 10);
    let took = server.serving.await.unwrap() - asked;
    let expected = WRITE_TIMEOUT + KEEPALIVE;
    assert!(took >= expected && took <= expected + Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_ends_although_its_connection_reads_others() {
    let (server, mut client) = connect(64 << 10);
    client.begin(0).await;
    client.ask(1, 1).await;
    let mut next = 3;
    for _ in 0..2000 {
        if !client.reset.is_empty() {
            break;
        }
        client.ask(next, 1).await;
        client.send(&window_update(next, 64 << 10)).await;
        client.read_slowly(80 << 10, client.complete + 1, 10).await;
        next += 2;
    }
    assert_eq!(client.reset, [1]);
    // So much may go out in front of a stream.
    let others = client.got.values().sum::<usize>() >> 20;
    assert!((16..18).contains(&others), "{others} MiB");
    assert!(!server.serving.is_finished());
}

/// Its client reads nothing and acknowledges nothing.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_that_leaves_for_another_one_says_so_and_is_closed_at_once() {
    let room = MostConnections { name: "tests", all: 1, each: 9, ipv6_prefix: 64 };
    let connections = Connections::new(room, ConnectionCounters::default());
    let (server, mut client) = connect_to(&connections, None, 1);
    client.begin(WIDE).await;
    client.ask(1, 1).await;
    client.read_slowly(1 << 20, 1, 9).await;
    assert_eq!((client.complete, client.is_told), (1, false));
    let asked = Instant::now();
    let mut newcomer = Box::pin(connections.admit(None));
    assert!(newcomer.as_mut().now_or_never().is_none() && connections.open() == 1, "it counts until it is closed");
    drop(server.admitted);
    assert_eq!(server.serving.await.unwrap(), asked);
    assert!(newcomer.await.is_ok() && connections.open() == 0);
    assert!(!client.read(1 << 20).await && client.is_told);
}

#[tokio::test(start_paused = true)]
async fn a_busy_connection_that_has_to_leave_answers_first() {
    let room = MostConnections { name: "tests", all: 1, each: 9, ipv6_prefix: 64 };
    let connections = Connections::new(room, ConnectionCounters::default());
    let (server, mut client) = connect_to(&connections, None, 64 << 10);
    client.begin(0).await;
    client.ask(1, 1).await;
    client.read(1 << 20).await;
    connections.close();
    client.read(1 << 20).await;
    assert!(client.is_told && !server.serving.is_finished());
    client.send(&window_update(1, 64 << 10)).await;
    while client.read(1 << 20).await {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((client.complete, client.reset.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_says_that_it_ends() {
    let (server, mut client) = connect(1);
    client.begin(WIDE).await;
    server.serving.await.unwrap();
    assert!(!client.read(1 << 20).await && client.is_told);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_begin_is_closed() {
    let (server, _client) = connect(1);
    let began = Instant::now();
    let took = server.serving.await.unwrap() - began;
    assert!(took >= HEAD_DEADLINE && took <= HEAD_DEADLINE + Duration::from_secs(1), "{took:?}");
}

/// With closed windows the streams hold their answers, with wide ones the HTTP/2 code does.
#[tokio::test(start_paused = true)]
async fn answers_that_a_client_does_not_read_are_bounded_for_its_connection_and_its_household() {
    const SIZE: usize = 280 << 10;
    for (window, proxy) in [(0, false), (WIDE, false), (0, true)] {
        let room = MostConnections { name: "tests", all: 99, each: 99, ipv6_prefix: 64 };
        let connections = Connections::new(room, ConnectionCounters::default());
        let address = |last| Some(IpAddr::from([192, 0, 2, last])).filter(|_| !proxy);
        let mut all = Vec::new();
        for _ in 0..8 {
            let (server, mut client) = connect_to(&connections, address(1), SIZE);
            client.begin(window).await;
            client.ask(1, STREAMS).await;
            sleep(Duration::from_secs(1)).await;
            all.push((server, client));
        }
        let made: Vec<_> = all.iter().map(|(server, _)| server.made.load(Ordering::Relaxed) * SIZE).collect();
        let sum = made.iter().sum::<usize>();
        if proxy {
            assert_eq!(sum, 8 * STREAMS as usize * SIZE, "a proxy has many clients");
            continue;
        }
        // An answer is begun while there is room for a usual one.
        assert!(made.iter().all(|held| *held <= OF_CONNECTION + SIZE), "window {window}: {made:?}");
        assert!((24 << 20..=(32 << 20) + SIZE).contains(&sum), "window {window}: {sum} bytes");
        let (server, mut client) = connect_to(&connections, address(2), SIZE);
        client.begin(WIDE).await;
        client.ask(1, 1).await;
        client.read_slowly(1 << 20, 1, 9).await;
        assert_eq!((client.complete, server.made.load(Ordering::Relaxed)), (1, 1), "another household");
        // Who reads on gets everything.
        let (server, client) = &mut all[0];
        client.gives_back = true;
        client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &USUAL.to_be_bytes()].concat())).await;
        client.read_slowly(1 << 20, 128, 1000).await;
        assert_eq!(
            (client.complete, client.reset.len(), server.admitted.backlog().held()),
            (128, 0, 0),
            "window {window}"
        );
    }
}

/// Other clients often share it.
#[tokio::test(start_paused = true)]
async fn a_large_body_counts_one_mebibyte_until_its_client_has_it() {
    const MADE: usize = OF_CONNECTION / OF_BODY;
    let (server, mut client) = connect(3 * OF_BODY);
    client.begin(0).await;
    client.ask(1, MADE as u32 + 1).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((server.made.load(Ordering::Relaxed), server.admitted.backlog().held()), (MADE, OF_CONNECTION));
    client.gives_back = true;
    client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &USUAL.to_be_bytes()].concat())).await;
    client.read_slowly(1 << 20, MADE + 1, 100).await;
    assert_eq!((client.complete, client.reset.len(), server.admitted.backlog().held()), (MADE + 1, 0, 0));
}

/// A frame costs the HTTP/2 code hundreds of bytes beside its data.
#[tokio::test(start_paused = true)]
async fn few_small_frames_wait_for_a_client_that_does_not_read() {
    // Small pieces, and a client that opens its window byte by byte.
    for (pieces, size, window) in [(50_000, 1, WIDE), (2 + AHEAD, 8_000, 0)] {
        let room = MostConnections { name: "tests", all: 9, each: 9, ipv6_prefix: 64 };
        let proxy = Connections::new(room, ConnectionCounters::default()).admit(None).await.ok().unwrap();
        let (ours, theirs) = duplex(16 << 10);
        let came = Arc::new(AtomicUsize::new(0));
        let counter = came.clone();
        let piece = move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::from(vec![b'x'; size]))
        };
        tokio::spawn(async move {
            let mut connection = Builder::new().max_send_buffer_size(PIECE).handshake(ours).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut stream = respond.send_response(Response::new(()), false).unwrap();
                let (rest, backlog) =
                    (futures_util::stream::iter(0..pieces).map(piece.clone()), proxy.backlog().clone());
                tokio::spawn(async move { write_rest(&mut stream, rest.boxed(), &backlog, &mut 0).await });
            }
        });
        let mut client = Client::new(theirs);
        client.begin(window).await;
        client.ask(1, 1).await;
        for _ in window..8_000 {
            client.send(&window_update(1, 1)).await;
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_secs(1)).await;
        // The buffers of the connection have a few thousand.
        let frames = came.load(Ordering::Relaxed).saturating_sub(AHEAD) * if window == 0 { size } else { 1 };
        assert!((64..=8_000).contains(&frames), "{frames} frames wait");
        if window == 0 {
            client.send(&window_update(1, WIDE / 2)).await;
        }
        while client.complete < 1 {
            assert!(client.read(1 << 20).await);
        }
        assert_eq!(client.got[&1], pieces * size);
    }
}

#[tokio::test(start_paused = true)]
async fn small_answers_that_wait_are_bounded_for_their_household() {
    let room = MostConnections { name: "tests", all: 99, each: 99, ipv6_prefix: 64 };
    let connections = Connections::new(room, ConnectionCounters::default());
    let address = |last| Some(IpAddr::from([192, 0, 2, last]));
    let (mut all, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        let (server, mut client) = connect_to(&connections, address(1), 1);
        client.begin(0).await;
        client.ask(1, STREAMS).await;
        client.read(1 << 20).await;
        refused += client.reset.len();
        all.push((server, client));
    }
    assert!((3450..3520).contains(&refused), "{refused} of 5,120 streams");
    let (_server, mut client) = connect_to(&connections, address(2), 1);
    client.begin(WIDE).await;
    client.ask(1, STREAMS).await;
    client.read_slowly(1 << 20, 128, 9).await;
    assert_eq!(client.complete, 128, "another household");
    drop(all);
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_end_their_connection_after_its_other_answers() {
    let room = MostConnections { name: "tests", all: 9, each: 9, ipv6_prefix: 64 };
    let connections = Connections::new(room, ConnectionCounters::default());
    let client_address = Some(IpAddr::from([192, 0, 2, 1]));
    for (peer, ends) in [(client_address, true), (None, false)] {
        let (server, mut client) = connect_to(&connections, peer, 1);
        client.begin(0).await;
        client.ask(1, 10).await;
        // They have no authority.
        client.ask_with(&HEAD[..3], 21, 40).await;
        client.read_slowly(1 << 20, 1, 9).await;
        assert_eq!((client.is_told, server.serving.is_finished()), (ends, false), "a proxy has many clients");
        client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &USUAL.to_be_bytes()].concat())).await;
        client.read_slowly(1 << 20, 50, 9).await;
        assert_eq!((client.complete, client.reset.len()), (50, 0));
        client.read_slowly(1 << 20, 51, 9).await;
        assert_eq!(server.serving.is_finished(), ends);
    }
    let (server, mut client) = connect_to(&connections, client_address, 1);
    client.begin(0).await;
    client.ask_with(&HEAD[..3], 1, 120).await;
    client.read(1 << 20).await;
    assert!(!server.serving.is_finished());
    client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &USUAL.to_be_bytes()].concat())).await;
    client.read(1 << 20).await;
    client.ask_with(&HEAD[..3], 241, 120).await;
    assert!(!client.read(1 << 20).await, "a flood of them ends it");
}
