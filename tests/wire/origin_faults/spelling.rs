//! Right answers whose bytes are never the same: hash maps, padding, counters. Without entity tags: no two are equal.
//!
//! Callers: tests of cost and of values.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use sample::dice::Dice;
use sample_origin::{Asked, Body, FaultRule, Mishap, Switches};
use serde_json::Value;

use super::answers;

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The order of the keys of each object, as a hash map prints them that each process seeds anew.
    Shuffled,
    /// White space.
    Padded,
    /// A counter in each listing of a list.
    Counting,
}

impl Spelling {
    /// An origin that spells so.
    pub fn everywhere(self, switches: &mut Switches) {
        switches.gzip = false;
        switches.faults = vec![FaultRule::always("", self)];
    }

    /// Whether this origin spells so.
    pub fn is_of(self, switches: &Switches) -> bool {
        format!("{:?}", switches.faults).contains(&format!("{self:?}"))
    }

    fn write(self, value: &Value, dice: &mut Dice, out: &mut String) {
        let pad = " ".repeat(if self == Self::Padded { dice.below(4) as usize } else { 0 });
        out.push_str(&pad);
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
                for at in (1..fields.len()).filter(|_| self == Self::Shuffled) {
                    fields.swap(at, dice.below(at as u64 + 1) as usize);
                }
                out.push('{');
                for (number, (key, value)) in fields.into_iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    self.write(value, dice, out);
                }
                out.push('}');
            }
            Value::Array(values) => {
                out.push('[');
                for (number, value) in values.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    self.write(value, dice, out);
                }
                out.push(']');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
        out.push_str(&pad);
    }
}

#[async_trait]
impl Mishap for Spelling {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        static ANSWERS: AtomicU64 = AtomicU64::new(1);
        let number = ANSWERS.fetch_add(1, Ordering::Relaxed);
        let spell = |right: Bytes| {
            let mut value: Value = serde_json::from_slice(&right).unwrap();
            let listings = value.get_mut("items").and_then(Value::as_array_mut).filter(|_| *self == Self::Counting);
            for listing in listings.into_iter().flatten() {
                if let Some(id) = listing["id"].as_u64() {
                    listing["views"] = (number * 7 + id).into();
                }
            }
            let mut spelled = String::new();
            self.write(&value, &mut Dice::of(&[number]), &mut spelled);
            spelled
        };
        Ok(answers::rewritten(asked.right().await, spell).await)
    }
}
