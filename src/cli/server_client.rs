//! Requests of commands to a running server.
//!
//! It does not know the commands. Callers: [`super::status`], [`super::bundle`].

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio_util::io::ReaderStream;

use crate::config::Secret;
use crate::upstream::connector;

use crate::words::with_causes;

/// A client with its own connections.
pub(super) struct ServerClient {
    client: Client<HttpsConnector<HttpConnector>, BoxBody<Bytes, io::Error>>,
    token: Option<HeaderValue>,
}

impl ServerClient {
    /// A client that connects within this time; `token` is sent with each request.
    ///
    /// # Errors
    /// When TLS cannot be set up, in words.
    pub(super) fn new(patience: Duration, token: Option<&Secret>) -> Result<Self, String> {
        let connector = connector::over(connector::tcp(patience), None).map_err(|error| with_causes(&error))?;
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose()))).transpose();
        let token = token.map_err(|error| format!("admin.token: {error}"))?;
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector), token })
    }

    /// Sends a request, with this file as its body if given, and waits for the head of the answer.
    ///
    /// # Errors
    /// Without an answer, in words.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &str,
        mut headers: HeaderMap,
        file: Option<std::fs::File>,
    ) -> Result<Response<Incoming>, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let body = match file {
            None => Empty::new().map_err(|never| match never {}).boxed(),
            Some(file) => {
                let length = file.metadata().map_err(|error| error.to_string())?.len();
                headers.insert(CONTENT_LENGTH, length.into());
                let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), 64 << 10);
                StreamBody::new(pieces.map_ok(Frame::data)).boxed()
            }
        };
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        self.client.request(request).await.map_err(|error| with_causes(&error))
    }
}

/// The next piece of an answer's body; `None` at its end.
///
/// # Errors
/// If it ends early, in words.
pub(super) async fn next_piece(answer: &mut Response<Incoming>) -> Result<Option<Bytes>, String> {
    while let Some(frame) = answer.body_mut().frame().await {
        if let Ok(data) = frame.map_err(|error| with_causes(&error))?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// All of an answer's body, as text.
///
/// # Errors
/// If it ends early, in words.
pub(super) async fn text(mut answer: Response<Incoming>) -> Result<String, String> {
    let mut text = Vec::new();
    while let Some(piece) = next_piece(&mut answer).await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
