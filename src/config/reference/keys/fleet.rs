//! The keys of a fleet: `[publish]` and `[replica]`.
//!
//! Callers: [`super`].

use super::Values::{Duration, Words};
use super::{FOLLOWS, KEPT, Key, REPLICA, key, unset};

/// The keys, in the order of the page.
pub(super) const KEYS: &[Key] = &[
    unset(
        "publish.url",
        "none",
        Words("`s3://bucket/prefix`, `gs://...`, `az://...` or `file:///path`"),
        KEPT,
        "The object store. Without it nothing is published. One publisher for each prefix.",
    ),
    unset(
        "publish.sign_key",
        "none",
        Words("path of a minisign secret key"),
        KEPT,
        "Signs every bundle and every head. Replicas with `bundle.trusted_keys` need it.",
    ),
    unset(
        "publish.sign_password_file",
        "none",
        Words("path of a file"),
        KEPT,
        "The password of that key is the first line of the file. Without it the key must have no password.",
    ),
    key(
        "publish.full_every",
        Duration("1s", "365d"),
        KEPT,
        "A full bundle is published at least this often. Deltas follow it.",
    ),
    key(
        "publish.keep",
        Duration("1m", "3650d"),
        KEPT,
        "How long bundles stay in the store that no head names any more. A replica that falls back by less than this can finish its downloads.",
    ),
    unset(
        "publish.options",
        "none",
        Words("table of texts"),
        KEPT,
        "Credentials and settings of the store, such as `aws_endpoint`. They win over the environment (`AWS_ENDPOINT`), and are never printed. [The names](fleet.md#options-of-stores).",
    ),
    unset(
        "replica.url",
        "none",
        Words("`s3://`, `gs://`, `az://`, `file://`, `https://` or `http://` URL"),
        FOLLOWS,
        "The store that a publisher writes to. With `origin.url`, a mirror with an empty disk takes its first data from it. `http://` needs `bundle.trusted_keys`.",
    ),
    key("replica.poll", Duration("100ms", "1d"), REPLICA, "How often a replica looks for a new head."),
    unset(
        "replica.options",
        "none",
        Words("table of texts"),
        FOLLOWS,
        "Credentials and settings of the store, over those of the environment, such as `aws_access_key_id`. Values are never shown.",
    ),
];
