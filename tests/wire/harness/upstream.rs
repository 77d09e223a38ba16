//! An origin that answers as a test scripts it: any status, field, body, pause or end of a connection.
//!
//! It knows nothing of the API; where the real data matters use [`sample_origin`]. Plain HTTP/1.1, keep-alive,
//! over real sockets, or over pipes in memory. Callers: tests of the caching reverse proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use grandstand::origin::connector::Pipe;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counted from 1, over all connections.
    pub number: usize,
    /// Counted from 1, among those for the same target.
    pub nth: usize,
    pub method: String,
    /// Path and query, byte for byte.
    pub target: String,
    pub headers: HeaderMap,
    /// The whole head as it came, byte for byte.
    pub head: String,
    pub body: Bytes,
    /// On which connection, counted from 1.
    pub connection: usize,
}

impl Seen {
    /// A field, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Script {
    status: u16,
    fields: Vec<(String, String)>,
    pieces: Vec<(Duration, Bytes)>,
    interim: Vec<(u16, Vec<(String, String)>)>,
    delay: Duration,
    /// `Content-Length` to announce instead of the true one; the connection ends after the body.
    announced: Option<usize>,
    chunked: bool,
    hangs_up: bool,
    /// Sent instead of all the rest; the connection ends after it.
    raw: Option<Bytes>,
    /// Sent that often after the pieces; counted in `Content-Length` unless the body is chunked.
    repeated: Option<(Bytes, usize)>,
    /// Head and later pieces each take a permit from it before they leave.
    head_gate: Option<Arc<Semaphore>>,
    piece_gate: Option<Arc<Semaphore>>,
}

impl Script {
    /// An answer with a status and a body.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, pieces: vec![(Duration::ZERO, body.into())], ..Self::default() }
    }

    /// No answer: the connection is closed.
    pub fn hang_up() -> Self {
        Self { hangs_up: true, ..Self::default() }
    }

    /// These bytes and nothing else; then the connection is closed.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self { raw: Some(bytes.into()), ..Self::default() }
    }

    /// With a piece of the body that is repeated.
    #[must_use]
    pub fn repeating(mut self, piece: impl Into<Bytes>, times: usize) -> Self {
        self.repeated = Some((piece.into(), times));
        self
    }

    /// Its head waits for a permit, which it uses up.
    #[must_use]
    pub fn held_by(mut self, gate: &Arc<Semaphore>) -> Self {
        self.head_gate = Some(gate.clone());
        self
    }

    /// With another piece of the body, which waits for a permit like all later ones; the body is then chunked.
    #[must_use]
    pub fn then_held_by(mut self, gate: &Arc<Semaphore>, piece: impl Into<Bytes>) -> Self {
        self.piece_gate = Some(gate.clone());
        self.then(Duration::ZERO, piece)
    }

    /// No answer, ever.
    pub fn hang() -> Self {
        Self::hang_up().after(Duration::from_secs(3600))
    }

    /// With one more line of a field.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts, owned or not, are written the same way")]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// After a pause.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// After an interim answer.
    #[must_use]
    pub fn announcing(mut self, status: u16, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.interim.push((status, fields));
        self
    }

    /// With another piece of the body, after a pause; the body is then chunked.
    #[must_use]
    pub fn then(mut self, pause: Duration, piece: impl Into<Bytes>) -> Self {
        self.pieces.push((pause, piece.into()));
        self.chunked = true;
        self
    }

    /// With `Content-Length` in spite of pauses between its pieces.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.chunked = false;
        self
    }

    /// With a body that breaks off early.
    #[must_use]
    pub fn announced(mut self, length: usize) -> Self {
        self.announced = Some(length);
        self
    }
}

/// What happened on the wire.
#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    broken: AtomicU64,
    repeated: AtomicU64,
}

type Answer = dyn Fn(&Seen) -> Script + Send + Sync;

