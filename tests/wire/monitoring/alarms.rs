//! The table of alarms: their rules for Prometheus, their rows on the page for operators, and series that raise them.
//!
//! `config/prometheus/grandstand.rules.yml` and the table in `docs/metrics.md` are made of it:
//! `GRANDSTAND_GOLDEN=write cargo test --locked --test wire alarms`. Callers: [`super`].

/// An alarm.
pub struct Alarm {
    /// Its name in the rules, after `Grandstand`.
    pub name: &'static str,
    /// When it is raised, in Prometheus's language.
    pub expr: &'static str,
    /// For how many minutes that must be true.
    pub minutes: u32,
    pub severity: &'static str,
    /// What happened, as a template of Prometheus.
    pub summary: &'static str,
    /// What to look at first, and what to do.
    pub todo: &'static str,
    /// Series of a real server, by name and labels: values that raise the alarm, and values that do not. `a+b` rises by `b`
    /// each minute.
    pub cases: &'static [(&'static str, &'static str, &'static str)],
}

const fn alarm(
    (name, severity): (&'static str, &'static str),
    (expr, minutes): (&'static str, u32),
    (summary, todo): (&'static str, &'static str),
    cases: &'static [(&'static str, &'static str, &'static str)],
) -> Alarm {
    Alarm { name, expr, minutes, severity, summary, todo, cases }
}

