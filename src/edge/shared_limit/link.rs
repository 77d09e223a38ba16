//! One connection to Redis, and why there is none: requests of all threads share it, and none waits for the answer to
//! another.
//!
//! `redis` has the protocol; TLS is ours, with the authorities that the system trusts. Callers: [`super`]; `/status`
//! shows the reason.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, RedisResult, Script, ScriptInvocation, Value};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use crate::clock::Monotonic;
use crate::config::{RedisUrl, Settings};
use crate::edge::limit::{ClientKey, WINDOW_SECONDS};
use crate::origin::trust::tls;
use crate::protocol::excerpt::Excerpt;

use super::bounded::Bounded;
use super::keeper::{JournalEntry, by_client};
use super::{ADMIT, Id, REPLAY};

const PREFIX: &str = "grandstand:limit:";
/// How long connecting may take, with TLS, AUTH and scripts.
const CONNECT: Duration = Duration::from_secs(3);
/// How many commands may wait to be written.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub admitted: bool,
    /// How many admissions count now.
    pub counted: u32,
    /// Time until the oldest admission expires; for a refusal, until the next admission.
    pub leaves: Duration,
}

impl Verdict {
    /// The answer of the script to a question with this quota, if the script can have given it. `counts`: an admission
    /// was asked for.
    fn of(answer: &Value, quota: u32, counts: bool) -> Option<Self> {
        let Value::Array(parts) = answer else { return None };
        let [Value::Int(admitted), Value::Int(counted), Value::Int(leaves), Value::Int(_now)] = parts[..] else {
            return None;
        };
        let (admitted, counted) = (admitted == 1, u32::try_from(counted).ok().filter(|_| matches!(admitted, 0 | 1))?);
        let leaves = Duration::from_micros(u64::try_from(leaves).ok()?);
        let fits = match (admitted, counts) {
            (false, _) => counted >= quota,
            (true, false) => counted < quota,
            (true, true) => (1..=quota).contains(&counted),
        };
        let most = Duration::from_secs(u64::from(WINDOW_SECONDS));
        (fits && leaves <= most).then_some(Self { admitted, counted, leaves })
    }
}

/// A connection with both scripts loaded.
pub(super) struct Link {
    connection: MultiplexedConnection,
    admit: Script,
    replay: Script,
    driver: AbortHandle,
    unanswered: Arc<AtomicUsize>,
}

impl Link {
    /// Connects and loads the scripts. `waiting`: how many decisions wait.
    pub(super) async fn open(store: &RedisUrl, settings: &Settings, waiting: &Arc<AtomicUsize>) -> Result<Self, Lost> {
        let opened = tokio::time::timeout(CONNECT, Self::connect(store, settings, waiting)).await;
        opened.unwrap_or_else(|_elapsed| Err(Lost::slow(CONNECT)))
    }

