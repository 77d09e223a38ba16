//! Reference page `docs/configuration.md`, written from the declarations of the keys.
//!
//! `GRANDSTAND_GOLDEN=write cargo test --lib configuration_page` writes it.

use std::fmt::Write as _;
use std::path::Path;

use super::super::Config;
use super::super::declaration::{About, Declaration, DeclaresKeys as _, Reload};
use super::super::values::Written;
use super::Bounds;

const INTRODUCTION: &str = "\
<!-- Generated from src/config by a test. Do not edit: change src/config/keys.rs, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib configuration_page -->

# Configuration

grandstand reads its configuration from three places. A later one wins:

1. a TOML file: `--config FILE` (`-c`). Without it, the file that `GRANDSTAND_CONFIG` names; without that, `./grandstand.toml`
   or `/etc/grandstand/grandstand.toml`, the first that exists, belongs to you or root, and is not writable by every user.
   Commands and the log say which file was found. `demo` reads only a file that `--config` names.
2. the environment: `GRANDSTAND__ORIGIN__URL=...` sets `origin.url`. Two underscores separate the levels.
3. the command line: `--set origin.url=...`. `--set` can be repeated. A value that is not TOML is a string.

[`config/`](../config) has a short file for each use: `mirror.toml`, `shield.toml`, `offline.toml` and `replica.toml`.

`grandstand check` prints the configuration in effect. If there are mistakes, it prints all of them, each with its key,
and exits with 64. An unknown key is a mistake. A variable that begins with `GRANDSTAND_` and is not read is a warning
(not those that Kubernetes sets for a Service).

* **Durations** are whole numbers with a unit: `d`, `h`, `m`, `s` or `ms`. They can be combined: `\"1h30m\"`.
* **Sizes** are a number of bytes, or a whole number with a unit: `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`, `TB`.
* **Secrets** (`admin.token`, a password in `rate_limit.store` or `origin.proxy`) are never printed. Prefer files of their own
  (`admin.token_file`, `rate_limit.store_password_file`) or the environment for them.

