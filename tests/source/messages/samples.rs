//! Sample values for the placeholders of messages.
//!
//! Callers: [`super::reader`].

/// By the whole expression, by `Variant.index`, or by the name of a field, variable or type.
const SAMPLES: &[(&str, &str)] = &[
    // Fields of variants without names.
    ("BadId.0", "-7"),
    ("Broken.0", "Connection reset by peer (os error 104)"),
    ("CaFile.0", "\"/etc/ca.pem\" cannot be read: No such file or directory"),
    ("Certificate.0", "the private key does not belong to it"),
    ("Connection.0", "Connection reset by peer (os error 104)"),
    ("Damaged.0", "page 17 has the wrong checksum"),
    ("Decode.0", "invalid gzip header"),
    ("Failed.0", "the key is locked"),
    ("Foreign.0", "1001"),
    ("Format.0", "9"),
    ("GivenUp.0", "the server was restarted"),
    ("Handshake.0", "no cipher suites in common"),
    ("Idle.0", "connection closed before message completed"),
    ("InterimBody.0", "103"),
    ("LoggingError.0", "a global logger is already set"),
    ("Lost.0", "the task panicked"),
    ("Malformed.0", "invalid HTTP header"),
    ("NoCertificate.0", ": it is empty"),
    ("NoContainer.0", "\"soon\""),
    ("NoData.0", "/var/lib/grandstand"),
    ("NoDirectory.0", "/var/lib/grandstand"),
    ("NoFile.0", "/dev/null"),
    ("NoKey.0", ", but certificates"),
    ("NoSuchSnapshot.0", "12"),
    ("NotAKey.0", "RWQ"),
    ("NotASecretKey.0", "/etc/minisign.key"),
    ("NotASignature.0", "it is too long"),
    ("NotATime.0", "tomorrow"),
    ("NotPem.0", "missing section end"),
    ("NotStored.0", "/var/lib/grandstand"),
    ("Nothing.0", "/var/lib/grandstand"),
    ("OtherKey.0", "/etc/tls/cert.pem"),
    ("Query.0", "\"sinse=1\" is not understood; the only parameter is `since`, once"),
    ("Refused.0", "no snapshot is held back"),
    ("Repeated.0", "items"),
    ("Status.0", "199"),
    ("StrangeCertificate.0", "unexpected end of data"),
    ("StrangeKey.0", "unknown key type"),
    ("Summary.0", "invalid UTF-8"),
    ("TooLarge.0", "1073741824"),
    ("TooManyFields.0", "70"),
    ("TwoIds.0", "7"),
    ("TwoIds.1", "8"),
    ("Tls.0", "no native root certificates"),
    ("Unescaped.0", "20"),
    ("Unknown.0", "9f3"),
    ("Unreached.0", "Connection refused (os error 111)"),
    ("Unreadable.0", "No such file or directory (os error 2)"),
    ("Unsent.0", "Broken pipe (os error 32)"),
    ("Unsigned.0", "/media/venues.gsb"),
    ("UserAgent.0", "a header value has a line break"),
    ("WrongPassword.0", "/etc/minisign.key"),
    (
        "Contradictory.0",
        "the pages have 729 different listings, but page 1 states a total of 730; listing 1017 is on two pages",
    ),
    // Types.
    ("DatasetError", "listing 730123 is listed twice"),
    ("E", "the store is damaged: page 17 has the wrong checksum"),
    ("Error", "Permission denied (os error 13)"),
    ("JsonError", "expected `,` or `}` in \"{\\\"id\\\":1 2\""),
    ("KeyId", "E7620F1842B4E81F"),
    ("ListingId", "730123"),
    ("PartPosition", "part 3 (summaries, at byte 4096)"),
    ("PathBuf", "/var/lib/grandstand"),
    ("PathError", "it has an empty segment"),
    ("SignatureError", "\"RWQ\" is not a minisign public key"),
    ("SnapshotsError", "no snapshot 9f3 is kept"),
    ("StoreError", "no space left for /var/lib/grandstand/grandstand.redb"),
    ("Utf8Error", "invalid utf-8 sequence of 1 bytes from index 7"),
    // Expressions.
    ("Excerpt(path)", "/api/listings.json?page=7"),
    ("Excerpt(to)", "https://elsewhere.example/"),
    ("kind.path()", "/api/sports.json"),
    ("remedy(path,source)", "; there is no /media/venues.gsb: correct the path"),
    ("remedy(path.as_ref(),source)", "; there is no /media/venues.gsb: correct the path"),
    ("Untrusted.0", "signed with the key 731, which is not trusted"),
    ("path_of(.0).display()", "/media/venues.gsb.minisig"),
    ("INPUT", "standard input"),
    ("trusted.join(\",\")", "3A1D0C5B7E9F2468"),
    ("u32::MAX", "4294967295"),
    // Constants.
    ("FORMAT", "2"),
    ("MAX_DEPTH", "64"),
    ("MOST_INTERIM", "16"),
    ("MOST_ITEMS", "100"),
    // Fields and variables.
    ("address", "127.0.0.1:8080"),
    ("admin", "127.0.0.1:9090"),
    ("after", "10"),
    ("announced", "700"),
    ("at", "part 3 (summaries, at byte 4096)"),
    ("bytes", "4096"),
    ("detail", "page 17 has the wrong checksum"),
    ("done", "12"),
    ("undone", "imported"),
    ("end", "4096"),
    ("excerpt", "{\"id\":1 2"),
    ("expected", "a whole number"),
    ("field", "total"),
    ("first", "1"),
    ("found", "731"),
    ("given", "8e20b1"),
    ("held", "9f31c2"),
    ("newest", "9f31c2aa"),
    ("id", "9f31c2"),
    ("key", "origin.url"),
    ("kind", "9"),
    ("last", "none"),
    ("length", "4096"),
    ("limit", "900"),
    ("listings", "730 listings"),
    ("manifest", "730"),
    ("most", "65536"),
    ("needed", "9f31c2"),
    ("of", "730"),
    ("offset", "4096"),
    ("ours", "https://api.example.org"),
    ("page", "7"),
    ("parameter", "page"),
    ("part", "3"),
    ("path", "/var/lib/grandstand/grandstand.redb"),
    ("pid", "4711"),
    ("position", "3"),
    ("problem", "is not PEM: missing section end"),
    ("raw", "65536"),
    ("reason", "connection refused"),
    ("retry_after", "12"),
    ("second", "2"),
    ("seconds", "12"),
    ("served", "8e20b1"),
    ("signals", "SIGTERM and SIGINT"),
    ("slug", "baseball"),
    ("source", "Permission denied (os error 13)"),
    ("stage", "12 of 73 pages"),
    ("status", "503"),
    ("theirs", "https://mirror.example.net"),
    ("url", "http://127.0.0.1:9090"),
    ("value", "0"),
    ("wanted", "details"),
];

/// Whether there is a sample of this name.
pub(super) fn is_known(name: &str) -> bool {
    SAMPLES.iter().any(|(known, _)| *known == name)
}

/// A sample value of an expression, else its text in angle brackets.
pub(super) fn sample(expression: &str) -> String {
    let bare = expression.replace(' ', "");
    let of = |name: &str| SAMPLES.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    of(&bare).or_else(|| of(word(&bare))).unwrap_or_else(|| format!("<{bare}>"))
}

/// The name in an expression that is only converted for showing.
fn word(expression: &str) -> &str {
    const CONVERSIONS: [&str; 8] = [
        ".display()",
        ".as_str()",
        ".to_string()",
        ".as_secs()",
        ".as_secs_f32()",
        ".as_secs_f64()",
        ".unwrap_or(0)",
        ")",
    ];
    let mut rest = expression;
    while let Some(less) = CONVERSIONS.iter().find_map(|end| rest.strip_suffix(end)) {
        rest = less;
    }
    rest.rsplit(['.', '&', '*', '(', ':']).next().unwrap_or(rest)
}
