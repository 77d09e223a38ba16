//! Client of the admin API: over the network, over the socket in a data directory, or within this process.
//!
//! It does not know what the commands ask for. Callers: [`super::target`], which finds it, and the commands.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::handshake;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio_util::io::ReaderStream;

use crate::config::{Config, Proxy, Secret};
use crate::origin::connector::Connector;
use crate::origin::trust::tls;
use crate::origin::wire::reason;
use crate::server::admin::bundle::SIGNATURE;
use crate::server::admin::facts::StatusFacts;
use crate::server::admin::guard::Refusal;
use crate::server::hosted::Hosted;
use crate::words::with_causes;

use super::Failure;
use super::terminal::{bytes_bar, spinner, tell};

/// How long to wait for a connection.
const CONNECTING: Duration = Duration::from_secs(10);
/// A day.
const FOREVER: Duration = Duration::from_secs(86_400);
/// How long a server may be busy with other uploads.
const TURN: Duration = Duration::from_secs(1800);

/// The HTTP status of an unhealthy server's whole status.
const UNHEALTHY: u16 = 503;

/// The HTTP status of a reload whose configuration has mistakes.
const MISTAKES: u16 = 422;

/// The HTTP status of an action that this use does not have.
const CONFLICT: u16 = 409;

pub(super) struct Server {
    /// Its address, with the scheme; or the path of its socket, or of the data directory.
    pub admin: String,
    way: Way,
    /// Sent with commands, not with questions.
    token: Option<Secret>,
    /// The data directory that it must have, if it was not found by it.
    data_dir: Option<PathBuf>,
}

enum Way {
    Network,
    Socket,
    Here(Hosted),
}

pub(super) struct ServerLook {
    pub is_healthy: bool,
    pub facts: StatusFacts,
    /// The same as the server sent it, with what this version does not know.
    pub json: Value,
}

#[derive(Debug, thiserror::Error)]
enum ServerError {
    #[error(
        "no server answers at {url}: {reason}; start `grandstand serve`, or give the address of its admin listener with --admin"
    )]
    NoAnswer { url: String, reason: String },
    #[error("{why}")]
    Refused { why: String, status: u16, again: Option<Duration> },
    #[error(
        "the server at {admin} {}: set admin.token (in the environment: GRANDSTAND__ADMIN__TOKEN), or admin.token_file, to \
         that server's token",
        if *is_sent { "refuses the admin token of this command" } else { "does this only with its admin token" }
    )]
    Token { admin: String, is_sent: bool },
    #[error("the download ended after {done} of {of} bytes; try again")]
    BrokenOff { done: u64, of: u64 },
    #[error(
        "the server at {admin} has the data directory {theirs}, but data_dir is {}; give the address of the right \
         server with --admin; if data_dir was changed, restart the server first",
        ours.display()
    )]
    Another { admin: String, theirs: String, ours: PathBuf },
}

/// Whether this refusal is about the configuration of the server.
fn is_misconfigured(path: &str, status: u16) -> bool {
    match path.split('?').next() {
        Some("/reload") => status == MISTAKES,
        Some("/sync" | "/audit") => status == CONFLICT,
        _ => false,
    }
}

impl Server {
    /// The server at an address. `data_dir`: the directory that it must have, if it is known.
    pub(super) fn at(admin: String, config: &Config, data_dir: Option<PathBuf>) -> Self {
        Self { admin, way: Way::Network, token: config.admin.secret().cloned(), data_dir }
    }

    pub(super) fn on(socket: &Path) -> Self {
        Self { admin: socket.display().to_string(), way: Way::Socket, token: None, data_dir: None }
    }

