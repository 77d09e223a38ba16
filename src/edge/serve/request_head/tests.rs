//! Heads of HTTP/1, however they arrive.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::*;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Gives a piece at each read, then the end.
struct Pieces(VecDeque<Vec<u8>>);

impl Pieces {
    fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(pieces.into_iter().map(<[u8]>::to_vec).collect())
    }
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<BytesMut, UnreadHead> {
    read(&mut Pieces::of(pieces), None).now_or_never().unwrap()
}

fn read_text(text: &str) -> Result<BytesMut, UnreadHead> {
    read_pieces([text.as_bytes()])
}

/// A head of so many bytes.
fn head_of(length: usize) -> String {
    let (start, end) = ("GET / HTTP/1.1\r\nHost: a\r\nx: ", "\r\n\r\n");
    format!("{start}{}{end}", "y".repeat(length - start.len() - end.len()))
}

/// A request line of so many bytes, and a host.
fn line_of(length: usize) -> String {
    format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(length - "GET / HTTP/1.1".len()))
}

fn fields(count: usize) -> String {
    format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(count))
}

#[test]
fn a_head_is_read_to_its_end_however_it_comes() {
    for text in [GET, "GET / HTTP/1.1\nHost: a\n\n", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\nGET / HTTP/1.0\r\n\n"] {
        assert_eq!(read_text(text).unwrap(), text.as_bytes());
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read_pieces(bytes).unwrap(), text.as_bytes(), "byte by byte: {text:?}");
        for end in 1..text.len() {
            let cut = read_text(&text[..end]);
            assert_eq!(cut, Err(UnreadHead::Gone), "{:?}", &text[..end]);
        }
    }
}

#[test]
fn what_follows_a_head_stays_behind_it_and_may_hold_the_next() {
    let both = format!("{GET}{GET}");
    assert_eq!(read_text(&both).unwrap(), both.as_bytes());
    let begun = BytesMut::from(GET);
    let next = read(&mut Pieces::of([]), Some(begun)).now_or_never().unwrap();
    assert_eq!(next.unwrap(), GET.as_bytes(), "nothing is read when all of it is there");
    let (start, rest) = GET.split_at(9);
    let mut stream = Pieces::of([rest.as_bytes()]);
    let next = read(&mut stream, Some(BytesMut::from(start))).now_or_never().unwrap();
    assert_eq!(next.unwrap(), GET.as_bytes());
    // A body of any length does not count.
    let body = format!("POST / HTTP/1.1\r\nContent-Length: 3000\r\n\r\n{}", "b".repeat(3000));
    assert!(read_text(&body).is_ok());
}

#[test]
fn heads_and_lines_are_as_long_as_they_may_be_and_no_longer() {
    let too_large = Err(Problem::headers_too_large(MOST_HEAD as u64).into());
    assert!(read_text(&head_of(MOST_HEAD)).is_ok());
    assert_eq!(read_text(&head_of(MOST_HEAD + 1)), too_large);
    assert!(read_text(&line_of(MOST_HEAD - 100)).is_ok());
    assert_eq!(read_text(&line_of(MOST_HEAD + 1)), Err(Problem::uri_too_long(MOST_HEAD as u64).into()));
    // The line fits, what follows does not.
    assert_eq!(read_text(&line_of(MOST_HEAD - 8)), too_large);
    assert!(read_text(&fields(MOST_FIELDS)).is_ok());
    assert_eq!(read_text(&fields(MOST_FIELDS + 1)), Err(Problem::too_many_headers(MOST_FIELDS).into()));
    assert_eq!(read_text(&"\r\n".repeat(MOST_HEAD / 2 + 1)), too_large, "nothing but empty lines");
}

#[test]
fn an_unfinished_head_is_refused_as_soon_as_it_is_too_long_and_no_more_is_read() {
    for (text, refusal) in [
        (format!("GET /{}", "y".repeat(1 << 20)), Problem::uri_too_long(MOST_HEAD as u64)),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(1 << 20)), Problem::headers_too_large(MOST_HEAD as u64)),
        (fields(100_000), Problem::too_many_headers(MOST_FIELDS)),
    ] {
        let mut stream = Pieces::of(text.as_bytes().chunks(MOST_HEAD / 2));
        let pieces = stream.0.len();
        let read = read(&mut stream, None).now_or_never().unwrap();
        assert_eq!(read, Err(refusal.clone().into()));
        assert!(pieces - stream.0.len() <= 5, "{refusal:?}: {} of {pieces} pieces read", pieces - stream.0.len());
    }
}

#[test]
fn a_line_in_too_many_pieces_is_given_up_and_a_slow_client_is_not() {
    let dripped = |text: &str, size| read_pieces(text.as_bytes().chunks(size).collect::<Vec<_>>());
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(128));
    assert_eq!(dripped(&long, 2), Err(Problem::in_pieces().into()));
    assert!(dripped(&long, 3).is_ok());
    assert!(dripped(&fields(40), 1).is_ok(), "each line ends in time");
}

#[test]
fn what_is_not_http_is_told_so_at_once() {
    for text in [
        "\u{16}\u{3}\u{1}\u{2}",
        "\u{0}",
        " GET / HTTP/1.1\r\n",
        "GET /\r\n",
        "hello\r\nthere",
        "SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        assert_eq!(read_text(text), Err(Problem::unreadable().into()), "{text:?}");
    }
}

#[test]
fn a_target_in_absolute_form_gives_one_host_and_the_head_does_not_grow_with_others() {
    let authority = "a".repeat(10_000);
    let text = format!("GET http://{authority}/x HTTP/1.1\r\n{}\r\n", "Host: b\r\n".repeat(90));
    let head = read_text(&text).unwrap();
    assert!(head.starts_with(b"GET /x HTTP/1.1\r\nHost:a"), "{head:?}");
    assert!(head.len() <= text.len(), "{} bytes of {}", head.len(), text.len());
}

#[test]
fn a_target_with_a_second_reading_is_refused() {
    for target in [" /", "/a b", "/ ", "/?a b", "/\t", "/\r", "/\u{7f}", "/ HTTP/1.1"] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(read_text(&text), Err(Problem::bad_target().into()), "{target:?}");
    }
    for line in ["GET / HTTP/1.1 ", "GET / HTTP/1.1 x"] {
        assert_eq!(read_text(&format!("{line}\r\n\r\n")), Err(Problem::bad_target().into()), "{line:?}");
    }
    assert!(read_text("GET /a%20b?c=[1]|{2}^`'\"<> HTTP/1.1\r\n\r\n").is_ok());
}

proptest! {
    #[test]
    fn the_pieces_do_not_matter(
        text in "(\r\n){0,2}[A-Z]{1,4} /[!-~]{0,20} HTTP/1\\.1\r?\n([a-z]{1,3}: [ -~]{0,20}\r?\n){0,4}\r?\n[ -~\n]{0,30}",
        cuts in prop::collection::vec(0_usize..200, 0..10),
    ) {
        let whole = read_text(&text).unwrap();
        prop_assert_eq!(&whole[..], text.as_bytes());
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let read = read_pieces(cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]])).unwrap();
        prop_assert!(text.as_bytes().starts_with(&read));
    }

    #[test]
    fn whatever_comes_is_judged(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
        let _ = read_pieces(pieces.iter().map(Vec::as_slice));
    }
}
