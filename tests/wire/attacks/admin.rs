//! Strangers hold the connections of the admin listener.

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Setup, each, run};

/// More than the listener has under a limit of 256 open files.
const MANY: usize = 40;

/// Each is answered and keeps sending a body: the first is refused, the second has a body that nobody needs.
#[tokio::test]
async fn connections_that_were_answered_and_go_on_sending_take_no_place_from_others() {
    each(["POST /bundle", "GET /livez", "POST /nowhere"], async |request| {
        let setup = Setup::offline().set("admin.token", "0123456789abcdef0123456789abcdef");
        let server = setup.under(&["prlimit", "--nofile=256:256", "--"]).start().await;
        let mut held = Vec::new();
        for nth in 0..MANY {
            let mut stream = TcpStream::connect(server.admin).await.unwrap();
            let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\nx");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut start = [0; 9];
            let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("an answer");
            assert!(read.is_ok() && start == *b"HTTP/1.1 ", "{nth}: {read:?}");
            held.push(stream);
        }
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
        let (code, said) = run(&server.setup.arguments(&["snapshot", "list"], &server.data_dir())).await;
        assert_eq!(code, 0, "over the socket: {said}");
        drop(held);
    })
    .await;
}