    pub(super) fn here(hosted: Hosted, config: &Config) -> Self {
        let path = &config.data_dir;
        let path = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.clone());
        Self { admin: path.display().to_string(), way: Way::Here(hosted), token: None, data_dir: None }
    }

    pub(super) const fn is_here(&self) -> bool {
        self.hosted().is_some()
    }

    /// The one in this process; `None`: it is in another one.
    pub(super) const fn hosted(&self) -> Option<&Hosted> {
        match &self.way {
            Way::Here(hosted) => Some(hosted),
            Way::Network | Way::Socket => None,
        }
    }

    /// Ends one in this process; returns whether every detail that arrived is stored.
    pub(super) fn close(self) -> bool {
        match self.way {
            Way::Here(hosted) => hosted.close(),
            Way::Network | Way::Socket => true,
        }
    }

    /// The same server, asked first whether it answers, and has the expected data directory.
    pub(super) fn expected(self) -> Result<Self, Failure> {
        if self.data_dir.is_some() || matches!(self.way, Way::Socket) {
            self.expect(&self.look()?.facts)?;
        }
        Ok(self)
    }

    /// Whether it has the expected data directory. Earlier versions do not tell it.
    pub(super) fn expect(&self, facts: &StatusFacts) -> Result<(), Failure> {
        let resolved = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        let theirs = &facts.data_dir;
        match &self.data_dir {
            Some(ours) if !theirs.is_empty() && resolved(ours) != resolved(Path::new(theirs)) => {
                let (admin, ours) = (self.admin.clone(), resolved(ours).unwrap_or_else(|| ours.clone()));
                Err(ServerError::Another { admin, theirs: theirs.clone(), ours }.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn look(&self) -> Result<ServerLook, Failure> {
        let (is_healthy, text) = self.ask(Method::GET, "/status")?;
        let json: Value = serde_json::from_str(&text)?;
        Ok(ServerLook { is_healthy, facts: StatusFacts::deserialize(&json)?, json })
    }

    pub(super) fn json(&self, method: Method, path: &str) -> Result<Value, Failure> {
        Ok(serde_json::from_str(&self.ask(method, path)?.1)?)
    }

    /// Asks; returns whether the server is healthy, and its answer.
    pub(super) fn ask(&self, method: Method, path: &str) -> Result<(bool, String), Failure> {
        /// A command may wait for an import that runs; reading does not.
        const COMMAND: Duration = Duration::from_secs(1800);
        let patience = match &self.way {
            // It verifies, or waits for a disk, for as long as that takes.
            Way::Here(_) => FOREVER,
            _ if method == Method::GET => CONNECTING,
            _ => COMMAND,
        };
        block_on(async {
            let asking = async {
                let answer = self.answer(method, path, HeaderMap::new(), None).await?;
                Ok((answer.status() != UNHEALTHY, self.text(path, answer).await?))
            };
            let asked = tokio::time::timeout(patience, asking).await;
            let silent = |_| Err(self.no_answer(path, format!("no answer within {} s", patience.as_secs())));
            match asked.unwrap_or_else(silent) {
                // The mistakes of a configuration, or another use than the command is for.
                Err(error @ ServerError::Refused { status, .. }) if is_misconfigured(path, status) => {
                    Err(Failure::usage(error))
                }
                asked => Ok(asked?),
            }
        })
    }

    /// Has the server write a bundle or a dump, into `out`; returns the head of its answer.
    pub(super) fn download(&self, query: &str, doing: &'static str, out: &mut dyn Write) -> Result<HeaderMap, Failure> {
        let path = format!("/bundle{query}");
        block_on(async {
            let waiting = spinner(doing);
            let mut response = self.answer(Method::GET, &path, HeaderMap::new(), None).await?;
            drop(waiting);
            let headers = std::mem::take(response.headers_mut());
            // A dump is made while it is sent.
            let of = response.body().size_hint().exact();
            let (mut show, mut done) = (bytes_bar("exporting"), 0);
            while let Some(frame) = response.body_mut().frame().await {
                let frame = frame.map_err(|error| self.no_answer(&path, with_causes(&error)))?;
                let Ok(piece) = frame.into_data() else { continue };
                out.write_all(&piece)?;
                done += piece.len() as u64;
                show(done, of.unwrap_or(0));
            }
            out.flush()?;
            match of.filter(|of| *of != done) {
                None => Ok(headers),
                Some(of) => Err(ServerError::BrokenOff { done, of }.into()),
            }
        })
    }

    /// Lets the server import a bundle with its signature; returns its answer.
    pub(super) fn upload(&self, query: &str, signature: Option<&[u8]>, file: &File) -> Result<Value, Failure> {
        let path = format!("/bundle{query}");
        let mut headers = HeaderMap::new();
        if let Some(text) = signature {
            let text = percent_encode(text, NON_ALPHANUMERIC).to_string();
            headers.insert(SIGNATURE, HeaderValue::try_from(text)?);
        }
        block_on(async {
            let (waiting, began) = (spinner("the server is importing the bundle"), Instant::now());
            let response = loop {
                // A clone shares its position with the file: each try begins at its start.
                let mut again = file.try_clone()?;
                again.rewind()?;
                match self.answer(Method::POST, &path, headers.clone(), Some(again)).await {
                    // It accepts one upload at a time.
                    Err(ServerError::Refused { again: Some(again), .. }) if began.elapsed() < TURN => {
                        tokio::time::sleep(again).await;
                    }
                    response => break response,
                }
            };
            drop(waiting);
            let response = response.inspect_err(|error| {
                // The import may have been done before the connection failed.
                if matches!(error, ServerError::NoAnswer { .. }) {
                    tell("`grandstand snapshot list` shows whether the bundle was imported");
                }
            })?;
            Ok(serde_json::from_str(&self.text(&path, response).await?)?)
        })
    }

    /// The head of an answer, also of an unhealthy server's status, or the server's error.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        file: Option<File>,
    ) -> Result<Response<Incoming>, ServerError> {
        let sent = self.send(method, path, headers, file).await;
        let answer = sent.map_err(|reason| self.no_answer(path, reason))?;
        let status = answer.status().as_u16();
        if answer.status().is_success() || (status == UNHEALTHY && !path.starts_with("/bundle")) {
            return Ok(answer);
        }
        let again = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = self.text(path, answer).await.unwrap_or_default();
        let problem: Option<Value> = serde_json::from_str(&body).ok();
        let why = match problem.as_ref().and_then(|problem| problem["detail"].as_str()) {
            // Its words are for programs that speak HTTP.
            Some(detail) if detail == Refusal::Token.as_str() => {
                return Err(ServerError::Token { admin: self.admin.clone(), is_sent: self.token.is_some() });
            }
            Some(detail) => detail.to_owned(),
            None => format!("{}{path} answered {status}: {body}", self.admin),
        };
        Err(ServerError::Refused { why, status, again: again.map(Duration::from_secs) })
    }

    async fn text(&self, path: &str, answer: Response<Incoming>) -> Result<String, ServerError> {
        let body = answer.into_body().collect().await.map_err(|error| self.no_answer(path, with_causes(&error)))?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    fn no_answer(&self, path: &str, reason: String) -> ServerError {
        ServerError::NoAnswer { url: format!("{}{path}", self.admin), reason }
    }

    /// Sends a request, with this file as its body if given, and waits for the head of the answer.
    async fn send(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        file: Option<File>,
    ) -> Result<Response<Incoming>, String> {
        let token = self.token.as_ref().filter(|_| method != Method::GET || path.starts_with("/bundle"));
        if let Some(token) = token {
            let token = HeaderValue::try_from(format!("Bearer {}", token.expose()));
            headers.insert(AUTHORIZATION, token.map_err(|error| format!("admin.token: {error}"))?);
        }
        let body = match file {
            None => Empty::<Bytes>::new().map_err(|never| match never {}).boxed(),
            Some(file) => {
                let length = file.metadata().map_err(|error| error.to_string())?.len();
                headers.insert(CONTENT_LENGTH, length.into());
                let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), 64 << 10);
                BodyExt::boxed(StreamBody::new(pieces.map_ok(Frame::data)))
            }
        };
        let stream = match &self.way {
            Way::Network => {
                let uri: Uri = format!("{}{path}", self.admin).parse().map_err(|error| format!("{error}"))?;
                let mut request = Request::new(body);
                (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
                let tls = tls(None).map_err(|error| with_causes(&error))?;
                let connector = Connector::new(CONNECTING, tls, Proxy::default());
                let sent = Client::builder(TokioExecutor::new()).build(connector).request(request);
                return sent.await.map_err(|error| reason(&error));
            }
            Way::Socket => UnixStream::connect(&self.admin).await,
            Way::Here(hosted) => hosted.connect().and_then(UnixStream::from_std),
        };
        let stream = stream.map_err(|error| error.to_string())?;
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let uri: Uri = path.parse().map_err(|error| format!("{error}"))?;
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| with_causes(&error))?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(|error| with_causes(&error))
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