    async fn connect(store: &RedisUrl, settings: &Settings, waiting: &Arc<AtomicUsize>) -> Result<Self, Lost> {
        let (host, port) = store.address();
        let password = match &settings.load().rate_limit.store_password_file {
            Some(path) => Some(password(path).await?),
            None => store.password().map(|secret| secret.expose().to_owned()),
        };
        let mut info = RedisConnectionInfo::default().set_db(i64::from(store.database()));
        if let Some(user) = store.user() {
            info = info.set_username(user);
        }
        if let Some(password) = password {
            info = info.set_password(password);
        }
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        if !store.is_tls() {
            return Self::greet(&info, stream, waiting).await;
        }
        let unreachable = |error: &dyn std::fmt::Display| Lost::Unreachable(error.to_string());
        let tls = tls(None).map_err(|error| unreachable(&error))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| unreachable(&error))?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        Self::greet(&info, stream, waiting).await
    }

    async fn greet(
        info: &RedisConnectionInfo,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        waiting: &Arc<AtomicUsize>,
    ) -> Result<Self, Lost> {
        let unanswered = Arc::<AtomicUsize>::default();
        let (stream, to_redis) = tokio::io::split(stream);
        let bounded = Bounded { stream, waiting: waiting.clone(), unanswered: unanswered.clone() };
        let stream = tokio::io::join(bounded, to_redis);
        // Each question has a deadline of its own.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(QUEUE);
        let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config).await?;
        let driver = tokio::spawn(driver).abort_handle();
        let link = Self { connection, admit: Script::new(ADMIT), replay: Script::new(REPLAY), driver, unanswered };
        // What Redis does not allow shows now, and not with the first decision.
        for text in [ADMIT, REPLAY] {
            link.answered(redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut link.connection.clone())).await?;
        }
        Ok(link)
    }

    /// Asks for one decision. An empty id asks without being counted.
    pub(super) async fn decide(&self, (quota, key): (u32, ClientKey), id: &[u8]) -> Result<Verdict, Lost> {
        let answer = self
            .run(&self.admit, &name(key), |command| {
                command.arg(quota).arg(id);
            })
            .await?;
        Verdict::of(&answer, quota, !id.is_empty()).ok_or(Lost::Unknown)
    }

    /// Reports decisions that were made without Redis; returns how many it did not take, because their clients' keys
    /// are of no use.
    pub(super) async fn replay(&self, entries: &[JournalEntry], now: Monotonic) -> Result<u64, Lost> {
        let mut refused = 0;
        for (key, entries) in by_client(entries) {
            let name = name(key);
            let told = self.run(&self.replay, &name, |command| {
                for entry in &entries {
                    let age = i64::try_from(now.since(entry.at).as_micros()).unwrap_or(i64::MAX);
                    command.arg(&entry.id[..]).arg(if entry.withdrawn { -1 } else { age });
                }
            });
            match told.await {
                Err(lost) if lost.is_about_one_key() => refused += entries.len() as u64,
                told => drop(told?),
            }
        }
        Ok(refused)
    }

    /// Checks whether Redis accepts writes: counts a request of no client, and withdraws it.
    pub(super) async fn probe(&self, id: &Id, deadline: Duration) -> Result<(), Lost> {
        let key = format!("{PREFIX}probe");
        let probe = self.run(&self.replay, &key, |command| {
            // Only adding shows that Redis is full. Withdrawing the id lets the next probe add it again.
            command.arg(&id[..]).arg(0).arg(&id[..]).arg(-1);
        });
        match tokio::time::timeout(deadline, probe).await {
            Ok(Ok(Value::Int(0 | 1))) => Ok(()),
            Ok(Ok(_other)) => Err(Lost::Unknown),
            Ok(Err(lost)) => Err(lost),
            Err(_elapsed) => Err(Lost::slow(deadline)),
        }
    }

    /// Runs a script, which is loaded again after SCRIPT FLUSH, or a failover behind the same address.
    async fn run(
        &self,
        script: &Script,
        key: &str,
        arguments: impl Fn(&mut ScriptInvocation<'_>),
    ) -> Result<Value, Lost> {
        let mut invocation = script.key(key);
        arguments(&mut invocation);
        self.answered(invocation.invoke_async(&mut self.connection.clone())).await
    }

    async fn answered(&self, answer: impl Future<Output = RedisResult<Value>>) -> Result<Value, Lost> {
        let answer = answer.await;
        // Also forgets what has come of other answers. The bound is for a flood, of which nothing is an answer.
        self.unanswered.store(0, Ordering::Relaxed);
        Ok(answer?)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn name(key: ClientKey) -> String {
    format!("{PREFIX}{key}")
}

/// The first line of the password file.
async fn password(path: &Path) -> Result<String, Lost> {
    let text = tokio::fs::read_to_string(path).await.map_err(|error| Lost::PasswordFile(error.to_string()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A reason, for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    /// The server has only just started.
    #[error("Redis has not answered yet")]
    NotYet,
    /// No connection, or none any more.
    #[error("Redis cannot be reached: {}", Excerpt(.0))]
    Unreachable(String),
    #[error("Redis did not answer within {0} ms")]
    Slow(u64),
    /// More decisions wait than there is room for.
    #[error("too many requests wait for Redis")]
    Crowded,
    /// AUTH failed, or was needed.
    #[error("Redis refuses the user name or password: check rate_limit.store")]
    Password,
    #[error("rate_limit.store_password_file cannot be read: {0}")]
    PasswordFile(String),
    #[error("Redis is a read-only replica: rate_limit.store must name the primary")]
    ReadOnly,
    #[error("Redis has reached its memory limit (maxmemory)")]
    Full,
    /// It has just started.
    #[error("Redis is still loading its data")]
    Loading,
    #[error("Redis answered with an error: {}", Excerpt(.0))]
    Refused(String),
    /// An answer that no script of ours gives.
    #[error("Redis gave an answer of an unknown form; is it another program?")]
    Unknown,
}

impl Lost {
    /// Whether it may be about the key that was asked for, and not about Redis: the key of the probe shows that.
    pub(super) const fn is_about_one_key(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unknown)
    }

    pub(super) fn slow(timeout: Duration) -> Self {
        Self::Slow(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<RedisError> for Lost {
    fn from(error: RedisError) -> Self {
        let text = error.to_string();
        // Before Redis 7 the code of an error inside a script is in the middle of its text.
        let says = |code: &str| error.code() == Some(code) || text.contains(code);
        if ["WRONGPASS", "NOAUTH", "NOPERM"].into_iter().any(says)
            || error.kind() == redis::ErrorKind::AuthenticationFailed
        {
            Self::Password
        } else if says("READONLY") {
            Self::ReadOnly
        } else if says("OOM") {
            Self::Full
        } else if says("LOADING") || text.contains("loading the dataset") {
            Self::Loading
        } else if error.is_io_error() || error.is_connection_dropped() {
            Self::Unreachable(text)
        } else {
            Self::Refused(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_the_script_cannot_give_is_not_believed() {
        const WINDOW: i64 = 60_000_000;
        let of = |parts: [i64; 3], counts| {
            let parts = parts.into_iter().chain([1_700_000_000_000_000]).map(Value::Int).collect();
            Verdict::of(&Value::Array(parts), 5, counts).map(|verdict| verdict.leaves.as_micros())
        };
        for counts in [true, false] {
            assert_eq!(of([0, 5, WINDOW], counts), Some(60_000_000));
            assert_eq!(of([0, 9, 0], counts), Some(0), "the quota was lowered");
            for parts in [
                [0, 5, WINDOW + 1],
                [0, 5, i64::MAX],
                [0, 5, -1],
                [0, 4, 7],
                [0, i64::MAX, 7],
                [0, -1, 7],
                [1, -1, 7],
                [1, 1, WINDOW + 1],
                [1, 6, 7],
                [2, 1, 7],
                [-1, 9, 7],
            ] {
                assert_eq!(of(parts, counts), None, "{parts:?}");
            }
        }
        assert_eq!((of([1, 0, 0], false), of([1, 0, 0], true)), (Some(0), None));
        assert_eq!((of([1, 5, 7], false), of([1, 5, 7], true)), (None, Some(7)));
        for other in [Value::Okay, Value::Int(1), Value::Array(vec![Value::Int(1); 3]), Value::Nil] {
            assert_eq!(Verdict::of(&other, 5, true), None);
        }
    }
}
