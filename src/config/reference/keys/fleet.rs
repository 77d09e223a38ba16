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
        "The object store. Without it, nothing is written to an object store. Use one publisher for each prefix.",
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
        "A full bundle is written at least this often. Deltas follow it.",
    ),
    key(
        "publish.keep",
        Duration("1m", "3650d"),
        KEPT,
        "A bundle that is not listed in the head is removed this long after it was written. Bundles in use are written again after half of this time. So a replica that is behind by less than half of it can finish its downloads.",
    ),
    unset(
        "publish.options",
        "none",
        Words("table of texts"),
        KEPT,
        "Credentials and settings of the object store, such as `aws_endpoint`. They override the environment (`AWS_ENDPOINT`), and are never printed. [The names](fleet.md#options-of-stores).",
    ),
    unset(
        "replica.url",
        "none",
        Words("`s3://`, `gs://`, `az://`, `file://`, `https://` or `http://` URL"),
        FOLLOWS,
        "The object store that a publisher writes to. With `origin.url`, a mirror with an empty disk takes its first data from it. `http://` needs `bundle.trusted_keys`.",
    ),
    key("replica.poll", Duration("100ms", "1d"), REPLICA, "How often a replica looks for a new head."),
    unset(
        "replica.options",
        "none",
        Words("table of texts"),
        FOLLOWS,
        "Credentials and settings of the object store, such as `aws_access_key_id`. They override the environment, and are never shown.",
    ),
];