/// Every alarm, in the order of the page.
pub const ALARMS: &[Alarm] = &[
    alarm(
        ("Down", "critical"),
        ("up{job=\"grandstand\"} == 0", 2),
        ("cannot be scraped", "Is the process running? Its log and `systemctl status grandstand` say why not."),
        &[("up", "0", "1")],
    ),
    alarm(
        ("NothingToServe", "critical"),
        ("grandstand_ready == 0", 10),
        ("has no data to serve", "`reasons` in `/status` says what is missing."),
        &[("grandstand_ready", "0", "1")],
    ),
    alarm(
        ("Unhealthy", "warning"),
        ("grandstand_healthy == 0 and grandstand_ready == 1", 15),
        ("is unhealthy", "Data is old or held back, or the disk does not work. `grandstand status` says which."),
        &[("grandstand_healthy", "0", "1"), ("grandstand_ready", "1", "1")],
    ),
    alarm(
        ("DataOld", "warning"),
        ("grandstand_age_seconds > grandstand_age_limit_seconds", 5),
        (
            "has data that is {{ $value | humanizeDuration }} old",
            "`grandstand status` says why. The limit follows `ttl` and `bundle.max_age`.",
        ),
        &[("grandstand_age_seconds", "1000", "899"), ("grandstand_age_limit_seconds", "900", "900")],
    ),
    alarm(
        ("Finding", "info"),
        ("grandstand_finding == 1", 60),
        (
            "has had something to mend for an hour: {{ $labels.name }}",
            "`grandstand status` says what it is and what to do.",
        ),
        &[("grandstand_finding{name=\"certificate-ends\"}", "1", "0")],
    ),
    alarm(
        ("SnapshotHeld", "warning"),
        ("grandstand_held == 1", 30),
        (
            "holds a snapshot back",
            "It lost many listings: see `held` in `/status`. `grandstand snapshot accept` takes it once.",
        ),
        &[("grandstand_held", "1", "0")],
    ),
    alarm(
        ("DiskFails", "critical"),
        ("grandstand_disk_failing == 1", 5),
        (
            "cannot read or write its data directory",
            "Clients get the stored data, and no news. `grandstand status` says what is wrong, with path and bytes.",
        ),
        &[("grandstand_disk_failing", "1", "0")],
    ),
    alarm(
        ("OriginFails", "warning"),
        ("grandstand_origin_failing_seconds > 600", 0),
        (
            "has an origin that has failed for {{ $value | humanizeDuration }}",
            "`findings` in `/status` have the URL: try `curl -i` with it on this machine. grandstand goes on by itself when \
             the origin answers.",
        ),
        &[("grandstand_origin_failing_seconds", "0+60", "600")],
    ),
    alarm(
        ("OriginPaused", "warning"),
        ("grandstand_origin_paused_seconds > 60", 10),
        (
            "sends nothing to the origin",
            "The origin asked for a long pause. After a 429: does another program use the same limit?",
        ),
        &[("grandstand_origin_paused_seconds", "300", "60")],
    ),
    alarm(
        ("DiffersFromOrigin", "warning"),
        ("grandstand_parity_ratio < 1", 30),
        ("differs from its origin", "`GET /audit` shows the differences; `grandstand audit` compares again."),
        &[("grandstand_parity_ratio", "0.99", "1")],
    ),
    alarm(
        ("Errors", "warning"),
        (
            "sum by (instance) (rate(grandstand_answers_total{status=~\"5..\"}[5m])) \
             / sum by (instance) (rate(grandstand_answers_total[5m])) > 0.05",
            10,
        ),
        (
            "answers {{ $value | humanizePercentage }} of all requests with an error",
            "The problem documents and the access log say which.",
        ),
        &[
            ("grandstand_answers_total{status=\"200\"}", "0+600", "0+600"),
            ("grandstand_answers_total{status=\"503\"}", "0+60", "0+6"),
        ],
    ),
    alarm(
        ("Slow", "warning"),
        (
            "histogram_quantile(0.99, sum by (instance, le) (rate(grandstand_answer_seconds_bucket{outcome=\"fresh\"}[5m]))) \
             > 0.05",
            10,
        ),
        (
            "takes longer than {{ $value | humanizeDuration }} for 1 % of the hits",
            "Is the machine busy with something else?",
        ),
        &[
            ("grandstand_answer_seconds_bucket{outcome=\"fresh\",le=\"0.05\"}", "0+600", "0+659"),
            ("grandstand_answer_seconds_bucket{outcome=\"fresh\",le=\"0.1\"}", "0+660", "0+660"),
            ("grandstand_answer_seconds_bucket{outcome=\"fresh\",le=\"+Inf\"}", "0+660", "0+660"),
        ],
    ),
    alarm(
        ("ManyRefused", "info"),
        (
            "sum by (instance) (rate(grandstand_answers_total{status=\"429\"}[5m])) \
             / sum by (instance) (rate(grandstand_answers_total[5m])) > 0.2",
            15,
        ),
        (
            "refuses {{ $value | humanizePercentage }} of all requests",
            "Do all clients look like one? Check `client_ip.trusted_proxies`.",
        ),
        &[
            ("grandstand_answers_total{status=\"200\"}", "0+600", "0+600"),
            ("grandstand_answers_total{status=\"429\"}", "0+300", "0+100"),
        ],
    ),
    alarm(
        ("LimitNotShared", "warning"),
        ("grandstand_limit_shared == 0", 5),
        ("counts clients by itself", "Redis does not answer. `rate_limit.why` in `/status` says why."),
        &[("grandstand_limit_shared", "0", "1")],
    ),
    alarm(
        ("ReplicaBehind", "warning"),
        ("grandstand_replica_behind_seconds > 300", 5),
        (
            "has lacked something that the store has for {{ $value | humanizeDuration }}",
            "`replica.why` in `/status` says why.",
        ),
        &[("grandstand_replica_behind_seconds", "301", "300")],
    ),
    alarm(
        ("ReplicaRefuses", "warning"),
        ("increase(grandstand_replica_polls_total{outcome=\"refused\"}[10m]) > 0", 5),
        (
            "refuses what it finds in the object store",
            "`replica.why` in `/status` says why: another key, an older head, or a file that is not a head.",
        ),
        &[("grandstand_replica_polls_total{outcome=\"refused\"}", "0+12", "7")],
    ),
    alarm(
        ("PublishBehind", "warning"),
        ("grandstand_publish_behind_seconds > 300", 5),
        (
            "could not publish for {{ $value | humanizeDuration }}",
            "`publish.why` in `/status` says why. Clients of the replicas get older data meanwhile.",
        ),
        &[("grandstand_publish_behind_seconds", "301", "300")],
    ),
    alarm(
        ("ConnectionsRefused", "warning"),
        ("rate(grandstand_connections_refused_total[5m]) > 1", 10),
        (
            "refuses connections",
            "`limits.connections` or `limits.connections_per_client` is reached: raise it, or find the client that opens so many.",
        ),
        &[("grandstand_connections_refused_total", "0+600", "0+60")],
    ),
    alarm(
        ("ConnectionsEvicted", "warning"),
        ("rate(grandstand_connections_evicted_total[5m]) > 1", 10),
        (
            "closes idle connections to make room for new ones",
            "`limits.connections` or the limit of open files is reached: raise both, or find out who opens so many.",
        ),
        &[("grandstand_connections_evicted_total", "0+600", "0+60")],
    ),
    alarm(
        ("FilesRunOut", "warning"),
        (
            // What is not kept for the store, the origin and operators: `RESERVE` in src/server/sockets.rs.
            "grandstand_connections > 0.9 * (process_max_fds - clamp(process_max_fds / 2, 128, 1024)) \
             or process_open_fds > 0.9 * process_max_fds",
            5,
        ),
        (
            "has nearly no file descriptors left for clients",
            "Raise `LimitNOFILE` (`ulimit -n`), or lower `limits.connections`. A part of the descriptors is kept for the store, \
             the origin and operators.",
        ),
        &[
            ("grandstand_connections", "461", "460"),
            ("process_max_fds", "1024", "1024"),
            ("process_open_fds", "480", "921"),
        ],
    ),
    alarm(
        ("AccessLogDropped", "info"),
        ("increase(grandstand_access_log_dropped_total[10m]) > 0", 0),
        ("drops lines of its access log", "The disk is full or too slow, or nobody reads standard error."),
        &[("grandstand_access_log_dropped_total", "0+1", "7")],
    ),
    alarm(
        ("LogDropped", "info"),
        ("increase(grandstand_log_dropped_total[10m]) > 0", 0),
        (
            "drops lines of its log",
            "Nobody reads standard error in time: look at the supervisor or the terminal that should.",
        ),
        &[("grandstand_log_dropped_total", "0+1", "7")],
    ),
    alarm(
        ("RollbackForgotten", "info"),
        ("grandstand_rolled_back == 1", 24 * 60),
        ("has been rolled back for a day", "`grandstand snapshot release` makes the newest snapshot current."),
        &[("grandstand_rolled_back", "1", "0")],
    ),
    alarm(
        ("CertificateExpires", "warning"),
        ("grandstand_certificate_seconds < 7 * 86400", 60),
        (
            "has a TLS certificate that expires in {{ $value | humanizeDuration }}",
            "A new file is loaded within seconds. `findings` in `/status` say what is wrong with it. If a proxy does TLS, \
             watch its certificate there.",
        ),
        &[("grandstand_certificate_seconds", "86400", "2592000")],
    ),
];