/// The origin.
pub struct Upstream {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Mutex<Arc<Answer>>>,
    accepting: Mutex<tokio::task::JoinHandle<()>>,
    /// The address while it is down: bound, so that nobody else gets it, and not listened on.
    reserved: Mutex<Option<TcpSocket>>,
    open: Arc<Mutex<Vec<tokio::task::AbortHandle>>>,
    counters: Arc<Counters>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.lock().abort();
    }
}

impl Upstream {
    /// Starts to listen; each request is answered by `answer`.
    pub async fn start(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let answer: Arc<Mutex<Arc<Answer>>> = Arc::new(Mutex::new(Arc::new(answer)));
        let open = Arc::<Mutex<Vec<tokio::task::AbortHandle>>>::default();
        let counters = Arc::<Counters>::default();
        let accepting = Mutex::new(accept(listener, seen.clone(), answer.clone(), open.clone(), counters.clone()));
        Self { address, seen, answer, accepting, reserved: Mutex::default(), open, counters }
    }

    /// Answers so from now on.
    pub fn answers(&self, answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) {
        *self.answer.lock() = Arc::new(answer);
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.counters.connections.load(Ordering::SeqCst)
    }

    /// How many answers could not be sent to the end, because the client had gone.
    pub fn broken(&self) -> u64 {
        self.counters.broken.load(Ordering::SeqCst)
    }

    /// How many bytes of repeated pieces were sent.
    pub fn repeated(&self) -> u64 {
        self.counters.repeated.load(Ordering::SeqCst)
    }

    /// The requests, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// How many requests arrived.
    pub fn count(&self) -> usize {
        self.seen.lock().len()
    }

    pub fn forget(&self) {
        self.seen.lock().clear();
    }

    /// Accepts no more connections.
    pub fn close(&self) {
        self.accepting.lock().abort();
    }

    /// Goes down: connections are refused, and open ones end.
    pub async fn go_down(&self) {
        self.close();
        for connection in self.open.lock().drain(..) {
            connection.abort();
        }
        while TcpStream::connect(self.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        *self.reserved.lock() = Some(self.bound());
    }

    fn bound(&self) -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        socket
    }

    /// Is back under the same address.
    pub fn come_back(&self) {
        let reserved = self.reserved.lock().take();
        let listener = reserved.unwrap_or_else(|| self.bound()).listen(1024).unwrap();
        *self.accepting.lock() = {
            let (seen, answer, open) = (self.seen.clone(), self.answer.clone(), self.open.clone());
            accept(listener, seen, answer, open, self.counters.clone())
        };
    }

    /// How many requests for one target arrived.
    pub fn count_of(&self, target: &str) -> usize {
        self.seen.lock().iter().filter(|seen| seen.target == target).count()
    }

    /// The requests for one target, in order.
    pub fn seen_of(&self, target: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.target == target).cloned().collect()
    }
}

fn accept(
    listener: TcpListener,
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<Mutex<Arc<Answer>>>,
    open: Arc<Mutex<Vec<tokio::task::AbortHandle>>>,
    counters: Arc<Counters>,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut connection = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            // Heads and pieces are written one by one: each leaves at once.
            stream.set_nodelay(true).unwrap();
            connection += 1;
            counters.connections.fetch_add(1, Ordering::SeqCst);
            let (seen, answer, counters) = (seen.clone(), answer.clone(), counters.clone());
            let serving = tokio::spawn(async move {
                while serve(&mut stream, connection, &seen, &answer, &counters).await == Some(false) {}
            });
            let mut open = open.lock();
            open.retain(|connection| !connection.is_finished());
            open.push(serving.abort_handle());
        }
    })
}

