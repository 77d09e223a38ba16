//! What the configuration promises as a whole; single values are tested beside their readers.

mod invalid;
mod shipped;
mod sources;

use super::{Config, ConfigErrors};

/// The problems of a configuration given as text, one line each.
fn problems(text: &str) -> Vec<String> {
    match Config::from_text(text) {
        Ok(_) => Vec::new(),
        Err(errors) => lines(&errors),
    }
}

fn lines(errors: &ConfigErrors) -> Vec<String> {
    errors.to_string().lines().map(str::to_owned).collect()
}
