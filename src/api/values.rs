//! Comparison of JSON values: white space, escapes and the order of keys do not count.
//!
//! Programs with hash maps write another order at each answer, others pad their texts. Numbers keep their spelling, and
//! repeated keys their order: readers of JSON differ in which one counts. Never served. Callers: [`crate::mirror`],
//! [`super::taxonomy`], [`super::page`].

use super::json::{self, Token};

pub(crate) fn same(one: &str, other: &str) -> bool {
    same_but_for(one, other, |_| false)
}

/// The same, without the top-level fields that are `ignored`. A text that is no JSON equals only itself.
pub(crate) fn same_but_for(one: &str, other: &str, ignored: impl Fn(&str) -> bool) -> bool {
    one == other || values(one, &ignored).is_some_and(|values_of_one| Some(values_of_one) == values(other, &ignored))
}

struct Open {
    is_object: bool,
    shown: bool,
    /// Where each member starts, and where its key ends.
    members: Vec<(usize, usize)>,
}

/// The values in one form: each scalar with its length, the members of an object sorted by their keys.
fn values(text: &str, ignored: &impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let (mut out, mut open): (Vec<u8>, Vec<Open>) = (Vec::with_capacity(text.len()), Vec::new());
    let walked = json::walk(text, |token| {
        let (key, scalar, is_object) = match token {
            Token::Begin { key, object } => (key, None, object),
            Token::Scalar { key, value } => (key, Some(value), false),
            Token::End => return end(&mut out, open.pop()),
        };
        let at_top = open.len() == 1;
        let is_ignored = at_top && key.and_then(json::string).is_some_and(|key| ignored(&key));
        let mut shown = !is_ignored;
        if let Some(parent) = open.last_mut() {
            shown &= parent.shown;
            if let Some(key) = key.filter(|_| shown) {
                let start = out.len();
                put(&mut out, key);
                parent.members.push((start, out.len()));
            }
        }
        match scalar {
            Some(value) if shown => put(&mut out, value),
            Some(_) => {}
            None => {
                out.extend(Some(if is_object { b'{' } else { b'[' }).filter(|_| shown));
                open.push(Open { is_object, shown, members: Vec::new() });
            }
        }
    });
    walked.ok().map(|()| out)
}

/// Appends a scalar: a string decoded, so that its spelling does not matter.
fn put(out: &mut Vec<u8>, text: &str) {
    let decoded = text.starts_with('"').then(|| json::decoded(text)).flatten();
    let bytes = decoded.as_deref().unwrap_or(text.as_bytes());
    out.push(if decoded.is_some() { b'"' } else { b'1' });
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Sorts the members of a finished object, and appends its end.
fn end(out: &mut Vec<u8>, ended: Option<Open>) {
    let Some(Open { is_object, shown: true, members }) = ended else { return };
    if let Some(&(first, _)) = members.first() {
        let inside = out.split_off(first);
        let starts: Vec<usize> = members.iter().map(|member| member.0).chain([first + inside.len()]).collect();
        let mut places: Vec<usize> = (0..members.len()).collect();
        // Stable: repeated keys keep their order.
        places.sort_by_key(|place| &inside[members[*place].0 - first..members[*place].1 - first]);
        for place in places {
            out.extend_from_slice(&inside[starts[place] - first..starts[place + 1] - first]);
        }
    }
    out.push(if is_object { b'}' } else { b']' });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn the_order_of_keys_white_space_and_escapes_do_not_count() {
        for (one, other, are_equal) in [
            (
                r#"{"a":1,"b":[{"c":"x/y","d":null}]}"#,
                " {\"b\" : [{\"d\":null,\"c\":\"x\\/\\u0079\"}],\n\"a\":1}",
                true,
            ),
            (r#"{"a":1}"#, r#"{"\u0061":1}"#, true),
            (r#"{"a":4.5}"#, r#"{"a":4.50}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":null}"#, "{}", false),
            ("[1,2]", "[2,1]", false),
            ("[[1],2]", "[[1,2]]", false),
            ("[1,[2]]", "[[1,2]]", false),
            ("[{},[]]", "[[],{}]", false),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#, false),
            // Readers differ in which one counts.
            (r#"{"a":1,"b":3,"a":2}"#, r#"{"b":3,"a":1,"a":2}"#, true),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
            (r#"{"\ud800":1}"#, r#"{"\uD800":1}"#, true),
            (r#"{"\ud800":1}"#, r#"{"\ud801":1}"#, false),
            ("{", "{", true),
            ("{", " {", false),
        ] {
            assert_eq!(same(one, other), are_equal, "{one} {other}");
        }
        let but_for_a = |one, other| same_but_for(one, other, |key| key == "a");
        assert!(but_for_a(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":{"x":[3]}}"#));
        assert!(!but_for_a(r#"{"b":{"a":1}}"#, r#"{"b":{"a":2}}"#), "at the top only");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[ab]?".prop_map(Value::from)];
        scalar.prop_recursive(4, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]?", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn texts_are_the_same_just_if_a_parser_reads_the_same(one in any_value(), other in any_value()) {
            prop_assert_eq!(same(&one.to_string(), &other.to_string()), one == other);
            prop_assert!(same(&one.to_string(), &serde_json::to_string_pretty(&one).unwrap()));
        }
    }
}