/// Connections in memory to an origin that takes one request on each.
pub fn pipe(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> Pipe {
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let answer: Arc<Mutex<Arc<Answer>>> = Arc::new(Mutex::new(Arc::new(answer)));
    Arc::new(move || {
        let (ours, mut theirs) = duplex(64 << 10);
        let (seen, answer) = (seen.clone(), answer.clone());
        tokio::spawn(async move { serve(&mut theirs, 1, &seen, &answer, &Counters::default()).await });
        ours
    })
}

/// One request; whether the connection ends after its answer, and `None` if the client has gone.
async fn serve(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    connection: usize,
    seen: &Mutex<Vec<Seen>>,
    answer: &Mutex<Arc<Answer>>,
    counters: &Counters,
) -> Option<bool> {
    let request = read(stream, connection).await?;
    let request = {
        let mut seen = seen.lock();
        let nth = seen.iter().filter(|earlier| earlier.target == request.target).count() + 1;
        let request = Seen { number: seen.len() + 1, nth, ..request };
        seen.push(request.clone());
        request
    };
    let answer = answer.lock().clone();
    let script = answer(&request);
    tokio::time::sleep(script.delay).await;
    if script.hangs_up {
        return Some(true);
    }
    let bodyless = request.method == "HEAD" || matches!(script.status, 204 | 304);
    if let Some(gate) = &script.head_gate {
        gate.acquire().await.ok()?.forget();
    }
    if write(stream, &script, bodyless, counters).await.is_err() {
        counters.broken.fetch_add(1, Ordering::SeqCst);
        return None;
    }
    Some(script.announced.is_some() || script.raw.is_some())
}

/// A request; nobody sends a second one before its answer.
async fn read(stream: &mut (impl AsyncRead + Unpin), connection: usize) -> Option<Seen> {
    let mut buffer = Vec::new();
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.trim().as_bytes()).unwrap(),
        );
    }
    let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse::<usize>().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = Bytes::from(buffer[end..end + length].to_vec());
    Some(Seen { number: 0, nth: 0, method, target, headers, head, body, connection })
}

async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    script: &Script,
    bodyless: bool,
    counters: &Counters,
) -> std::io::Result<()> {
    if let Some(raw) = &script.raw {
        stream.write_all(raw).await?;
        return stream.flush().await;
    }
    let lines = |fields: &[(String, String)]| -> String {
        fields.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect()
    };
    for (status, fields) in &script.interim {
        stream.write_all(format!("HTTP/1.1 {status} Interim\r\n{}\r\n", lines(fields)).as_bytes()).await?;
    }
    let length: usize = script.pieces.iter().map(|(_, piece)| piece.len()).sum();
    let length = length + script.repeated.as_ref().map_or(0, |(piece, times)| piece.len() * times);
    let framing = match (script.chunked, script.announced) {
        _ if matches!(script.status, 204 | 304) => String::new(),
        (true, _) => "Transfer-Encoding: chunked\r\n".to_owned(),
        (false, announced) => format!("Content-Length: {}\r\n", announced.unwrap_or(length)),
    };
    let head = format!("HTTP/1.1 {} Scripted\r\n{}{framing}\r\n", script.status, lines(&script.fields));
    stream.write_all(head.as_bytes()).await?;
    if bodyless {
        return Ok(());
    }
    for (index, (pause, piece)) in script.pieces.iter().enumerate() {
        stream.flush().await?;
        tokio::time::sleep(*pause).await;
        if let Some(gate) = script.piece_gate.as_ref().filter(|_| index > 0) {
            gate.acquire().await.map_err(std::io::Error::other)?.forget();
        }
        write_piece(stream, script.chunked, piece).await?;
    }
    if let Some((piece, times)) = &script.repeated {
        for _ in 0..*times {
            write_piece(stream, script.chunked, piece).await?;
            counters.repeated.fetch_add(piece.len() as u64, Ordering::SeqCst);
        }
    }
    if script.chunked && script.announced.is_none() {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.flush().await
}

async fn write_piece(stream: &mut (impl AsyncWrite + Unpin), chunked: bool, piece: &[u8]) -> std::io::Result<()> {
    if !chunked {
        return stream.write_all(piece).await;
    }
    if !piece.is_empty() {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        stream.write_all(piece).await?;
        stream.write_all(b"\r\n").await?;
    }
    Ok(())
}