The column *use* says which [use](README.md#words) a key matters for. Other uses accept the key and ignore it.
";

/// The end of the page, before the keys that a reload changes.
const RELOAD: &str = "\n## Reload\n\n`SIGHUP` and `POST /reload` on the admin listener read the configuration again. \
    See [Run it as a service](service.md#reload). A reload changes these keys; all others need a restart:\n\n";

/// What belongs to the keys, and is declared by none.
const MORE: &str = "
What it does with some of them:

* `rate_limit.requests_per_minute`, `.override`: the requests of the last 60 seconds count in the new limit.
* `rate_limit.ipv6_prefix`: IPv6 clients start at zero.
* `rate_limit.store_password_file`: the next connection to Redis uses it.
* `replica.poll`: the replica reads the head at once, then at the new interval.
* `limits.connections`: idle connections beyond a lower limit are closed, the longest idle ones first.
* `mirror.keep`: snapshots that are no longer kept are removed at once.

## Options of object stores

`[publish.options]` and `[replica.options]` have the names of the library `object_store`, in lower case. Durations have
units (`\"10s\"`). `grandstand check` reports unknown names and options without effect.

| object store | options |
|---|---|
| S3 | `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `aws_region`, `aws_endpoint`, `aws_virtual_hosted_style_request`, [and more](https://docs.rs/object_store/latest/object_store/aws/enum.AmazonS3ConfigKey.html) |
| Google | `google_service_account`, `google_service_account_key`, [and more](https://docs.rs/object_store/latest/object_store/gcp/enum.GoogleConfigKey.html) |
| Azure | `azure_storage_account_name`, `azure_storage_account_key`, `azure_storage_sas_key`, `azure_storage_endpoint`, [and more](https://docs.rs/object_store/latest/object_store/azure/enum.AzureConfigKey.html) |
| [a web server](fleet.md#a-web-server-as-the-object-store) | `username`, `password`: basic authentication |
| all of these | `connect_timeout`, `read_timeout`, `timeout`, `user_agent`, `allow_http`, `http1_only` (the default), `http2_only` |

## Proxy variables

`origin.proxy`, `publish.proxy` and `replica.proxy` override these variables. Of two spellings, the one in lower case
counts. They never apply to this machine; the keys do.

| variable | meaning |
|---|---|
| `http_proxy` | the proxy for `http://` addresses. `HTTP_PROXY` is not read: a web server sets it from a header of its clients |
| `https_proxy`, `HTTPS_PROXY` | the proxy for `https://` addresses |
| `all_proxy`, `ALL_PROXY` | the proxy for those of the two that have none |
| `no_proxy`, `NO_PROXY` | names, addresses and networks that are asked directly: `.example.org,10.0.0.0/8`. `*`: all |

## Fixed bounds

On the public listener, beside [`[limits]`](#limits):

| bound | value |
|---|---|
| request line; all request headers | 48 KiB each; at most 255 headers |
| headers of the first request complete; TLS handshake | 15 s; 10 s |
| idle connection, until the headers of its next request are complete | 60 s |
| request body: pause of the client; whole body | 10 s; 30 s |
| answer: time until its client has read 64 KiB more, or the rest | 30 s |
| unread answers of an HTTP/2 connection, and of one client (over HTTP/1.1: those above 64 KiB), with the bodies of its forwarded requests. A body counts 1 MiB at most for a connection; for a client, what is beyond that counts once | 8 MiB; 32 MiB. Then further requests wait; without progress for 30 s they fail (HTTP/1.1: 503). Trusted proxies are exempt |
| the same, with requests that wait | 16 MiB; 64 MiB. Then further HTTP/2 streams are refused |
| the same, of all clients together | 512 MiB. Then each client may have 256 KiB |
| details that wait for the disk | 64 MiB. Then no more are requested; of what still arrives, 64 MiB are kept |
| connection to the origin, an object store or Redis: new requests on it | for 5 minutes; then the name is looked up again |
| levels of nested values in JSON from the origin | 64. A listing with more is left out, a detail is 502 |
";

/// The rows of the page, each with its default.
fn rows() -> Vec<(About, String)> {
    let mut rows = Vec::new();
    for key in Config::own_declarations() {
        let written = (key.write)(&Config::default());
        let default = if let Written::Value(value) = written { format!("`{value}`") } else { "none".to_owned() };
        let default = key.about.values.default.map_or(default, str::to_owned);
        let (path, mut about) = (key.about.path(), key.about);
        match std::mem::take(&mut about.values.inner) {
            inner if inner.is_empty() => rows.push((about, default)),
            inner => {
                let path: &str = path.leak();
                rows.extend(inner.into_iter().map(|about| (About { section: path, ..about }, "none".to_owned())));
            }
        }
    }
    rows
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn page() -> String {
    let (mut page, mut reload, mut title) = (INTRODUCTION.to_owned(), RELOAD.to_owned(), None);
    for (about, default) in rows() {
        let section = about.section.split('.').next().unwrap();
        // Writing to a String cannot fail.
        if title != Some(section) {
            title = Some(section);
            let heading = if section.is_empty() { "Top level".to_owned() } else { format!("`[{section}]`") };
            let text = joined(about.section_text);
            let _ = write!(
                page,
                "\n## {heading}\n\n{text}\n\n| key | default | value | use | what it does |\n|---|---|---|---|---|\n"
            );
        }
        let uses = match about.uses {
            [_, _, _, _] => "all".to_owned(),
            uses => uses.iter().map(|usage| usage.as_str()).collect::<Vec<_>>().join(", "),
        };
        let (path, text) = (about.path(), joined(about.text));
        let _ = writeln!(page, "| `{path}` | {default} | {} | {uses} | {text} |", about.values.words);
        if !matches!(about.reload, Reload::Restart) {
            let _ = writeln!(reload, "* `{path}`");
        }
    }
    page + &reload + MORE
}

#[test]
fn the_configuration_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    let advice = "docs/configuration.md is out of date: GRANDSTAND_GOLDEN=write cargo test --lib configuration_page";
    for (line, (is, should_be)) in stored.lines().zip(page().lines()).enumerate() {
        assert_eq!(is, should_be, "line {}: {advice}", line + 1);
    }
    assert_eq!(stored, page(), "{advice}");
}

/// Sets one key to a TOML value; whether the program accepts it.
fn is_accepted(key: &str, value: &str) -> bool {
    let examined = Config::examine(None, std::iter::empty(), &[format!("{key}={value}")]);
    assert!(examined.is_set(key), "{key} is unknown");
    !examined.errors.iter().any(|error| error.key() == key)
}

#[test]
fn the_bounds_on_the_configuration_page_are_those_of_the_program() {
    let mut count = 0;
    for Declaration { about, .. } in Config::own_declarations() {
        let Some(Bounds { accepted, refused }) = Bounds::read(&about.values.words) else { continue };
        count += 1;
        for value in &accepted {
            assert!(is_accepted(&about.path(), value), "{}: {value} is refused", about.path());
        }
        for value in &refused {
            assert!(!is_accepted(&about.path(), value), "{}: {value} is accepted", about.path());
        }
    }
    assert!(count > 20, "{count} keys have bounds");
}
