//! `[replica]` and `[publish]`.

use super::super::{Config, Use};

const KEY: &str = "RWAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[test]
fn the_use_follows_from_the_addresses() {
    let origin = "origin.url = \"https://api.example\"\n";
    let replica = "replica.url = \"https://store.example/fleet\"\n";
    for (text, usage) in [
        (String::new(), Use::Offline),
        (replica.to_owned(), Use::Replica),
        (format!("mirror.enabled = false\n{replica}"), Use::Replica),
        (origin.to_owned(), Use::Mirror),
        (format!("{origin}{replica}"), Use::Mirror),
        (format!("mirror.enabled = false\n{origin}{replica}"), Use::Shield),
    ] {
        assert_eq!(Config::from_text(&text).unwrap().config.usage(), usage, "{text}");
    }
}

#[test]
fn mistakes_are_named() {
    let (http, file) = ("replica.url = \"http://store.example/fleet\"", "replica.url = \"file:///srv/fleet\"");
    for (text, said) in [
        (http.to_owned(), "read without TLS"),
        (format!("{file}\npublish.url = \"file:///srv/fleet/\""), "is publish.url, too"),
        ("replica.url = \"ftp://store.example\"".to_owned(), "is not an address of the form"),
        (format!("{file}\nreplica.poll = \"10ms\""), "replica.poll"),
    ] {
        let errors = Config::from_text(&text).unwrap_err().to_string();
        assert!(errors.contains("replica.") && errors.contains(said), "{text}: {errors}");
    }
    for (text, said) in [
        ("url = \"https://example.org/x\"", "publish.url: \"https://example.org/x\" is not"),
        ("url = \"s3://me:hunter2@b/x\"", "publish.url: "),
        ("sign_password_file = \"/none\"", "publish.sign_password_file: "),
        ("url = \"s3://b/x\"\noptions.nonsense = \"hunter2\"", "publish.options.nonsense: "),
        ("url = \"file:///x\"\noptions.aws_region = \"hunter2\"", "publish.options.aws_region"),
        ("keep = \"1s\"", "publish.keep: "),
    ] {
        let errors = Config::from_text(&format!("[publish]\n{text}")).unwrap_err().to_string();
        assert!(errors.contains(said) && !errors.contains("hunter2"), "{text}: {errors}");
    }
    for text in [
        format!("{http}\nbundle.trusted_keys = [\"{KEY}\"]"),
        format!("{file}\npublish.url = \"file:///srv/other\""),
        format!("{file}\norigin.url = \"https://a.example\""),
    ] {
        assert!(Config::from_text(&text).is_ok(), "{text}");
    }
}

#[test]
fn credentials_are_not_shown() {
    let text = "[replica]\nurl = \"s3://bucket/fleet\"\n[replica.options]\naws_secret_access_key = \"hunter2\"";
    let config = Config::from_text(text).unwrap().config;
    let shown = format!("{}{config:?}", config.describe());
    assert!(!shown.contains("hunter2") && shown.contains("aws_secret_access_key"), "{shown}");
}

#[test]
fn an_option_that_the_store_does_not_know_is_one_mistake() {
    let set = "publish={url=\"s3://bucket/fleet\", options={azure_x=\"y\", region=\"z\"}}".to_owned();
    let examined = Config::examine(None, std::iter::empty(), &[set]);
    assert_eq!(examined.config.publish.options.iter().collect::<Vec<_>>(), [("region", "z")]);
    let errors = examined.finish().unwrap_err().to_string();
    assert_eq!(errors, "--set: publish.options.azure_x: is not a known option of \"s3\"");
}
