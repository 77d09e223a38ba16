//! serde visitors for objects and arrays: they give slices of the text, up to a given number.
//!
//! Callers: [`super`].

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Field, Picked};

pub(super) struct FieldsVisitor<'a> {
    pub most: usize,
    /// Set when there are more; reading ends there.
    pub exceeded: &'a mut bool,
}

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = Vec<Field<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(16);
        while let Some(key) = map.next_key_seed(KeySeed)? {
            if fields.len() == self.most {
                *self.exceeded = true;
                return Err(serde::de::Error::custom("too many fields"));
            }
            let value: &'de RawValue = map.next_value()?;
            let value = value.get();
            fields.push(Field { key, value });
        }
        Ok(fields)
    }
}

pub(super) struct PickVisitor<'a, 'de> {
    pub keys: &'a [&'a str],
    pub picked: &'a mut [Picked<'de>],
}

impl<'de> Visitor<'de> for PickVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(PlaceSeed(self.keys))? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value::<&'de RawValue>()?.get();
            self.picked[place] = match self.picked[place] {
                Picked::Absent => Picked::Once(value),
                Picked::Once(first) => Picked::Repeated(first, value),
                repeated @ Picked::Repeated(..) => repeated,
            };
        }
        Ok(())
    }
}

/// Reads a key as its place among some.
struct PlaceSeed<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for PlaceSeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for PlaceSeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == key))
    }
}

pub(super) struct ElementsVisitor<'a> {
    pub most: usize,
    /// Set when there are more; reading ends there.
    pub exceeded: &'a mut bool,
}

impl<'de> Visitor<'de> for ElementsVisitor<'_> {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&'de RawValue>()? {
            if elements.len() == self.most {
                *self.exceeded = true;
                return Err(serde::de::Error::custom("too many elements"));
            }
            elements.push(element.get());
        }
        Ok(elements)
    }
}

/// Reads a key, borrowing it where it holds no escape.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
