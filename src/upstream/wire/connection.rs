//! Connections that know whether they gave an answer. An address does not: the next connection may have the same.
//!
//! Callers: [`super`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// Whether a connection gave an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<AtomicBool>);

impl Answers {
    pub(super) fn came(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Opens such connections over TCP.
#[derive(Clone, Debug)]
pub(super) struct Connector(pub HttpConnector);

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Stream, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.0.call(uri).map_ok(|stream| Stream { stream, answers: Answers::default() }).boxed()
    }
}

pub(super) struct Stream {
    stream: TokioIo<TcpStream>,
    answers: Answers,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.answers.clone())
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
