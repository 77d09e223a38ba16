//! The life of a request, from its connection to the last byte of its answer.
//!
//! | room | what it is |
//! |---|---|
//! | [`serve`] | the public listener: connections, heads, HTTP/1 and HTTP/2, TLS; all sockets of clients are here |
//! | [`answer`] | admit, find, conditions, head, record: on one screen, without a socket |
//! | [`proxy`] | the HTTP cache for what no snapshot covers |
//! | [`pages`] | pages and documents for people and programs |
//! | [`dumps`] | the whole data, or what a search finds, as one file |
//! | [`search`] | words and places over an index of the current snapshot |
//! | [`limit`], [`shared_limit`] | the exact limit of a client, in this process and for a fleet; what is held for it |
//!
//! Not here: the data and the cache of hot answers ([`crate::data`]), the way to the origin ([`crate::origin`]). Operators
//! have a listener of their own ([`crate::server::admin`]).
//!
//! Three types to know: [`answer::admit::Admission`], what becomes of a request at the door; `answer::find::Found`;
//! [`answer::compose::Answer`], which one function writes for HTTP/1 and one for HTTP/2.
//!
//! Callers: [`crate::server`].

pub mod answer;
pub(crate) mod dumps;
pub mod limit;
pub(crate) mod pages;
pub(crate) mod proxy;
pub mod search;
pub mod serve;
pub mod shared_limit;
